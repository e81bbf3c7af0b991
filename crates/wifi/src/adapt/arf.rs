//! Automatic Rate Fallback: up after ten ACKs in a row, down after two missing ones.

use fairmesh_phy::Rate;

/// Attempts at one rate after which a faster one is tried without ten ACKs in a row.
///
/// Kamerman and Monteban 1997 do not give the timer's length; 15 is ns-3's.
const TIMER: u32 = 15;
/// ACKs in a row before a faster rate is tried.
const UP_AFTER: u32 = 10;
/// Missing ACKs in a row before the next slower rate.
const DOWN_AFTER: u32 = 2;

/// ARF (Kamerman and Monteban, "WaveLAN-II", Bell Labs Technical Journal, 1997).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arf {
    rate: Rate,
    lowest: Rate,
    highest: Rate,
    acked: u32,
    missed: u32,
    timer: u32,
    /// True if the rate was just raised and no attempt at it has ended yet.
    probing: bool,
}

impl Arf {
    /// Builds ARF over the rates from `lowest` to `highest`, starting at `highest`.
    pub fn new(lowest: Rate, highest: Rate) -> Self {
        Arf { rate: highest, lowest, highest, acked: 0, missed: 0, timer: 0, probing: false }
    }

    /// Returns the rate at which to send.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Reports an attempt at `rate`; one sent before the latest change of rate is ignored.
    pub fn on_result(&mut self, rate: Rate, acked: bool) {
        if rate != self.rate {
            return;
        }
        self.timer += 1;
        let probing = core::mem::take(&mut self.probing);
        if acked {
            self.missed = 0;
            self.acked += 1;
            if (self.acked >= UP_AFTER || self.timer >= TIMER) && self.rate < self.highest {
                self.change(Rate(self.rate.0 + 1));
                self.probing = true;
            }
        } else {
            self.acked = 0;
            self.missed += 1;
            // The first frame at a raised rate is a probe: its loss alone lowers the rate again.
            if probing || self.missed >= DOWN_AFTER {
                self.change(Rate(self.rate.0.saturating_sub(1).max(self.lowest.0)));
            }
        }
    }

    fn change(&mut self, rate: Rate) {
        self.rate = rate;
        self.acked = 0;
        self.missed = 0;
        self.timer = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(arf: &mut Arf, outcomes: &str) -> u8 {
        for c in outcomes.chars() {
            arf.on_result(arf.rate(), c == '+');
        }
        arf.rate().0
    }

    #[test]
    fn falls_after_two_and_rises_after_ten() {
        let mut arf = Arf::new(Rate(0), Rate(3));
        assert_eq!(feed(&mut arf, "-"), 3);
        assert_eq!(feed(&mut arf, "-"), 2);
        assert_eq!(feed(&mut arf, "+++++++++"), 2);
        assert_eq!(feed(&mut arf, "+"), 3);
    }

    #[test]
    fn a_failed_probe_falls_back_at_once() {
        let mut arf = Arf::new(Rate(0), Rate(3));
        feed(&mut arf, "--");
        assert_eq!(feed(&mut arf, "++++++++++"), 3);
        assert_eq!(feed(&mut arf, "-"), 2, "the probe failed");
        assert_eq!(feed(&mut arf, "-"), 2, "one failure is no reason outside a probe");
        assert_eq!(feed(&mut arf, "++++++++++"), 3);
        assert_eq!(feed(&mut arf, "+-"), 3, "the probe succeeded");
        assert_eq!(feed(&mut arf, "-"), 2);
    }

    #[test]
    fn the_timer_raises_a_rate_that_never_sees_ten_in_a_row() {
        let mut arf = Arf::new(Rate(0), Rate(3));
        feed(&mut arf, "--");
        assert_eq!(feed(&mut arf, "++++-++++-++++"), 2);
        assert_eq!(feed(&mut arf, "+"), 3, "the fifteenth attempt");
    }

    #[test]
    fn stays_within_its_range() {
        let mut arf = Arf::new(Rate(1), Rate(2));
        assert_eq!(feed(&mut arf, "----------"), 1);
        assert_eq!(feed(&mut arf, "+++++++++++++++++++++++++++++++"), 2);
    }

    #[test]
    fn ignores_results_of_another_rate() {
        let mut arf = Arf::new(Rate(0), Rate(3));
        arf.on_result(Rate(1), false);
        arf.on_result(Rate(1), false);
        assert_eq!(arf.rate(), Rate(3));
    }
}
