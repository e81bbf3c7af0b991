//! Intermittent flows, such as those of a household that reads web pages.
//!
//! Over an epoch such a flow has less than its allocation, like a starved one; but while it sends, it has its
//! allocation. So counters are also read once per second and combined to windows of at least ten full packets
//! at the allocation, so that a single packet after a timeout fills none:
//!
//! | windows in which it sent | in them, weighted by the bits that passed | verdict |
//! |---|---|---|
//! | any | γ of its allocation | enough |
//! | more than half | less | starved |
//! | three or more in a row | γ in the best but the first and the last | enough: a page |
//! | | less | starved: a page that does not come |
//! | fewer | four full packets in each | enough: a small page |
//! | | less | not known: background noise, or a TCP in its timeouts |
//!
//! A window of nothing but acknowledgements counts as idle: a flow that uploads and occasionally reads a page is not
//! starved of the page in between.
//!
//! A flow that has less and sends small packets is not classified either: transfers consist of large packets,
//! and small ones are calls, keep-alives and acknowledgements, which need no more. For mixed traffic the mean
//! size decides.
//!
//! The last line counts as starved in the second such epoch after one in which the flow sent most of the
//! time, if the aggregate has gone up since: then the increase may have stopped the flow. The same holds in
//! the epoch after one in which a flow that used to send most of the time was starved. From then on the
//! aggregate stays, up to six epochs, so that a TCP in its timeouts finds capacity when it tries again.
//! Otherwise an idle epoch is not evaluated: no other flow took anything from that flow.
//!
//! A flow that sends for a third of the time needs a third of its share on average. In the aggregate it counts with
//! that third, its limit stays whole, and all levels rise until the aggregate is used again. If many of them send at
//! once, the mesh is overloaded for some seconds; if that starves a flow, the aggregate goes down.

use fairmesh_units::Span;

/// Time between readings of the counters.
pub(super) const READING_INTERVAL: Span = Span::from_secs(1);
/// Size of a full packet, in bits.
const PACKET_BITS: f64 = 12_000.0;
/// Size of a window at the allocation, in bits.
const WINDOW_BITS: f64 = 10.0 * PACKET_BITS;
/// Size of a small page, bits per window.
const PAGE_BITS: f64 = 4.0 * PACKET_BITS;
/// Mean size of small packets, in bytes.
///
/// It is below the smallest packets of transfers (segments of 512 bytes).
const SMALL_PACKET_BYTES: f64 = 500.0;
/// Generous size of an acknowledgement, in bytes.
const ACK_BYTES: u64 = 80;
/// Bytes besides acknowledgements that a window must hold to count.
///
/// It is the packet of a small segment.
const MIN_CONTENT_BYTES: f64 = 400.0;
/// Number of the idle epoch in which a flow may count as starved.
const STARVED_IDLE_EPOCHS: u32 = 2;
/// Number of idle epochs after which a starved flow is no longer waited for.
const MAX_STARVED_EPOCHS: u32 = 6;
/// Largest factor of a step up of the search.
///
/// A binary search starts with twice the lower bound; a TCP that this starves backs off for a minute and gives no
/// information in that time.
pub(super) const MAX_STEP_UP: f64 = 1.25;
/// Smallest duty cycle with which a flow counts.
const MIN_DUTY_CYCLE: f64 = 0.1;
/// Weight of an epoch in the average of the duty cycle.
const DUTY_CYCLE_GAIN: f64 = 0.25;

/// Result of an epoch for a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Enough,
    Starved,
    /// Idle since it starved: a TCP in its timeouts, or a flow that has ended.
    Lost,
    Unknown,
}

/// The windows of an epoch.
#[derive(Clone, Default, Debug)]
struct Windows {
    /// Number of all windows.
    all: u32,
    /// Number of windows in which something passed.
    busy: u32,
    /// Bits that passed.
    bits: f64,
    /// Σ of these bits, weighted by the fraction of the allocation.
    weighted: f64,
    /// Length of the current row of busy windows.
    row: u32,
    /// Fraction of the allocation in its last window.
    last: f64,
    /// Largest fraction in the inside of a row.
    inside: Option<f64>,
}

