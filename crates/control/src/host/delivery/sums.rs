//! Sums per period, from cumulative counters of neighbours and of flows.

use fairmesh_units::{Span, Time};

use crate::{Event, FlowLink, FlowSum, SentSum, Station};

/// Largest number of neighbours, and of flows and links, that are summed up.
const MAX_ENTRIES: usize = 4096;
/// Time by which the airtime of a period may exceed the period.
///
/// An exchange is counted when it ends.
const MAX_EXCESS: Span = Span::from_millis(30);

/// Counters of one neighbour or one flow on a link.
#[derive(Clone, Copy, Debug)]
struct Counted<T> {
    latest: T,
    /// Counters at the end of the last period.
    base: Option<T>,
}

/// Counters of all neighbours and flows, and the end of the period.
#[derive(Debug)]
pub(super) struct Sums {
    period: Span,
    pub due: Time,
    began: Time,
    stations: Vec<Counted<Station>>,
    flows: Vec<Counted<FlowLink>>,
}

/// Returns the growth of a counter; `None` if it ran backwards.
fn grown(to: u64, from: u64) -> Option<u64> {
    to.checked_sub(from)
}

fn count(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Returns the sum between two samples of a neighbour's counters.
///
/// `None` without a frame, or if the counters were reset or jumped.
fn station_sum(from: &Station, to: &Station, period: Span) -> Option<SentSum> {
    let packets = grown(to.tx_packets, from.tx_packets).filter(|n| *n > 0)?;
    let failed = grown(to.tx_failed, from.tx_failed)?.min(packets);
    let retries = grown(to.tx_retries, from.tx_retries)?;
    let bytes = grown(to.tx_bytes, from.tx_bytes)?;
    let airtime = grown(to.tx_airtime.as_nanos(), from.tx_airtime.as_nanos())?;
    let airtime = Span::from_nanos(airtime);
    if airtime > period + MAX_EXCESS {
        return None;
    }
    Some(SentSum {
        to: to.node,
        period,
        packets: count(packets),
        failed: count(failed),
        attempts: count(packets.saturating_add(retries)),
        bytes,
        airtime,
        rate: to.tx_rate,
    })
}

/// Returns the sum between two samples of a flow's counters on a link.
fn flow_sum(from: &FlowLink, to: &FlowLink) -> Option<FlowSum> {
    let packets = grown(to.packets, from.packets).filter(|n| *n > 0)?;
    let bytes = grown(to.bytes, from.bytes)?;
    let FlowLink { link, flow, ack, .. } = *to;
    Some(FlowSum { link, flow, ack, packets: count(packets), bytes })
}

impl Sums {
    pub fn new(period: Span) -> Self {
        let due = Time::ZERO + period;
        Sums { period, due, began: Time::ZERO, stations: Vec::new(), flows: Vec::new() }
    }

    /// Takes a sample of a neighbour's counters.
    pub fn station(&mut self, s: &Station) {
        match self.stations.iter().position(|c| c.latest.node == s.node) {
            Some(known) => self.stations[known].latest = *s,
            None if self.stations.len() < MAX_ENTRIES => {
                self.stations.push(Counted { latest: *s, base: None });
            }
            None => {}
        }
    }

    /// Takes a sample of a flow's counters on a link.
    pub fn flow(&mut self, f: &FlowLink) {
        let key = |f: &FlowLink| (f.link, f.flow, f.ack);
        match self.flows.iter().position(|c| key(&c.latest) == key(f)) {
            Some(known) => self.flows[known].latest = *f,
            None if self.flows.len() < MAX_ENTRIES => {
                // A flow that appears starts at zero.
                let base = FlowLink { packets: 0, bytes: 0, ..*f };
                let base = (self.began > Time::ZERO).then_some(base);
                self.flows.push(Counted { latest: *f, base });
            }
            None => {}
        }
    }

    /// Ends the period if it is over; passes each sum to `give`, those of links first.
    pub fn end(&mut self, now: Time, mut give: impl FnMut(Event<'_>)) {
        if now < self.due {
            return;
        }
        let period = now.since(self.began);
        (self.began, self.due) = (now, now + self.period);
        for c in &mut self.stations {
            let base = c.base.replace(c.latest);
            if let Some(sum) = base.and_then(|b| station_sum(&b, &c.latest, period)) {
                give(Event::SentSum(sum));
            }
        }
        for c in &mut self.flows {
            let base = c.base.replace(c.latest);
            if let Some(sum) = base.and_then(|b| flow_sum(&b, &c.latest)) {
                give(Event::FlowSum(sum));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fairmesh_units::{BitRate, FlowId, NodeId};

    use super::*;
    use crate::Link;

    const PERIOD: Span = Span::from_millis(100);

    fn station(packets: u64, failed: u64, airtime: u64) -> Station {
        Station {
            node: NodeId(1),
            tx_bytes: 1500 * packets,
            tx_packets: packets,
            tx_retries: packets / 2,
            tx_failed: failed,
            tx_airtime: Span::from_millis(airtime),
            tx_rate: BitRate(6_000_000),
            rx_bytes: 0,
            rx_packets: 0,
            rx_airtime: Span::ZERO,
        }
    }

    /// Returns packets and failures of each sum that a series of samples gives.
    fn sums(samples: &[Station]) -> Vec<(u32, u32)> {
        let mut sums = Sums::new(PERIOD);
        let mut all = Vec::new();
        for (i, sample) in samples.iter().enumerate() {
            sums.station(sample);
            sums.end(Time::ZERO + PERIOD * (i as u64 + 1), |e| match e {
                Event::SentSum(s) => all.push((s.packets, s.failed)),
                other => panic!("{other:?}"),
            });
        }
        all
    }

    #[test]
    fn counters_become_sums_per_period() {
        let all = sums(&[station(1000, 5, 0), station(1010, 6, 20), station(1030, 6, 60)]);
        assert_eq!(all, [(10, 1), (20, 0)], "the first sample is the base");
    }

    #[test]
    fn counters_that_stand_still_wrap_or_jump_give_no_sum() {
        let all = sums(&[
            station(10, 0, 20),
            station(10, 0, 20),
            // Reset.
            station(3, 0, 5),
            station(8, 0, 15),
            // Two hours of airtime in 100 ms.
            station(9, 0, 7_200_000),
            station(12, 9, 7_200_010),
            // More discarded than sent.
        ]);
        assert_eq!(all, [(5, 0), (3, 3)]);
    }

    #[test]
    fn a_period_ends_when_it_is_over() {
        let mut sums = Sums::new(PERIOD);
        let link = Link { from: NodeId(0), to: NodeId(1) };
        let flow = |packets| FlowLink { link, flow: FlowId(7), ack: true, packets, bytes: 0 };
        let at = |ms| Time::ZERO + Span::from_millis(ms);
        let mut all = Vec::new();
        for (ms, packets) in [(50, 3), (100, 4), (150, 6), (199, 7), (200, 9)] {
            sums.flow(&flow(packets));
            sums.end(at(ms), |e| {
                let Event::FlowSum(sum) = e else { panic!("{e:?}") };
                all.push((ms, sum.packets));
            });
        }
        assert_eq!(all, [(200, 5)], "the first period gives the base");
    }

    #[test]
    fn thousands_of_neighbours_are_bounded() {
        let mut sums = Sums::new(PERIOD);
        for n in 0..3 * MAX_ENTRIES as u32 {
            sums.station(&Station { node: NodeId(n), ..station(1, 0, 0) });
        }
        assert_eq!(sums.stations.len(), MAX_ENTRIES);
    }
}
