//! Rates and activity of flows from counters that only grow, apart from faults.
//!
//! A flow is *active* from the first epoch in which it passes a packet until it has passed none for
//! a number of whole epochs (Jamshaid 2010 §6.3.3, §7.5.1: "presence of packets"). Until then an
//! idle flow counts as a flow without throughput: a starved TCP pauses for many seconds too. If
//! such a flow returns, the number of epochs may double: the interval "should be a function of the
//! average delay [..] as well as the jitter" (§6.3.3).
//!
//! A counter that runs backwards was reset, and one that reports more than the capacity of any link is
//! invalid. In both cases the epoch gives no rate for that flow and no information about its activity. The
//! same holds for a flow that was not sampled. A stuck counter is indistinguishable from an idle flow.

use fairmesh_units::{FlowId, Span};

/// Counter state of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    pub flow: FlowId,
    /// Last value of the counter.
    total: Option<u64>,
    /// Bytes since the epoch began.
    moved: u64,
    sampled: bool,
    broken: bool,
    /// Rate over the last epoch, bit/s; `None` if it is not known.
    pub rate: Option<f64>,
    pub active: bool,
    /// Number of idle epochs in a row.
    pub silent: u32,
    /// Number of idle epochs that end the flow.
    patience: u32,
    /// Minimum of that number, set by the mechanism.
    pub wait: u32,
    /// True if it was active and has been idle for too long.
    given_up: bool,
}

impl Meter {
    /// Returns the bytes since the start of the epoch; 0 if the samples are invalid.
    pub fn moved(&self) -> u64 {
        if self.broken { 0 } else { self.moved }
    }
}

/// Change of the set of active flows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Changes {
    pub arrived: u32,
    /// Number of arrived flows that had been ended earlier.
    pub known: u32,
    pub ended: u32,
}

impl Changes {
    pub fn any(self) -> bool {
        self.arrived + self.ended > 0
    }
}

/// All flows, by id, with a mechanism's notes for each.
#[derive(Clone, Debug)]
pub(crate) struct Flows<T> {
    list: Vec<(Meter, T)>,
    /// Expected position of the next sample: hosts sample in order.
    cursor: usize,
    /// Number of idle epochs that end a flow.
    idle: u32,
    /// Largest number of idle epochs to which this may grow.
    idle_most: u32,
    /// Rate above which a counter is garbage, in bit/s.
    credible: f64,
    /// True if counters have a base: the first samples only set it.
    based: bool,
    /// Number of flows that ended since the start of the epoch.
    ended: u32,
}

impl<T> Flows<T> {
    pub fn new(idle: u32, idle_most: u32, credible: f64) -> Self {
        Flows { list: Vec::new(), cursor: 0, idle, idle_most, credible, based: false, ended: 0 }
    }

    fn find(&self, flow: FlowId) -> Result<usize, usize> {
        self.list.binary_search_by_key(&flow, |f| f.0.flow)
    }

    /// Returns the flow's notes, made by `new` if it is unknown.
    pub fn entry(&mut self, flow: FlowId, new: impl FnOnce() -> T) -> &mut (Meter, T) {
        let at = match self.find(flow) {
            Ok(at) => at,
            Err(at) => {
                let meter = Meter {
                    flow,
                    total: None,
                    moved: 0,
                    sampled: false,
                    broken: false,
                    rate: None,
                    active: false,
                    silent: 0,
                    patience: self.idle,
                    wait: 0,
                    given_up: false,
                };
                self.list.insert(at, (meter, new()));
                at
            }
        };
        &mut self.list[at]
    }

    /// Ends a flow that the host reports as gone; the next epoch's changes count it.
    ///
    /// Its counter is kept, since the same flow may return. Returns its notes.
    pub fn end(&mut self, flow: FlowId) -> Option<&mut T> {
        let at = self.find(flow).ok()?;
        let (meter, notes) = &mut self.list[at];
        if core::mem::replace(&mut meter.active, false) {
            self.ended += 1;
        }
        meter.given_up = false;
        Some(notes)
    }

    pub fn iter(&self) -> impl Iterator<Item = &(Meter, T)> + Clone {
        self.list.iter()
    }
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut (Meter, T)> {
        self.list.iter_mut()
    }
    pub fn active(&self) -> impl Iterator<Item = &(Meter, T)> + Clone {
        self.list.iter().filter(|f| f.0.active)
    }
    pub fn active_mut(&mut self) -> impl Iterator<Item = &mut (Meter, T)> {
        self.list.iter_mut().filter(|f| f.0.active)
    }

    /// Handles a counter's value; an unannounced flow is added. Returns the flow's notes.
    pub fn sample(&mut self, flow: FlowId, bytes: u64, new: impl FnOnce() -> T) -> &mut T {
        let based = self.based;
        let expected = self.list.get(self.cursor).is_some_and(|f| f.0.flow == flow);
        let at = if expected { Ok(self.cursor) } else { self.find(flow) };
        let (meter, notes) = match at {
            Ok(at) => {
                self.cursor = at + 1;
                &mut self.list[at]
            }
            Err(_) => self.entry(flow, new),
        };
        match meter.total {
            Some(last) if bytes < last => meter.broken = true,
            Some(last) => meter.moved = meter.moved.saturating_add(bytes - last),
            // A flow that appears after the first samples has passed all these bytes since the last
            // sample.
            None if based => meter.moved = meter.moved.saturating_add(bytes),
            None => {}
        }
        meter.total = Some(bytes);
        meter.sampled = true;
        notes
    }