impl Windows {
    /// Adds a complete window; `busy`: it held more than acknowledgements.
    fn add(&mut self, passed: f64, allowed: f64, busy: bool) {
        self.all += 1;
        if busy {
            let part = (passed / allowed).min(1.0);
            self.bits += passed;
            self.weighted += passed * part;
            self.busy += 1;
            self.row += 1;
            if self.row > 2 {
                self.inside = Some(self.inside.unwrap_or(0.0).max(self.last));
            }
            self.last = part;
        } else {
            self.row = 0;
        }
    }

    fn verdict(&self, gamma: f64) -> Verdict {
        if self.busy == 0 {
            return Verdict::Unknown;
        }
        let had = |enough: bool| if enough { Verdict::Enough } else { Verdict::Starved };
        let part = self.weighted / self.bits;
        if part >= gamma || self.most() {
            return had(part >= gamma);
        }
        match self.inside {
            Some(inside) => had(inside >= gamma),
            None if self.bits >= PAGE_BITS * f64::from(self.busy) => Verdict::Enough,
            None => Verdict::Unknown,
        }
    }

    fn most(&self) -> bool {
        2 * self.busy > self.all
    }
}

#[derive(Clone, Debug)]
pub(super) struct Bursts {
    /// Bytes of this control period that are already counted.
    seen: u64,
    /// Bits that passed in the open window.
    passed: f64,
    /// Bits that were allowed in the open window.
    allowed: f64,
    windows: Windows,
    /// Last value of the packet counter.
    counter: Option<u64>,
    /// Packets of this window.
    inside: u64,
    /// Packets of this epoch.
    packets: u64,
    /// Bits that passed in this epoch.
    bits: f64,
    /// Number of epochs since it last sent most of the time, if ever.
    quiet: Option<u32>,
    /// True if the aggregate rose since then.
    rose: bool,
    /// Number of epochs since it starved, if it has not had enough since.
    starved: Option<u32>,
    duty: f64,
}

impl Default for Bursts {
    fn default() -> Self {
        Bursts {
            seen: 0,
            passed: 0.0,
            allowed: 0.0,
            windows: Windows::default(),
            counter: None,
            inside: 0,
            packets: 0,
            bits: 0.0,
            quiet: None,
            rose: false,
            starved: None,
            duty: 1.0,
        }
    }
}

impl Bursts {
    /// Handles the counter: `moved` bytes in this control period.
    ///
    /// `allowed` are the bits allowed since the last reading.
    pub fn glance(&mut self, moved: u64, allowed: f64) {
        let bits = moved.saturating_sub(self.seen) as f64 * 8.0;
        self.passed += bits;
        self.bits += bits;
        self.allowed += allowed;
        self.seen = moved;
        if self.allowed >= WINDOW_BITS {
            self.close();
        }
    }

    /// Handles the counter of packets.
    pub fn packets(&mut self, total: u64) {
        // A counter that runs backwards was reset.
        let last = self.counter.replace(total).unwrap_or(total);
        let more = total.saturating_sub(last);
        self.inside += more;
        self.packets += more;
    }

    /// True if the packets of this epoch were small.
    fn small(&self) -> bool {
        self.bits / 8.0 < SMALL_PACKET_BYTES * self.packets as f64
    }

    fn close(&mut self) {
        let content = self.passed / 8.0 - (ACK_BYTES * self.inside) as f64;
        self.windows.add(self.passed, self.allowed, content >= MIN_CONTENT_BYTES);
        (self.passed, self.allowed, self.inside) = (0.0, 0.0, 0);
    }

    /// Ends a control period: the next one counts from 0.
    pub fn looked(&mut self) {
        self.seen = 0;
    }

