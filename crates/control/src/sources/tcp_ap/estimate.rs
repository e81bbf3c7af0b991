//! Spacing of packets from round trips.

use std::collections::VecDeque;

use fairmesh_units::{BitRate, Span};

/// Input of the estimate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// Wireless hops from the pacing node to the sink.
    pub hops: u32,
    /// Rate of the links.
    pub rate: BitRate,
    /// IP bytes of a full data packet.
    pub packet: u32,
    /// Distance in hops from which a packet no longer disturbs its successor.
    pub reuse: u32,
}

/// Bytes on the air in addition to an IP packet.
///
/// With TCP's and IP's 40, the released code counts 112 bytes of headers.
const FRAME_OVERHEAD_BYTES: u32 = 72;
/// Size of an acknowledgement in IP bytes.
const ACK_BYTES: u32 = 40;

/// Queueing and out-of-interference delay from which a sample is ignored, in s.
const MAX_SAMPLE_DELAY: f64 = 0.5;
/// Weight of the past in the mean of the out-of-interference delay.
const INTERFERENCE_MEMORY: f64 = 0.7;
/// Weight of the past in the mean of the queueing delay.
const QUEUEING_MEMORY: f64 = 0.5;
/// Number of round trips from which the variation is computed.
const VARIATION_SAMPLES: usize = 50;

/// Out-of-interference delay of one path and its variation.
#[derive(Clone, Debug)]
pub(super) struct Estimate {
    path: Path,
    /// Smoothed queueing delay of a hop, in s.
    queueing: f64,
    /// Smoothed out-of-interference delay, in s.
    delay: Option<f64>,
    /// Latest samples of the out-of-interference delay, in s.
    samples: VecDeque<f64>,
}

impl Estimate {
    pub fn new(path: Path) -> Self {
        Estimate {
            path,
            queueing: 0.0,
            delay: None,
            samples: VecDeque::with_capacity(VARIATION_SAMPLES),
        }
    }

    /// Handles a round trip; returns the spacing if there is one.
    pub fn sample(&mut self, rtt: Span) -> Option<Span> {
        let Path { hops, rate, packet, reuse } = self.path;
        let hops = hops.max(1);
        let seconds = |ip: u32| f64::from(8 * (ip + FRAME_OVERHEAD_BYTES)) / rate.0.max(1) as f64;
        let (data, ack) = (seconds(packet), seconds(ACK_BYTES));
        // A round trip consists of h times a data frame, an acknowledgement and two queues.
        let mut queueing = (rtt.as_secs_f64() / f64::from(hops) - (data + ack)) / 2.0;
        if queueing > MAX_SAMPLE_DELAY {
            queueing = self.queueing;
        }
        self.queueing = QUEUEING_MEMORY * self.queueing + (1.0 - QUEUEING_MEMORY) * queueing;
        // Paths shorter than `reuse` are paced over one hop, as the released code does.
        let spanned = if hops >= reuse { reuse } else { 1 };
        let delay = f64::from(spanned) * (queueing + data);
        if delay > 0.0 && delay < MAX_SAMPLE_DELAY {
            self.delay =
                Some(self.delay.map_or(delay, |d| {
                    INTERFERENCE_MEMORY * d + (1.0 - INTERFERENCE_MEMORY) * delay
                }));
            if self.samples.len() == VARIATION_SAMPLES {
                self.samples.pop_front();
            }
            self.samples.push_back(delay);
        }
        self.spacing()
    }

    /// Returns 1 / rate: (1 + 2 cov) × delay.
    pub fn spacing(&self) -> Option<Span> {
        let spacing = (1.0 + 2.0 * self.variation()) * self.delay?;
        Some(Span::from_secs_f64(spacing).max(Span::from_nanos(1)))
    }

    /// Returns the coefficient of variation of the latest samples.
    pub fn variation(&self) -> f64 {
        let n = self.samples.len() as f64;
        let mean = self.samples.iter().sum::<f64>() / n;
        let square = self.samples.iter().map(|s| (s - mean) * (s - mean)).sum::<f64>() / n;
        if mean > 0.0 { square.sqrt() / mean } else { 0.0 }
    }

    /// Returns the smoothed out-of-interference delay.
    pub fn delay(&self) -> Span {
        Span::from_secs_f64(self.delay.unwrap_or(0.0))
    }
}
