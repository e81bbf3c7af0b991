//! The numbers that an experiment may ask for.

use serde::Deserialize;

/// Kind of a number. Rates are in kbit/s of application data, delays in ms, windows in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Goodput of a flow.
    Goodput,
    /// Standard deviation of the goodputs of those flows that count as one, by their subscriber or their
    /// ends.
    Spread,
    /// Goodput of a flow over its analytic fair rate.
    OverFair,
    /// Goodput of a flow over its part of one resource that all flows share by max-min: the measure's
    /// `share` for each if all could use it, more if applications with a limited rate leave some of theirs
    /// (Jamshaid 2010 §8.2.4).
    OverShare,
    /// Rate at which data packets enter the network at a flow's source, without headers.
    Sent,
    /// Mean one-way delay of a flow's data.
    Delay,
    /// Standard deviation of the one-way delay of a flow's data.
    DelayDeviation,
    /// Mean one-way delay of all data packets together, so that long flows count for more.
    PacketDelay,
    /// Standard deviation of [`PacketDelay`](Kind::PacketDelay).
    PacketDelayDeviation,
    /// Mean time that a flow's data takes from the queue of the first radio on its path to its
    /// acknowledgement's return there (Triantafyllidou 2005 §3.3.3).
    AcknowledgedDelay,
    /// Standard deviation of [`AcknowledgedDelay`](Kind::AcknowledgedDelay).
    AcknowledgedDelayDeviation,
    /// Mean [`AcknowledgedDelay`](Kind::AcknowledgedDelay) of all data packets together.
    AcknowledgedPacketDelay,
    /// Standard deviation of [`AcknowledgedPacketDelay`](Kind::AcknowledgedPacketDelay).
    AcknowledgedPacketDelayDeviation,
    /// Mean congestion window of a flow.
    Window,
    /// Largest congestion window of a flow.
    LargestWindow,
    /// Seconds in which something of a flow arrived: samples, times their interval (Jang 2010 §5).
    Activity,
    /// Files or answers completed, per second.
    Completed,
    /// Data packets of a flow that are lost on its way, per cent of those that are lost or delivered.
    Dropped,
    /// Share of the frames that a flow's destination puts on the air, without acknowledgements of
    /// the MAC, that get none themselves. Where the destination relays nothing those are the
    /// transport's acknowledgements.
    BackwardFrameLoss,
    /// Jain's index of the goodputs.
    Jain,
    /// Jain's index of goodput over fair rate.
    JainNormalized,
    /// Smallest goodput over fair rate.
    MinOverFair,
    /// Smallest goodput over the mean of all.
    MinOverMean,
    /// MPDUs per data frame, over all nodes.
    PacketsPerFrame,
    /// Largest goodput over fair rate.
    MaxOverFair,
    /// Σ goodput × hops over the same sum at the fair rates.
    Utilization,
    /// Sum of the goodputs.
    SumGoodput,
    /// Bytes of signalling per second, over all nodes: headers and messages.
    SignallingBytes,
    /// Airtime of signalling, ms per second, over all nodes.
    SignallingAirtime,
    /// A result of a study, which no single run has.
    Study,
    /// Sum of the goodputs of flows of one hop.
    OneHop,
    /// Sum of the goodputs of flows of more hops.
    MultiHop,
    /// E of Mancuso 2010 (11) in per cent: how far [`OneHop`](Kind::OneHop) and
    /// [`MultiHop`](Kind::MultiHop) are from their targets on average, in parts of these. Targets
    /// are four fifths of the analytic rates.
    ShareError,
    /// Mean rate that the control sets for a flow.
    Rate,
    /// Halvings of a flow's rate by WCP, per second.
    Halvings,
    /// Additive increases of a flow's rate by WCP, per second: the inverse of their interval, averaged over time.
    Increases,
    /// Time from which the rate that the control sets for a flow stays within a tenth of its average
    /// in the second half of the run, s.
    Settled,
    /// Utilisation from which on an access point marks (ρ₀ of Triantafyllidou 2005 §3.2): its mean over the
    /// measured time, as LBM's decisions report it, in whole per cent each.
    MarkingThreshold,
    /// Time from the beginning of a phase until the goodput of all flows of one hop together first comes within a tenth
    /// of what it is on average in the phase's second half, s (Mancuso 2010 §VI.C).
    Reached,
    /// Part of the air that a control lets links have, per cent: its mean, summed over those that the measure names
    /// (Jang 2010 §3).
    AirtimeLimit,
    /// Data frames that the MAC sends again per packet, on the links that the measure names.
    Retries,
    /// Part of the air that no external energy takes, per cent, at the nodes that the measure names: the
    /// least of them (Jang 2010 §3, ACA).
    AvailableAir,
    /// Part of the measured time in which a node neither sends nor senses anything, per cent, at the nodes that the
    /// measure names: the least of them.
    IdleAir,
    /// Application data that arrived in a phase, kilobytes, of the flows that the measure names, or of all.
    Delivered,
}