    /// Returns the epoch's verdict for a flow with less than `gamma` of its allocation.
    pub fn verdict(&mut self, gamma: f64) -> Verdict {
        if self.windows.all == 0 && self.allowed > 0.0 {
            self.close();
        }
        let most = self.windows.most();
        self.quiet = if most { Some(0) } else { self.quiet.map(|epochs| epochs + 1) };
        self.rose &= !most;
        let small = self.small();
        let verdict = match self.windows.verdict(gamma) {
            Verdict::Starved if small => Verdict::Unknown,
            Verdict::Unknown if self.rose && self.quiet == Some(STARVED_IDLE_EPOCHS) && !small => {
                Verdict::Starved
            }
            known => known,
        };
        match verdict {
            Verdict::Enough => self.starved = None,
            Verdict::Starved => {
                let bulk = self.quiet.is_some_and(|epochs| epochs <= STARVED_IDLE_EPOCHS);
                self.starved = (bulk || self.starved.is_some()).then_some(0);
            }
            _ => {
                self.starved =
                    self.starved.filter(|n| *n < MAX_STARVED_EPOCHS).map(|epochs| epochs + 1);
                return match self.starved {
                    None => Verdict::Unknown,
                    Some(epochs) if epochs < STARVED_IDLE_EPOCHS => Verdict::Starved,
                    Some(_) => Verdict::Lost,
                };
            }
        }
        verdict
    }

    /// Returns the number of idle epochs that do not yet end the flow.
    pub fn patience(&self) -> u32 {
        self.starved.map_or(0, |_| MAX_STARVED_EPOCHS)
    }

    /// Records that the aggregate goes up.
    pub fn rise(&mut self) {
        self.rose = true;
    }

    /// Returns the fraction of its share that it uses on average.
    pub fn duty(&self) -> f64 {
        self.duty
    }

    /// Handles the fraction of its share that it used.
    pub fn learn(&mut self, used: f64) {
        self.duty += DUTY_CYCLE_GAIN * (used.clamp(MIN_DUTY_CYCLE, 1.0) - self.duty);
    }

    /// Resets the state after an evaluation.
    pub fn restart(&mut self) {
        (self.passed, self.allowed, self.bits) = (0.0, 0.0, 0.0);
        (self.inside, self.packets) = (0, 0);
        self.windows = Windows::default();
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Enough, Lost, Starved, Unknown};
    use super::*;

    /// Runs an epoch of seconds at these rates, kbit/s, of 200 allowed.
    fn epoch(bursts: &mut Bursts, kbps: &[u64]) -> Verdict {
        let mut moved = 0;
        for rate in kbps {
            moved += rate * 1000 / 8;
            bursts.glance(moved, 200_000.0);
        }
        let verdict = bursts.verdict(0.7);
        bursts.looked();
        bursts.restart();
        verdict
    }
    fn fresh(kbps: &[u64]) -> Verdict {
        epoch(&mut Bursts::default(), kbps)
    }

    #[test]
    fn a_flow_counts_by_its_sending_time() {
        assert_eq!(fresh(&[0, 0, 200, 200, 0, 0, 0, 0, 0, 200]), Enough);
        assert_eq!(fresh(&[0, 100, 200, 200, 50, 0, 200, 200, 190, 0]), Enough);
        assert_eq!(fresh(&[0, 0, 0, 60, 0, 0, 0, 80, 30, 0]), Enough, "two small pages");
        assert_eq!(fresh(&[0, 60, 180, 40, 0, 0, 0, 0, 0, 0]), Enough, "a page");
        assert_eq!(fresh(&[0, 60, 60, 70, 60, 0, 0, 0, 0, 0]), Starved, "one that does not come");
        assert_eq!(fresh(&[20; 10]), Starved);
        assert_eq!(fresh(&[24, 12, 0, 12, 60, 0, 12, 36, 0, 0]), Starved, "with timeouts");
    }

    #[test]
    fn most_is_more_than_half() {
        let windows = |busy: u32, all: u32| Windows { busy, all, ..Windows::default() };
        assert!(windows(6, 10).most() && !windows(5, 10).most() && !windows(0, 0).most());
    }

    #[test]
    fn idle_flows_count_after_a_rise_of_the_aggregate() {
        let noise = [0, 1, 0, 0, 0, 1, 0, 0, 0, 0];
        assert_eq!(fresh(&noise), Unknown);
        assert_eq!(fresh(&[0; 10]), Unknown);
        let after = |rose: bool| {
            let mut bulk = Bursts::default();
            epoch(&mut bulk, &[200; 10]);
            if rose {
                bulk.rise();
            }
            [(); 4].map(|()| epoch(&mut bulk, &noise))
        };
        assert_eq!(after(false), [Unknown; 4], "it has ended");
        assert_eq!(after(true), [Unknown, Starved, Starved, Lost]);
    }

