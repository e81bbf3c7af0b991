//! Description of an application.

use core::fmt;

use fairmesh_units::{BitRate, Bytes, Span, Stream};

use super::scale;

/// An end of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowEnd {
    /// Origin of the counted bytes.
    From,
    /// Destination of the counted bytes.
    To,
}

/// Distribution of the size of a transfer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SizeLaw {
    /// Always this large.
    Fixed(Bytes),
    /// Pareto with this mean and shape (above 1).
    Pareto {
        /// Mean size.
        mean: Bytes,
        /// Shape; below 2 the variance is infinite.
        shape: f64,
    },
    /// Normal; a value below a byte counts as one.
    Normal {
        /// Mean size.
        mean: Bytes,
        /// Standard deviation.
        deviation: Bytes,
    },
    /// Uniform between a minimum and a maximum, both included.
    Uniform {
        /// Minimum size.
        least: Bytes,
        /// Maximum size.
        most: Bytes,
    },
}

impl SizeLaw {
    /// Returns one draw, at least a byte.
    pub(crate) fn draw(self, rng: &mut Stream) -> u64 {
        match self {
            SizeLaw::Fixed(bytes) => bytes.0,
            // `as` saturates; below u64::MAX, which means endless.
            SizeLaw::Pareto { mean, shape } => {
                ((rng.pareto(shape, mean.0 as f64) + 0.5) as u64).clamp(1, u64::MAX / 2)
            }
            SizeLaw::Normal { mean, deviation } => {
                let size = rng.normal(mean.0 as f64, deviation.0 as f64) + 0.5;
                (size as u64).clamp(1, u64::MAX / 2)
            }
            SizeLaw::Uniform { least, most } => {
                let size = rng.uniform(least.0 as f64, most.0 as f64 + 1.0);
                (size as u64).clamp(least.0, most.0)
            }
        }
    }

    fn problem(self, what: &'static str) -> Result<(), TrafficError> {
        match self {
            SizeLaw::Fixed(Bytes(0))
            | SizeLaw::Pareto { mean: Bytes(0), .. }
            | SizeLaw::Normal { mean: Bytes(0), .. }
            | SizeLaw::Uniform { least: Bytes(0), .. } => Err(TrafficError::Zero(what)),
            SizeLaw::Uniform { least, most } if most < least => {
                Err(TrafficError::Sizes { least, most })
            }
            SizeLaw::Pareto { shape, .. } if !(shape > 1.0 && shape.is_finite()) => {
                Err(TrafficError::Shape(shape))
            }
            _ => Ok(()),
        }
    }
}

/// Distribution of an application's pause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pause {
    /// Always this long.
    Fixed(Span),
    /// Exponential with this mean.
    Exponential(Span),
}

impl Pause {
    pub(crate) fn draw(self, rng: &mut Stream) -> Span {
        match self {
            Pause::Fixed(span) => span,
            Pause::Exponential(mean) => scale(mean, rng.exponential(1.0)),
        }
    }
}

/// Timing of the client's requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestTiming {
    /// After a pause from the last byte of a response: a closed loop.
    AfterAnswer(Pause),
    /// After a pause from the previous request, regardless of its response: an open loop.
    ///
    /// All requests use one connection, and responses keep their order.
    Every(Pause),
}

