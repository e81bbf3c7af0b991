//! Survival of a frame's MPDUs under noise and other frames, by signal-to-noise ratio.

use fairmesh_phy::Rate;
use fairmesh_phy::frame::DELIMITER;

use crate::air::Air;
use crate::frame::{FrameKind, Transmission};
use crate::loss::{FrameErrors, PartOutcome, SnrErrors, Survival};

/// Length of the legacy training fields, in ns.
///
/// The receiver searches for the frame in them, and nothing is decoded.
const TRAINING_NS: u64 = 16_000;

/// A frame at its receiver.
struct Received<'a> {
    errors: &'a SnrErrors,
    rate: Rate,
    /// Own power in this realisation, and on average, aW.
    signal: f64,
    power: u64,
    /// Total energy from each instant on, own mean power included; ns and aW.
    levels: &'a [(u64, u64)],
}

impl Received<'_> {
    /// Visits the intervals of equal interference in `from..until`.
    ///
    /// `each` gets the interference in aW and the interval's share of the whole.
    fn stretches(&self, from: u64, until: u64, mut each: impl FnMut(f64, f64)) {
        let whole = until.saturating_sub(from).max(1) as f64;
        for (k, &(at, energy)) in self.levels.iter().enumerate() {
            let next = self.levels.get(k + 1).map_or(u64::MAX, |l| l.0);
            let (start, end) = (if k == 0 { from } else { at.max(from) }, next.min(until));
            if end > start {
                each(energy.saturating_sub(self.power) as f64, (end - start) as f64 / whole);
            }
        }
    }

    /// Returns the survival of a part.
    ///
    /// `noise`: ln of the survival under noise alone; `ln`: ln of the survival of an interval with interference.
    fn survival(
        &self,
        from: u64,
        until: u64,
        noise: f64,
        ln: impl Fn(f64, f64) -> f64,
    ) -> Survival {
        if matches!(self.levels, [(_, energy)] if *energy <= self.power) {
            return Survival { noise, all: noise };
        }
        let mut all = 0.0;
        self.stretches(from, until, |interference, share| all += ln(interference, share));
        Survival { noise, all }
    }

    fn header(&self, from: u64, until: u64) -> Survival {
        let ln = |i, share| self.errors.header(self.rate, self.signal, i, share);
        self.survival(from, until, ln(0.0, 1.0), ln)
    }

    /// Returns the survival of the payload. `clean`: ln of a bit's survival under noise alone.
    fn payload(&self, from: u64, until: u64, bytes: u32, clean: f64) -> Survival {
        let bits = 8.0 * f64::from(bytes);
        let ln = |i, share| self.errors.payload(self.rate, self.signal, i, bits * share);
        self.survival(from, until, clean * bits, ln)
    }
}

impl Air {
    /// Determines the good MPDUs of a locked frame that ends now; returns true if there is any.
    ///
    /// A frame without MPDUs counts as one.
    pub(crate) fn survives(
        &mut self,
        from: u32,
        to: u32,
        link: usize,
        now: u64,
        f: &Transmission,
    ) -> bool {
        let (Some(a), Some(FrameErrors::Snr(errors))) =
            (&mut self.aggregates, self.errors.get(link))
        else {
            return false;
        };
        let counters = &mut self.counters[to as usize];
        let station = &self.stations[to as usize];
        a.all_good = false;
        if station.too_weak {
            return false;
        }
        let rng = &mut self.error_rng[link];
        let waveform = self.phy.info(f.rate).waveform;
        let (rate, start) = (f.rate, now - f.air);
        let signal = errors.draw(rng);
        let levels = &a.overlaps[to as usize].levels;
        let frame = Received { errors, rate, signal, power: station.lock_power, levels };
        let header = frame.header(start + TRAINING_NS, start + waveform.header().as_nanos());
        match header.outcome(rng) {
            PartOutcome::Good => {}
            PartOutcome::Errored => {
                counters.errored += 1;
                return false;
            }
            PartOutcome::Collided => {
                counters.collided += 1;
                return false;
            }
        }
        let clean = errors.payload(rate, signal, 0.0, 1.0);
        let payload = start + waveform.rx_start_delay().as_nanos();
        a.good.clear();
        let v = &mut self.service[from as usize];
        if f.kind != FrameKind::Data || v.aggregate <= 1 {
            let outcome = frame.payload(payload, now, f.bytes, clean).outcome(rng);
            counters.errored += u64::from(outcome == PartOutcome::Errored);
            counters.collided += u64::from(outcome == PartOutcome::Collided);
            a.good.push(outcome == PartOutcome::Good);
            return outcome == PartOutcome::Good;
        }
        let (mut any, mut hit) = (false, false);
        let (mut bytes, mut begin) = (0, payload);
        let last = v.aggregate - 1;
        for (k, m) in v.in_hand().iter().enumerate() {
            bytes = (bytes + DELIMITER + m.bytes).next_multiple_of(4);
            let end = if k == last { now } else { start + waveform.reached(bytes).as_nanos() };
            let outcome = frame.payload(begin, end, m.bytes, clean).outcome(rng);
            counters.errored += u64::from(outcome == PartOutcome::Errored);
            hit |= outcome == PartOutcome::Collided;
            let good = outcome == PartOutcome::Good;
            counters.mpdus_missed += u64::from(!good);
            any |= good;
            a.good.push(good);
            begin = end;
        }
        counters.collided += u64::from(hit && !any);
        any
    }
}
