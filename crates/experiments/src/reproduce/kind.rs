//! The numbers that an experiment may ask for.

use serde::Deserialize;

/// Kind of a number.
///
/// Rates are in kbit/s of application data, delays in ms, windows in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Goodput of a flow.
    Goodput,
    /// Standard deviation of the goodputs of those flows that count as one.
    ///
    /// Flows count as one by their subscriber or their ends.
    Spread,
    /// Goodput of a flow over its analytic fair rate.
    OverFair,
    /// Goodput of a flow over its max-min share of one resource that all flows share.
    ///
    /// The share is the measure's `share` if all flows can use it. It is larger if applications
    /// with a limited rate leave part of theirs unused (Jamshaid 2010 §8.2.4).
    OverShare,
    /// Rate at which data packets enter the network at a flow's source, without headers.
    Sent,
    /// Mean one-way delay of a flow's data.
    Delay,
    /// Standard deviation of the one-way delay of a flow's data.
    DelayDeviation,
    /// Mean one-way delay of all data packets together, so that long flows have more weight.
    PacketDelay,
    /// Standard deviation of [`PacketDelay`](Kind::PacketDelay).
    PacketDelayDeviation,
    /// Mean delay of a flow's data from the first radio queue to its acknowledgement's return.
    ///
    /// It is measured at the queue of the first radio on the path (Triantafyllidou 2005 §3.3.3).
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
    /// Time in which data of a flow arrived, s (Jang 2010 §5).
    ///
    /// It is the number of samples with data times their interval.
    Activity,
    /// Completed files or responses, per second.
    Completed,
    /// Lost data packets of a flow, per cent of those that are lost or delivered.
    Dropped,
    /// Share of the frames sent by a flow's destination that get no MAC acknowledgement.
    ///
    /// Acknowledgements of the MAC do not count as frames. If the destination relays nothing, the
    /// frames are the transport's acknowledgements.
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
    /// Bytes of signalling per second over all nodes, in headers and messages.
    SignallingBytes,
    /// Airtime of signalling, ms per second, over all nodes.
    SignallingAirtime,
    /// A result of a study, which a single run does not have.
    Study,
    /// Sum of the goodputs of one-hop flows.
    OneHop,
    /// Sum of the goodputs of multi-hop flows.
    MultiHop,
    /// E of Mancuso 2010 (11), per cent.
    ///
    /// It is the mean relative distance of [`OneHop`](Kind::OneHop) and
    /// [`MultiHop`](Kind::MultiHop) from their targets. Targets are four fifths of the analytic
    /// rates.
    ShareError,
    /// Mean rate that the control sets for a flow.
    Rate,
    /// Halvings of a flow's rate by WCP, per second.
    Halvings,
    /// Additive increases of a flow's rate by WCP, per second.
    ///
    /// It is the inverse of their interval, averaged over time.
    Increases,
    /// Time from which the rate that the control sets for a flow stays near its final value, s.
    ///
    /// The rate stays within a tenth of its average in the second half of the run.
    Settled,
    /// Utilisation above which an access point marks (ρ₀ of Triantafyllidou 2005 §3.2).
    ///
    /// It is the mean over the measured time, as reported by LBM's decisions in whole per cent.
    MarkingThreshold,
    /// Time from the start of a phase until the goodput of one-hop flows settles, in s.
    ///
    /// The sum of their goodputs first comes within a tenth of its average in the phase's second
    /// half (Mancuso 2010 §VI.C).
    Reached,
    /// Mean airtime limit of links, per cent (Jang 2010 §3).
    ///
    /// It is summed over the links that the measure names.
    AirtimeLimit,
    /// Retransmitted data frames of the MAC per packet, on the links that the measure names.
    Retries,
    /// Airtime without external energy, per cent (Jang 2010 §3, ACA).
    ///
    /// It is the minimum over the nodes that the measure names.
    AvailableAir,
    /// Fraction of the measured time in which a node neither sends nor senses, per cent.
    ///
    /// It is the minimum over the nodes that the measure names.
    IdleAir,
    /// Application data that arrived in a phase, kilobytes.
    ///
    /// It is the sum over the flows that the measure names, or over all flows.
    Delivered,
}

impl Kind {
    /// Returns true if runs must measure acknowledged delays.
    ///
    /// See [`acknowledged_delay_s`](fairmesh_engine::record::FlowRecord::acknowledged_delay_s).
    pub fn is_acknowledged(self) -> bool {
        matches!(
            self,
            Kind::AcknowledgedDelay
                | Kind::AcknowledgedDelayDeviation
                | Kind::AcknowledgedPacketDelay
                | Kind::AcknowledgedPacketDelayDeviation
        )
    }

    /// Returns the code of the decisions from which it is read, if it is read from any.
    pub fn decision(self) -> Option<&'static str> {
        match self {
            Kind::MarkingThreshold => Some("lbm.load"),
            Kind::Halvings => Some("wcp.decrease"),
            Kind::Increases => Some("wcp.increase"),
            _ => None,
        }
    }

    /// Returns true if it is read at the links or nodes that its measure names.
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

    /// Returns true if the emulator measures it.
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

    /// Returns true if there is one number per flow.
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
    fn measures_without_kernel_counters_are_not_emulated() {
        assert!(Kind::Goodput.is_emulated() && Kind::Jain.is_emulated());
        assert!(!Kind::Delay.is_emulated() && !Kind::SignallingBytes.is_emulated());
    }
}
