//! The constants of `rtt`.
//!
//! They are fields, so that a study can move each of them (`examples/rtt_study.rs` of
//! `fairmesh-experiments`).

macro_rules! tuning {
    ($($(#[$about:meta])* $name:ident = $value:expr;)*) => {
        /// The constants.
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub(crate) struct Tuning {
            $($(#[$about])* pub $name: f64,)*
        }

        /// The constants in force.
        pub(super) static SHIPPED: Tuning = Tuning { $($name: $value,)* };

        impl Tuning {
            /// Names and values of all constants.
            pub fn list() -> Vec<(&'static str, f64)> {
                vec![$((stringify!($name), SHIPPED.$name),)*]
            }

            /// Returns the constants with other values for some of them.
            ///
            /// `None` if there is no constant of such a name.
            pub fn with(values: &[(&str, f64)]) -> Option<Self> {
                let mut tuning = SHIPPED;
                for (name, value) in values {
                    match *name {
                        $(stringify!($name) => tuning.$name = *value,)*
                        _ => return None,
                    }
                }
                Some(tuning)
            }
        }
    };
}

tuning! {
    /// Divisor of the slowest link's capacity at the start: half of the capacity of a long chain.
    ///
    /// Its square is the divisor for the least capacity, since links behind that one may be slower.
    initial_divisor = 6.0;
    /// Delay at the edge of the mesh's capacity, in packets on the slowest link.
    ///
    /// It is a queue of a packet at each hop and its neighbours.
    edge_delay_packets = 12.0;
    /// Delay at the edge of the mesh's capacity, in minimum round trips.
    edge_delay_round_trips = 8.0;
    /// Memory of a fullness, in round trips, or in s while there are none.
    ///
    /// A burst at the start must not count for minutes, and a single round trip must not move the level.
    fullness_memory = 5.0;
    /// Age from which an unanswered packet is late, in s.
    late_age = 0.4;
    /// Memory of a home's use of the level, in s.
    ///
    /// The use falls over this time and rises by half in each control period. Without any round trip for this time the
    /// level does not rise. Counters over a longer time, after a suspended machine or a clock that was set, give no
    /// information. It is the time between messages to a node without agent. Comparisons of homes and levels take twice
    /// this time ([`Tuning::long`]).
    memory = 10.0;
    /// Growth of the level where nothing is full, per s.
    ///
    /// The largest step of a control period, and the growth until the first path is half full, are three times it.
    gain = 0.04;
    /// Gain of the change of fullness: delay integrates overload, so this term damps the loop.
    damping = 0.2;
    /// Idle fraction of the gateway's air above which the level does not fall.
    idle_air = 0.75;
    /// Fraction of the carried rate from which a fall of the level counts as useless.
    useless_fall = 1.0 / 3.0;
    /// Time in which a change of a limit shows its effect, in packets at the limit.
    ///
    /// It is the least time before a fall counts as useless, and between two raises.
    effect_packets = 40.0;
    /// Fullness from which a path counts as in use.
    ///
    /// It is also the fraction of the fullest home's mean fullness from which a path has no room.
    half_full = 0.5;
    /// Fraction of the fullest home's mean fullness below which a home's path has room.
    ///
    /// On meshes with one bottleneck all homes had at least 0.37 of it; with several bottlenecks, those with
    /// another one had 0.03 to 0.32.
    free_fullness = 0.3;
    /// Factor of a raise.
    ///
    /// A home is raised if it had backlog, and used the level, for the inverse of it.
    raise_factor = 1.25;
    /// Change of the level that is not noise; twice as much for the number of active homes.
    significant_change = 0.06;
    /// Multiple of its limit that a flood offers.
    ///
    /// No transport that responds to its losses loses half of its packets for the time of a flood.
    flood_ratio = 2.0;
    /// Time for which a flood exceeds its limit, or a limited source breaks it, in s.
    ///
    /// A quarter of it is the time over which the ratio of offered traffic to limit is known.
    flood_time = 8.0;
    /// Multiple of its limit up to which traffic keeps the limit.
    compliant_ratio = 1.15;
}

impl Default for &Tuning {
    fn default() -> Self {
        &SHIPPED
    }
}

impl Tuning {
    /// Largest step of a control period, per s.
    pub fn max_step(&self) -> f64 {
        3.0 * self.gain
    }

    /// Time of comparisons, in s.
    pub fn long(&self) -> f64 {
        2.0 * self.memory
    }

    /// Weight of a control period of `elapsed` s in a mean over `time` s.
    pub fn weight(elapsed: f64, time: f64) -> f64 {
        1.0 - (-elapsed / time).exp()
    }

    /// Fraction of its limit above which a limited source still floods.
    ///
    /// An agent passes as much as the limit. It is also the fraction of a home's share for its other traffic beside a flood without a limit at its source.
    pub fn residual_share(&self) -> f64 {
        self.flood_ratio.powi(-2)
    }

    /// Time in which a limit of `rate` bit/s shows its effect, in s.
    pub fn effect_time(&self, rate: f64) -> f64 {
        self.effect_packets * super::PACKET_BITS / rate.max(1.0)
    }
}
