//! The constants of `rtt`.
//!
//! They are fields, so that a study can move each of them (`examples/rtt_constants.rs` of
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

            /// Returns the constants with one of them multiplied by a factor.
            ///
            /// `None` if there is none of this name.
            pub fn moved(name: &str, factor: f64) -> Option<Self> {
                let mut tuning = SHIPPED;
                match name {
                    $(stringify!($name) => tuning.$name *= factor,)*
                    _ => return None,
                }
                Some(tuning)
            }
        }
    };
}

tuning! {
    /// Divisor of the slowest link's capacity at the start: half of the capacity of a long chain.
    initial_divisor = 6.0;
    /// Relative change from which a limit is set again.
    min_change = 0.004;
    /// Fullness of the fullest home from which a path counts as in use and the level as found.
    half_full = 0.5;
    /// Queue of a class in time at its first limit, in s.
    queue_time = 2.4;
    /// Minimum queue of a class in packets.
    min_queue = 8.0;
    /// Delay at the edge of the mesh's capacity, in packets on the slowest link.
    ///
    /// It is a queue of a packet at each hop and its neighbours.
    edge_delay_packets = 12.0;
    /// Delay at the edge of the mesh's capacity, in minimum round trips.
    edge_delay_round_trips = 8.0;
    /// Time in which a delay without new round trips fades, in s.
    ///
    /// A burst at the start must not count for minutes.
    delay_fade_time = 5.0;
    /// Age from which an unanswered packet is late, in s.
    late_age = 0.4;
    /// Time without use or sign after which the control does not count on it, in s.
    ///
    /// A home's use of the level falls over this time and rises by half in each control period; without any round trip
    /// for this time the level does not rise; counters over a longer time, after a suspended machine or a clock that was
    /// set, give no information; it is the time between messages to a node without agent.
    decay_time = 10.0;
    /// Time of the control's memory, in s.
    ///
    /// It is the time constant of a home's mean fullness and of the fraction of time with backlog, the time without
    /// overload that ends its history, and the time after which a source without effect has no agent.
    mean_time = 20.0;
    /// Multiple of its limit that a flood offers.
    ///
    /// No transport that responds to its losses loses half of its packets for the time of a flood.
    flood_ratio = 2.0;
    /// Time for which a flood exceeds its limit, in s.
    flood_time = 8.0;
    /// Time for which a flood exceeds its limit, in packets at its limit.
    flood_packets = 30.0;
    /// Multiple of its limit up to which traffic keeps the limit.
    compliant_ratio = 1.15;
    /// Multiple of its limit above which a limited source still floods.
    ///
    /// An agent passes as much as the limit.
    residual_flood_ratio = 0.3;
    /// Time over which the ratio of offered traffic to limit is known, in s.
    ///
    /// A source that keeps its limit for as long counts as limited.
    ratio_time = 2.0;
    /// Fraction of a home's share for its other traffic beside an unlimited flood.
    ///
    /// It applies while the flood is not limited at its source.
    other_traffic_share = 0.25;
    /// Idle time after which a home has ended, in s.
    idle_timeout = 4.0;
    /// Idle time after which a home in trouble has ended, in s.
    ///
    /// TCP's timeouts last longer there.
    troubled_idle_timeout = 30.0;
    /// Growth of the level where nothing is full, per s.
    gain = 0.04;
    /// Gain of the change of fullness: delay integrates overload, so this term damps the loop.
    damping = 0.2;
    /// Largest step of a control period, and growth until the first path is half full, per s.
    max_step = 0.12;
    /// Idle fraction of the gateway's air above which the level does not fall.
    idle_air = 0.75;
    /// Fastest fall in an episode of overload, in 1/s.
    max_fall_rate = 0.1;
    /// Fraction to which the level may fall before the fall counts as useless.
    useless_fall = 1.0 / 3.0;
    /// Time in which a change of the level shows its effect, in packets of a home.
    ///
    /// It is the least time before a fall counts as useless, and between two steps of raised homes.
    effect_packets = 40.0;
    /// Fraction of the fullest home's mean fullness below which a home's path has room.
    ///
    /// On meshes with one bottleneck all homes had at least 0.37 of it; with several bottlenecks, those with
    /// another one had 0.03 to 0.32.
    free_fullness = 0.3;
    /// Fraction of the fullest home's mean fullness above which a home's path has no room.
    bottleneck_fullness = 0.45;
    /// Factor of a step.
    ///
    /// A home is raised if it had backlog, and used the level, for the inverse of it.
    step_factor = 1.25;
    /// Fraction of the level that the others may lose by all steps.
    max_loss = 0.06;
    /// Time between two steps, in s.
    ///
    /// It doubles after a step that failed.
    period = 15.0;
    /// Doublings of the time between two steps after steps that failed.
    max_periods = 4.0;
    /// Relative change of the number of active homes above which levels are not compared.
    max_homes_change = 0.1;
    /// Number of messages in the time after which an agent drops a limit.
    ///
    /// Until the source keeps its limit, a message is sent in each control period.
    renewals = 4.0;
    /// Time for which a limited source must exceed its limit to count as unlimited again, in s.
    violation_time = 5.0;
}