impl Kind {
    /// True if runs must measure [`acknowledged_delay_s`](fairmesh_engine::record::FlowRecord::acknowledged_delay_s).
    pub fn is_acknowledged(self) -> bool {
        matches!(
            self,
            Kind::AcknowledgedDelay
                | Kind::AcknowledgedDelayDeviation
                | Kind::AcknowledgedPacketDelay
                | Kind::AcknowledgedPacketDelayDeviation
        )
    }

    /// Code of the decisions that it is read from, where it is.
    pub fn decision(self) -> Option<&'static str> {
        match self {
            Kind::MarkingThreshold => Some("lbm.load"),
            Kind::Halvings => Some("wcp.decrease"),
            Kind::Increases => Some("wcp.increase"),
            _ => None,
        }
    }

    /// True if it is read at the links or nodes that its measure names.
    pub fn is_at(self) -> bool {
        matches!(self, Kind::AirtimeLimit | Kind::Retries | Kind::AvailableAir | Kind::IdleAir)
    }

    /// Checks that a measure of this kind names places if it must, and only if it may.
    ///
    /// `given` is true if the measure names places.
    ///
    /// # Errors
    /// Returns the problem and the expected value, for the user.
    pub fn places(self, given: bool) -> Result<(), &'static str> {
        match (self.is_at(), given) {
            (true, false) => Err("at: is missing; expected links or nodes"),
            (false, true) if self != Kind::Delivered => {
                Err("at: found places; expected none for this kind")
            }
            _ => Ok(()),
        }
    }

    /// True if the emulator measures it.
    ///
    /// The emulator measures what applications receive, but neither delays of TCP nor signalling (docs/emulator.md).
    pub fn is_emulated(self) -> bool {
        matches!(
            self,
            Kind::Goodput
                | Kind::Spread
                | Kind::OverFair
                | Kind::OverShare
                | Kind::Jain
                | Kind::JainNormalized
                | Kind::MinOverFair
                | Kind::MinOverMean
                | Kind::MaxOverFair
                | Kind::Utilization
                | Kind::SumGoodput
                | Kind::OneHop
                | Kind::MultiHop
                | Kind::ShareError
        )
    }

    /// True if there is one per flow.
    pub fn is_per_flow(self) -> bool {
        matches!(
            self,
            Kind::Goodput
                | Kind::Spread
                | Kind::OverFair
                | Kind::OverShare
                | Kind::Sent
                | Kind::Delay
                | Kind::DelayDeviation
                | Kind::AcknowledgedDelay
                | Kind::AcknowledgedDelayDeviation
                | Kind::Window
                | Kind::LargestWindow
                | Kind::Completed
                | Kind::Dropped
                | Kind::Activity
                | Kind::BackwardFrameLoss
                | Kind::Rate
                | Kind::Settled
                | Kind::Halvings
                | Kind::Increases
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_does_not_tell_has_no_number() {
        assert!(Kind::Goodput.is_emulated() && Kind::Jain.is_emulated());
        assert!(!Kind::Delay.is_emulated() && !Kind::SignallingBytes.is_emulated());
    }
}