    /// Ends an epoch: computes rates and activity.
    pub fn close(&mut self, elapsed: Span) -> Changes {
        let seconds = elapsed.as_secs_f64();
        let mut changes = Changes { ended: core::mem::take(&mut self.ended), ..Changes::default() };
        for (meter, _) in &mut self.list {
            let rate = meter.moved as f64 * 8.0 / seconds;
            // The comparison is false for the NaN and the infinity of an epoch of length 0.
            let known = self.based && meter.sampled && !meter.broken && rate <= self.credible;
            meter.rate = known.then_some(rate);
            if known && meter.moved > 0 {
                if !meter.active {
                    meter.active = true;
                    changes.arrived += 1;
                    if meter.given_up && meter.silent < 4 * meter.patience {
                        meter.patience = (meter.patience * 2).min(self.idle_most);
                    }
                    changes.known += u32::from(meter.given_up);
                    meter.given_up = false;
                }
                meter.silent = 0;
            } else if known {
                meter.silent = meter.silent.saturating_add(1);
                if meter.active && meter.silent >= meter.patience.max(meter.wait) {
                    meter.active = false;
                    meter.given_up = true;
                    changes.ended += 1;
                }
            }
            (meter.moved, meter.sampled, meter.broken) = (0, false, false);
        }
        self.based = true;
        self.cursor = 0;
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Span = Span::from_secs(10);

    struct Bench(Flows<()>);
    impl Bench {
        fn new(idle_most: u32) -> Self {
            let mut flows = Flows::new(2, idle_most, 1e6);
            flows.sample(FlowId(1), 1000, || ());
            assert_eq!(flows.close(EPOCH), Changes::default(), "only a base");
            Bench(flows)
        }
        /// Runs one epoch that ends with this counter; `None` means no sample.
        fn epoch(&mut self, bytes: impl Into<Option<u64>>) -> (Option<f64>, bool, Changes) {
            if let Some(bytes) = bytes.into() {
                self.0.sample(FlowId(1), bytes, || ());
            }
            let changes = self.0.close(EPOCH);
            let (meter, ()) = self.0.entry(FlowId(1), || ());
            (meter.rate, meter.active, changes)
        }
    }

    const NONE: Changes = Changes { arrived: 0, known: 0, ended: 0 };
    const ARRIVED: Changes = Changes { arrived: 1, ..NONE };
    const RETURNED: Changes = Changes { arrived: 1, known: 1, ..NONE };
    const ENDED: Changes = Changes { ended: 1, ..NONE };

    #[test]
    fn a_flow_becomes_active_with_its_first_packet_and_ends_when_idle() {
        let mut b = Bench::new(2);
        assert_eq!(b.epoch(1000), (Some(0.0), false, NONE));
        assert_eq!(b.epoch(13_500), (Some(10_000.0), true, ARRIVED));
        assert_eq!(b.epoch(13_500), (Some(0.0), true, NONE), "silent, but it may be starved");
        assert_eq!(b.epoch(14_750), (Some(1000.0), true, NONE));
        assert_eq!(b.epoch(14_750), (Some(0.0), true, NONE));
        assert_eq!(b.epoch(14_750), (Some(0.0), false, ENDED));
    }

    #[test]
    fn bad_counters_give_no_rate_and_change_nothing() {
        let mut b = Bench::new(2);
        b.epoch(13_500);
        assert_eq!(b.epoch(500), (None, true, NONE), "restarted");
        assert_eq!(b.epoch(13_000), (Some(10_000.0), true, NONE), "counts on from there");
        assert_eq!(b.epoch(u64::MAX), (None, true, NONE), "more than any link carries");
        assert_eq!(b.epoch(7), (None, true, NONE));
        assert_eq!(b.epoch(None), (None, true, NONE), "not sampled");
        assert_eq!(b.epoch(None), (None, true, NONE), "and so not silent either");
        assert_eq!(b.epoch(12_507), (Some(10_000.0), true, NONE));
    }

    #[test]
    fn an_epoch_without_length_gives_no_rate() {
        let mut b = Bench::new(2);
        b.0.sample(FlowId(1), 5000, || ());
        assert_eq!(b.0.close(Span::ZERO), NONE);
        assert_eq!(b.0.iter().next().unwrap().0.rate, None);
    }

    #[test]
    fn a_flow_that_was_given_up_too_early_gets_more_patience() {
        let mut b = Bench::new(4);
        b.epoch(1000); // idle time before the first packet does not count as a pause
        b.epoch(2000);
        b.epoch(2000);
        assert_eq!(b.epoch(2000).2, ENDED);
        assert_eq!(b.epoch(3000).2, RETURNED);
        for _ in 0..3 {
            assert_eq!(b.epoch(3000).2, NONE);
        }
        assert_eq!(b.epoch(3000).2, ENDED);
    }

    #[test]
    fn flows_are_found_in_any_order_and_the_unknown_are_taken_in() {
        let mut flows: Flows<u32> = Flows::new(2, 2, 1e9);
        flows.close(EPOCH);
        for id in [5, 3, 9, 3] {
            flows.sample(FlowId(id), 100, || id);
        }
        assert_eq!(flows.close(EPOCH).arrived, 3);
        for id in [9, 3, 5] {
            flows.sample(FlowId(id), 1350, || panic!("known"));
        }
        flows.close(EPOCH);
        let seen: Vec<_> = flows.active().map(|(m, id)| (m.flow.0, *id, m.rate)).collect();
        assert_eq!(seen, [3, 5, 9].map(|id| (id, id, Some(1000.0))));
        // The host reports one as gone; its earlier bytes do not count.
        assert_eq!(flows.end(FlowId(5)), Some(&mut 5));
        assert!(flows.end(FlowId(7)).is_none());
        flows.sample(FlowId(5), 1350, || panic!("known"));
        assert_eq!(flows.close(EPOCH), ENDED);
        assert_eq!(flows.active().count(), 2);
    }
}