    #[test]
    fn idle_starved_flows_are_waited_for() {
        let starving = |bursts: &mut Bursts| {
            epoch(bursts, &[200; 10]);
            assert_eq!(epoch(bursts, &[20; 10]), Starved);
        };
        let mut gone = Bursts::default();
        starving(&mut gone);
        let silence = [(); 8].map(|()| (epoch(&mut gone, &[0; 10]), gone.patience()));
        assert_eq!(silence[0], (Starved, MAX_STARVED_EPOCHS));
        assert_eq!(silence[1..6], [(Lost, MAX_STARVED_EPOCHS); 5]);
        assert_eq!(silence[6..], [(Unknown, 0); 2], "nobody any more");

        let mut back = Bursts::default();
        starving(&mut back);
        epoch(&mut back, &[0; 10]);
        assert_eq!(epoch(&mut back, &[0, 0, 0, 0, 0, 0, 0, 0, 150, 200]), Enough);
        assert_eq!((epoch(&mut back, &[0; 10]), back.patience()), (Unknown, 0), "it had enough");
    }

    #[test]
    fn a_page_that_did_not_come_is_not_waited_for() {
        let mut reader = Bursts::default();
        assert_eq!(epoch(&mut reader, &[0, 60, 60, 70, 60, 0, 0, 0, 0, 0]), Starved);
        assert_eq!(epoch(&mut reader, &[0; 10]), Unknown);
    }

    #[test]
    fn a_window_holds_ten_packets() {
        let mut bursts = Bursts::default();
        // An allocation of 12 kbit/s, a packet in each of seven seconds out of ten.
        for second in 0..10_u64 {
            bursts.glance(second.min(7) * 1500, 12_000.0);
        }
        assert_eq!(bursts.verdict(0.7), Enough);
        let mut bursts = Bursts::default();
        for second in 0..10_u64 {
            bursts.glance(second.min(6) * 1500, 12_000.0);
        }
        assert_eq!(bursts.verdict(0.7), Starved);
    }

    #[test]
    fn small_packets_want_no_more() {
        let noise = |bytes: u64| {
            let mut bursts = Bursts::default();
            bursts.packets(100);
            for second in 1..=10 {
                bursts.glance(second * 1500, 200_000.0);
            }
            bursts.packets(100 + 15_000 / bytes);
            bursts.verdict(0.7)
        };
        assert_eq!(
            [noise(100), noise(300), noise(552), noise(1500)],
            [Unknown, Unknown, Starved, Starved]
        );
    }

    #[test]
    fn acknowledgements_between_pages_are_no_starved_transfer() {
        // An upload's acknowledgements, 20 per second of 66 bytes, and a page in one second.
        let mut bursts = Bursts::default();
        let (mut moved, mut packets) = (0, 100);
        bursts.packets(packets);
        let mut verdict = |content: [u64; 10]| {
            for full in content {
                (moved, packets) = (moved + 20 * 66 + full * 1500, packets + 20 + full);
                bursts.packets(packets);
                bursts.glance(moved, 200_000.0);
            }
            let verdict = bursts.verdict(0.7);
            bursts.restart();
            verdict
        };
        assert_eq!(verdict([0, 0, 14, 0, 0, 0, 0, 15, 0, 0]), Enough);
        assert_eq!(verdict([0; 10]), Unknown);
        assert_eq!(verdict([10; 10]), Starved, "a transfer that gets 130 kbit/s of 200");
    }

    #[test]
    fn duty_is_learned_and_forgotten() {
        let mut bursts = Bursts::default();
        for _ in 0..20 {
            bursts.learn(0.3);
        }
        assert!((bursts.duty() - 0.3).abs() < 0.01);
        for _ in 0..20 {
            bursts.learn(0.0);
        }
        assert!((bursts.duty() - MIN_DUTY_CYCLE).abs() < 0.01);
        (0..8).for_each(|_| bursts.learn(1.0));
        assert!(bursts.duty() > 0.9);
    }
}
