//! A common trait of connection-oriented transports, so that flows handle TCP and QUIC once.

use fairmesh_transport::{Connection, Flags, TcpConfig, quic};
use fairmesh_units::{Span, Time};

use super::meters::Meters;
use super::packet::{Packets, Payload};

/// One end of a connection, as a flow uses it.
pub(crate) trait Endpoint {
    type Config;

    fn client(config: &Self::Config) -> Self;
    fn server(config: &Self::Config) -> Self;
    fn connect(&mut self, now: Time);
    /// Spaces packets; without `window` the congestion window does not count.
    fn pace(&mut self, interval: Option<Span>, window: bool);
    fn next_deadline(&self) -> Time;
    fn on_deadline(&mut self, now: Time);
    /// Returns the next packet to send, if there is one.
    fn transmit(&mut self, now: Time, packets: &mut Packets) -> Option<Outbound>;
    /// Returns the congestion window, in bytes.
    fn window(&self) -> u64;
    /// Returns the number of retransmitted TCP segments or of QUIC packets declared lost.
    fn resent(&self) -> u64;
    /// Adds the counters of a connection that ends.
    fn add_to(&self, meters: &mut Meters);
    /// Returns the payload of a full packet, in bytes.
    fn payload(config: &Self::Config) -> u32;
}

/// A packet that an endpoint sends.
pub(crate) struct Outbound {
    pub payload: Payload,
    /// Length of the IP datagram.
    pub bytes: u32,
    /// True if it carries application data.
    pub data: bool,
    /// True if it is ECN-capable, and true if by ECT(1).
    pub ect: bool,
    pub ect1: bool,
}

/// Both ends of a flow's connection: `[0]` at the flow's origin, `[1]` at its destination.
#[derive(Clone, Debug)]
pub(crate) struct Pair<E: Endpoint> {
    pub ends: Box<[E; 2]>,
    config: E::Config,
}

impl<E: Endpoint> Pair<E> {
    pub fn new(config: E::Config, client: usize) -> Self {
        Pair { ends: Box::new(Self::fresh(&config, client)), config }
    }

    fn fresh(config: &E::Config, client: usize) -> [E; 2] {
        let mut ends = [E::server(config), E::server(config)];
        ends[client] = E::client(config);
        ends
    }

    /// Opens a new connection in place of the old one.
    pub fn reconnect(&mut self, now: Time, client: usize, pace: (Option<Span>, bool)) {
        *self.ends = Self::fresh(&self.config, client);
        self.ends[0].pace(pace.0, pace.1);
        self.ends[client].connect(now);
    }

    #[inline]
    pub fn next_deadline(&self) -> Time {
        self.ends[0].next_deadline().min(self.ends[1].next_deadline())
    }

    #[inline]
    pub fn on_deadline(&mut self, now: Time) {
        for end in self.ends.iter_mut() {
            if end.next_deadline() <= now {
                end.on_deadline(now);
            }
        }
    }

    /// Adds the counters of both ends.
    pub fn add_to(&self, meters: &mut Meters) {
        self.ends.iter().for_each(|end| end.add_to(meters));
    }

    /// Returns the payload of a full packet, in bytes.
    pub fn payload(&self) -> u32 {
        E::payload(&self.config)
    }
}

/// Methods with the same name in both transports.
macro_rules! common {
    ($config:ty) => {
        type Config = $config;

        fn client(config: &Self::Config) -> Self {
            Self::client(config)
        }
        fn server(config: &Self::Config) -> Self {
            Self::server(config)
        }
        fn connect(&mut self, now: Time) {
            self.connect(now);
        }
        fn pace(&mut self, interval: Option<Span>, window: bool) {
            self.pace(interval, window);
        }
        #[inline]
        fn next_deadline(&self) -> Time {
            self.next_deadline()
        }
        #[inline]
        fn on_deadline(&mut self, now: Time) {
            self.on_deadline(now);
        }
        fn window(&self) -> u64 {
            self.stats().cwnd
        }
    };
}

impl Endpoint for Connection {
    common!(TcpConfig);

    #[inline]
    fn transmit(&mut self, now: Time, _: &mut Packets) -> Option<Outbound> {
        let segment = self.poll_transmit(now)?;
        Some(Outbound {
            payload: Payload::Tcp(segment),
            bytes: segment.ip_bytes(),
            data: segment.len > 0,
            ect: segment.flags.has(Flags::ECT),
            ect1: segment.flags.has(Flags::ECT1),
        })
    }

    fn resent(&self) -> u64 {
        self.stats().retransmitted
    }

    fn add_to(&self, meters: &mut Meters) {
        let s = self.stats();
        meters.segments += s.segments_sent;
        meters.retransmits += s.retransmitted;
        meters.timeouts += s.timeouts;
    }

    fn payload(config: &TcpConfig) -> u32 {
        config.mss
    }
}

impl Endpoint for quic::Connection {
    common!(quic::Config);

    // Not inlined: fewer flows are QUIC than TCP, and it would enlarge TCP's code.
    #[cold]
    fn transmit(&mut self, now: Time, packets: &mut Packets) -> Option<Outbound> {
        let body = self.poll_transmit(now)?;
        Some(Outbound {
            bytes: body.ip_bytes(),
            data: body.data() > 0,
            ect: body.ecn != quic::Ecn::NotEct,
            ect1: body.ecn == quic::Ecn::Ect1,
            payload: packets.keep(body),
        })
    }

    fn resent(&self) -> u64 {
        self.stats().lost
    }

    fn add_to(&self, meters: &mut Meters) {
        meters.quic.add(&self.stats());
    }

    fn payload(config: &quic::Config) -> u32 {
        config.full_packet().0
    }
}