/// Behaviour of a flow's application.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum TrafficSpec {
    /// One TCP connection with endless data.
    Bulk,
    /// Consecutive files, each on a new TCP connection.
    Files {
        /// Size of a file.
        size: SizeLaw,
        /// Time from the arrival of a file's last byte to the next connection.
        pause: Pause,
        /// Number of files; `None`: until the flow stops.
        count: Option<u32>,
    },
    /// UDP at a constant rate.
    Cbr {
        /// Rate of payload.
        rate: BitRate,
        /// Payload of a datagram, in bytes.
        datagram: u32,
        /// Relative jitter, 0 to 1: each gap is multiplied by a uniform draw from 1 ± this.
        jitter: f64,
    },
    /// Requests and responses over TCP.
    ///
    /// The responses are the flow's bytes: the requesting end is at the flow's destination.
    Http {
        /// Size of a request.
        request: SizeLaw,
        /// Size of a response.
        response: SizeLaw,
        /// Timing of the next request.
        asking: RequestTiming,
        /// Number of requests per connection; an open loop keeps its first connection.
        per_connection: u32,
    },
    /// TCP with an application that writes at a constant rate.
    Limited {
        /// Rate at which the application writes.
        rate: BitRate,
        /// Bytes written at a time.
        chunk: u32,
    },
}

impl TrafficSpec {
    /// Returns the end of the flow that opens its connections: the TCP client.
    pub const fn opener(&self) -> FlowEnd {
        match self {
            TrafficSpec::Http { .. } => FlowEnd::To,
            _ => FlowEnd::From,
        }
    }

    /// Returns true if it uses UDP.
    pub const fn is_udp(&self) -> bool {
        matches!(self, TrafficSpec::Cbr { .. })
    }

    /// Checks that a source can work with it.
    ///
    /// # Errors
    /// The first size, rate or count that is zero, shape not above 1, or jitter outside 0 to 1.
    pub fn validate(&self) -> Result<(), TrafficError> {
        let zero = |what, is_zero| if is_zero { Err(TrafficError::Zero(what)) } else { Ok(()) };
        match *self {
            TrafficSpec::Bulk => Ok(()),
            TrafficSpec::Files { size, .. } => size.problem("file size"),
            TrafficSpec::Cbr { rate, datagram, jitter } => {
                zero("rate", rate.0 == 0)?;
                zero("datagram size", datagram == 0)?;
                if datagram > 65_507 {
                    return Err(TrafficError::DatagramTooLarge(datagram));
                }
                if (0.0..=1.0).contains(&jitter) {
                    Ok(())
                } else {
                    Err(TrafficError::Jitter(jitter))
                }
            }
            TrafficSpec::Http { request, response, asking, per_connection } => {
                request.problem("request size")?;
                zero("requests per connection", per_connection == 0)?;
                let RequestTiming::Every(Pause::Fixed(gap) | Pause::Exponential(gap)) = asking
                else {
                    return response.problem("response size");
                };
                zero("time between requests", gap == Span::ZERO)?;
                response.problem("response size")
            }
            TrafficSpec::Limited { rate, chunk } => {
                zero("rate", rate.0 == 0)?;
                zero("chunk", chunk == 0)
            }
        }
    }
}

/// Reason for rejecting an application.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum TrafficError {
    /// The value must not be zero.
    Zero(&'static str),
    /// A Pareto distribution needs a shape above 1; otherwise it has no mean.
    Shape(f64),
    /// The jitter fraction must be between 0 and 1.
    Jitter(f64),
    /// The minimum size is above the maximum.
    Sizes {
        /// Minimum size.
        least: Bytes,
        /// Maximum size.
        most: Bytes,
    },
    /// The datagram does not fit IPv4 (65,507 bytes of payload at most).
    DatagramTooLarge(u32),
}

impl fmt::Display for TrafficError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrafficError::Zero(what) => write!(f, "{what} must not be zero"),
            TrafficError::Shape(shape) => {
                write!(f, "the Pareto shape is {shape}; it must be above 1, or there is no mean")
            }
            TrafficError::Jitter(jitter) => {
                write!(f, "the jitter is {jitter}; it must be between 0 and 1")
            }
            TrafficError::Sizes { least, most } => {
                write!(f, "sizes from {least} to {most}; the least must not be above the most")
            }
            TrafficError::DatagramTooLarge(bytes) => {
                write!(f, "a datagram of {bytes} B does not fit IPv4 (65507 B at most)")
            }
        }
    }
}

impl core::error::Error for TrafficError {}
