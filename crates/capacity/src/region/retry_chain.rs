//! One packet at the head of a queue: an absorbing Markov chain over its attempts.
//!
//! Rangwala 2008 §3.2. Its states store the cause of the last failure, since the next attempt
//! follows within about the duration of that cause.

use fairmesh_phy::{Phy, PhyTiming};

use super::types::Retries;
use crate::link::Access;

/// Collisions of an attempt, given that its sender found the medium idle.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Collisions {
    /// Probability that an exchange hidden from the sender occupies the receiver.
    pub hidden: f64,
    /// Probability that such an exchange starts during the opening frame and continues.
    pub onset: f64,
    /// Mean time for which such an exchange, or a train of them, occupies the receiver, s.
    pub span: f64,
    /// Probability that the opening frame collides with another sender's.
    ///
    /// Both are lost, and both retry.
    pub met: f64,
    /// Distance of the starts of two opening frames below which they collide, in s.
    pub window: f64,
    /// Exchanges per idle second that the sender detects and that also free the receiver.
    pub resets: f64,
    /// Probability that the packet was waiting when the sender's last exchange ended.
    ///
    /// The receiver was free a backoff ago.
    pub waiting: f64,
    /// Probability that it is forwarded immediately.
    ///
    /// That is a DIFS after an exchange that kept the receiver free.
    pub relayed: f64,
    /// The share of `hidden` due to frames that crossed this hop before.
    ///
    /// No further ones arrive while the sender's attempts fail.
    pub caused: f64,
    /// Probability that it is forwarded immediately.
    ///
    /// Frames that crossed this hop before are gone.
    pub at_once: f64,
    /// Probability that the previous frame blocks the receiver at a first attempt.
    pub chased: f64,
    /// Probability that the data frame is lost in a collision although the receiver was ready.
    pub data_collision: f64,
    /// Probability that the channel destroys the data frame.
    pub channel_loss: f64,
    /// Share of time in which the sender finds the medium idle.
    ///
    /// `idle_beside` is that during a hidden exchange: stations that exclude the hidden exchange
    /// may also defer the sender's neighbours.
    pub idle: f64,
    /// See `idle`.
    pub idle_beside: f64,
    /// Seconds from the end of a refused opening frame until the next backoff begins.
    pub after: f64,
}

/// Means per packet.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Service {
    /// Attempts: RTS frames, or data frames without RTS.
    pub attempts: f64,
    /// Attempts that failed because a hidden exchange was active.
    pub hidden: f64,
    /// Attempts that failed because two opening frames collided.
    pub met: f64,
    /// Data frames.
    pub data: f64,
    /// Seconds of backoff and of other exchanges during it.
    pub backoff: f64,
    /// Seconds of backoff before the first attempt, other exchanges during it included.
    pub first: f64,
    /// Probability that the packet is dropped.
    pub dropped: f64,
}

/// Minimum probability of success of an attempt; a link below it is dead.
const MIN_SUCCESS: f64 = 1.0 / 4000.0;

/// Causes of the last attempt's failure.
///
/// `NO_CAUSE`: no lasting cause, or no attempt before; the others: a hidden exchange, and another
/// sender that also retries.
const NO_CAUSE: usize = 0;
const HIDDEN_EXCHANGE: usize = 1;
const RETRYING_SENDER: usize = 2;

/// Packets with these counts of consecutive lost frames, by the last failure's cause.
#[derive(Clone, Copy, Debug)]
struct Tally {
    short: u32,
    long: u32,
    mass: [f64; 3],
}

/// Outcome of one attempt, by the cause of the previous failure.
#[derive(Clone, Copy, Debug, Default)]
struct Attempt {
    /// Probabilities of failure by cause.
    ///
    /// The causes: a hidden exchange, another sender's frame, a collision after the CTS, the channel. The
    /// rest succeeds.
    hidden: f64,
    met: f64,
    data_collision: f64,
    channel_loss: f64,
    /// Seconds of backoff before the attempt.
    backoff: f64,
}

/// The chain of one link: all that is constant over the attempts.
struct Chain<'a> {
    collisions: &'a Collisions,
    slot: f64,
    difs: f64,
    basic: bool,
}

/// Product of both limits up to which identical attempts are followed one by one.
const STEPWISE_LIMIT: u32 = 64;

/// Follows a packet to its end; returns its means.
pub(super) fn service(
    phy: &Phy,
    access: Access,
    retries: Retries,
    collisions: &Collisions,
) -> Service {
    let t = phy.timing();
    let (slot, difs) = (t.slot.as_secs_f64(), t.difs.as_secs_f64());
    let chain = Chain { collisions, slot, difs, basic: access == Access::Basic };
    match limits(t, retries) {
        None => chain.endless(t),
        Some(limits) => chain.limited(t, limits, STEPWISE_LIMIT),
    }
}

impl Chain<'_> {
    /// Follows a packet with a limit of consecutive lost RTS and of lost data frames.
    ///
    /// Limits with a product above `walked` use the closed form once attempts are identical.
    fn limited(&self, t: &PhyTiming, limits: (u32, u32), walked: u32) -> Service {
        let mut out = Service::default();
        let mut cw = t.cw_min;
        let mut at = vec![Tally { short: 0, long: 0, mass: [1.0, 0.0, 0.0] }];
        let first = self.first(cw);
        out.first = first.backoff;
        let mut step = [first; 3];
        loop {
            let next = t.next_cw(cw);
            let mut after = Vec::new();
            for tally in &at {
                self.count(&step, &tally.mass, &mut out);
                self.fail(&step, tally, &mut after, &mut out, limits);
            }
            if after.is_empty() {
                return out;
            }
            at = after;
            cw = next;
            step = [NO_CAUSE, HIDDEN_EXCHANGE, RETRYING_SENDER].map(|why| self.again(why, cw));
            if t.next_cw(cw) == cw && limits.0.saturating_mul(limits.1) > walked {
                self.alike(&step, &at, &mut out, limits);
                return out;
            }
        }
    }

    /// Follows packets to their end if all attempts are identical.
    ///
    /// The attempts at one count of lost data frames are a geometric series, truncated by the limit
    /// of lost RTS.
    fn alike(&self, step: &[Attempt; 3], at: &[Tally], out: &mut Service, limits: (u32, u32)) {
        let (most_short, most_long) = limits;
        let (opening, data) = matrices(step);
        let (again, levels) =
            if self.basic { (sum(&opening, &data), 1) } else { (opening, most_long) };
        let whole = series(&again, most_short);
        // Packets that reach this count of lost data frames from the one below, without a lost RTS
        // yet.
        let mut fresh = [0.0; 3];
        for long in 0..levels {
            let mut tried = apply(&whole.0, &fresh);
            let mut left = apply(&whole.1, &fresh);
            for tally in at.iter().filter(|tally| tally.long == long) {
                let rest = series(&again, most_short - tally.short);
                add(&mut tried, &apply(&rest.0, &tally.mass));
                add(&mut left, &apply(&rest.1, &tally.mass));
            }
            self.count(step, &tried, out);
            out.dropped += left.iter().sum::<f64>();
            fresh = if self.basic { [0.0; 3] } else { apply(&data, &tried) };
        }
        out.dropped += fresh.iter().sum::<f64>();
    }

    /// Follows a packet that is never dropped: only the last failure matters.
    fn endless(&self, t: &PhyTiming) -> Service {
        let mut out = Service::default();
        let mut cw = t.cw_min;
        let first = self.first(cw);
        out.first = first.backoff;
        let (mut step, mut mass) = ([first; 3], [1.0, 0.0, 0.0]);
        loop {
            let next = t.next_cw(cw);
            if next == cw {
                // From here on attempts are identical: a geometric series.
                self.count(&step, &settle(&step, mass), &mut out);
                return out;
            }
            self.count(&step, &mass, &mut out);
            let (opening, data) = failed(&step, &mass);
            (0..3).for_each(|i| mass[i] = opening[i] + data[i]);
            cw = next;
            step = [
                self.again(NO_CAUSE, cw),
                self.again(HIDDEN_EXCHANGE, cw),
                self.again(RETRYING_SENDER, cw),
            ];
        }
    }

    /// Returns the starts of hidden trains per second without an active one.
    fn begin(&self) -> f64 {
        self.collisions.hidden / (self.collisions.span * (1.0 - self.collisions.hidden).max(1e-3))
    }

    /// Returns the outcome for a hidden exchange and another sender's frame.
    ///
    /// The exchange is active with probability `on`; the frame collides with probability `met`.
    fn outcome(&self, on: f64, met: f64, backoff: f64) -> Attempt {
        let o = self.collisions;
        let onset = (1.0 - on) * (1.0 - met) * o.onset;
        let (hidden, met) = (on + onset, (1.0 - on) * met);
        let through = 1.0 - hidden - met;
        // An attempt always has some probability of success.
        let shrink = if through < MIN_SUCCESS { (1.0 - MIN_SUCCESS) / (hidden + met) } else { 1.0 };
        let through = through.max(MIN_SUCCESS);
        let data_collision = (through * o.data_collision).min(through - 0.5 * MIN_SUCCESS);
        let channel_loss = (through - data_collision) * o.channel_loss;
        Attempt {
            hidden: hidden * shrink,
            met: met * shrink,
            data_collision,
            channel_loss,
            backoff,
        }
    }

    fn first(&self, cw: u32) -> Attempt {
        let o = self.collisions;
        let backoff = f64::from(cw) / 2.0 * self.slot / o.idle;
        let gap = self.difs + backoff;
        let seizure = self.begin() + 1.0 / o.span;
        let fresh =
            o.waiting * libm::exp(-seizure * gap) + o.relayed * libm::exp(-seizure * self.difs);
        let others = o.hidden * (1.0 - o.caused) * (1.0 - fresh.min(1.0));
        let on = others + o.hidden * o.caused * (1.0 - o.at_once);
        self.outcome(on + (1.0 - on) * o.chased, o.met, backoff)
    }

    /// Returns the outcome of an attempt after a failed one.
    fn again(&self, why: usize, cw: u32) -> Attempt {
        let o = self.collisions;
        let counted = f64::from(cw) / 2.0 * self.slot;
        let plain = counted / o.idle;
        match why {
            HIDDEN_EXCHANGE => {
                // An exchange encountered at a random time has half of its length left.
                let rest = 0.5 * o.span;
                let beside = rest * (1.0 - libm::exp(-plain / rest));
                let backoff = plain - beside * (1.0 - o.idle / o.idle_beside);
                let gap = o.after + backoff;
                let (begin, end) = (self.begin(), 1.0 / rest);
                let memory = libm::exp(-(end + begin + o.resets) * gap);
                // The next train has not started by then.
                let soon = begin / (begin + end) / o.hidden.max(1e-12);
                let dip = (1.0 - soon).max(0.0) * libm::exp(-gap / o.span);
                let left = o.hidden * (1.0 - o.caused) * (1.0 - dip);
                self.outcome(left + (1.0 - left) * memory, o.met, backoff)
            }
            RETRYING_SENDER => {
                // Both draw from the same window.
                let near = (o.window / (2.0 * plain)).min(1.0);
                let again = 1.0 - (1.0 - near) * (1.0 - near);
                self.outcome(o.hidden, 1.0 - (1.0 - o.met) * (1.0 - again), plain)
            }
            _ => self.outcome(o.hidden, o.met, plain),
        }
    }

    /// Adds attempts to the means.
    fn count(&self, step: &[Attempt; 3], mass: &[f64; 3], out: &mut Service) {
        for (s, m) in step.iter().zip(mass) {
            out.attempts += m;
            out.backoff += m * s.backoff;
            out.hidden += m * s.hidden;
            out.met += m * s.met;
            out.data += if self.basic { *m } else { m * (1.0 - s.hidden - s.met) };
        }
    }

    /// Advances packets after a failed attempt, or drops them.
    fn fail(
        &self,
        step: &[Attempt; 3],
        from: &Tally,
        to: &mut Vec<Tally>,
        out: &mut Service,
        (most_short, most_long): (u32, u32),
    ) {
        let (opening, data) = failed(step, &from.mass);
        // IEEE 802.11-2020 §10.3.4.4: a CTS clears the count of lost RTS.
        let moved = [
            (from.short + 1, from.long, opening),
            if self.basic { (from.short + 1, from.long, data) } else { (0, from.long + 1, data) },
        ];
        for (short, long, mass) in moved {
            let total: f64 = mass.iter().sum();
            if total <= 0.0 {
                continue;
            }
            if short >= most_short || long >= most_long {
                out.dropped += total;
                continue;
            }
            match to.iter_mut().find(|n| (n.short, n.long) == (short, long)) {
                Some(same) => add(&mut same.mass, &mass),
                None => to.push(Tally { short, long, mass }),
            }
        }
    }
}

/// Returns the packets with a failed opening frame and with a failed data frame, by cause.
fn failed(step: &[Attempt; 3], mass: &[f64; 3]) -> ([f64; 3], [f64; 3]) {
    let (mut opening, mut data) = ([0.0; 3], [0.0; 3]);
    for (s, m) in step.iter().zip(mass) {
        opening[HIDDEN_EXCHANGE] += m * s.hidden;
        opening[RETRYING_SENDER] += m * s.met;
        data[HIDDEN_EXCHANGE] += m * s.data_collision;
        data[NO_CAUSE] += m * s.channel_loss;
    }
    (opening, data)
}

/// Transitions from the cause of the previous failure (columns) to that of this one (rows).
type Matrix = [[f64; 3]; 3];

/// Returns [`failed`] as two matrices.
fn matrices(step: &[Attempt; 3]) -> (Matrix, Matrix) {
    let (mut opening, mut data) = ([[0.0; 3]; 3], [[0.0; 3]; 3]);
    for (why, s) in step.iter().enumerate() {
        opening[HIDDEN_EXCHANGE][why] = s.hidden;
        opening[RETRYING_SENDER][why] = s.met;
        data[HIDDEN_EXCHANGE][why] = s.data_collision;
        data[NO_CAUSE][why] = s.channel_loss;
    }
    (opening, data)
}

fn sum(a: &Matrix, b: &Matrix) -> Matrix {
    core::array::from_fn(|i| core::array::from_fn(|j| a[i][j] + b[i][j]))
}

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    core::array::from_fn(|i| core::array::from_fn(|j| (0..3).map(|k| a[i][k] * b[k][j]).sum()))
}

fn apply(a: &Matrix, x: &[f64; 3]) -> [f64; 3] {
    core::array::from_fn(|i| (0..3).map(|k| a[i][k] * x[k]).sum())
}

fn add(to: &mut [f64; 3], more: &[f64; 3]) {
    (0..3).for_each(|i| to[i] += more[i]);
}

/// Returns I + A + … + Aⁿ⁻¹, and Aⁿ, by doubling.
fn series(a: &Matrix, n: u32) -> (Matrix, Matrix) {
    let one: Matrix = core::array::from_fn(|i| core::array::from_fn(|j| f64::from(i == j)));
    let (mut terms, mut power) = ([[0.0; 3]; 3], one);
    for bit in (0..u32::BITS - n.leading_zeros()).rev() {
        terms = sum(&terms, &product(&power, &terms));
        power = product(&power, &power);
        if n >> bit & 1 == 1 {
            terms = sum(&one, &product(a, &terms));
            power = product(a, &power);
        }
    }
    (terms, power)
}

/// Returns the total attempts by previous cause, if all are identical: (I − P)ᵀ x = mass.
fn settle(step: &[Attempt; 3], mass: [f64; 3]) -> [f64; 3] {
    let mut a = [[0.0; 4]; 3];
    for i in 0..3 {
        let s = &step[i];
        a[NO_CAUSE][i] = -s.channel_loss;
        a[HIDDEN_EXCHANGE][i] = -s.hidden - s.data_collision;
        a[RETRYING_SENDER][i] = -s.met;
    }
    for i in 0..3 {
        a[i][i] += 1.0;
        a[i][3] = mass[i];
    }
    // Columns sum to less than one: no pivoting is needed.
    for i in 0..3 {
        for j in i + 1..3 {
            let factor = a[j][i] / a[i][i];
            let row = a[i];
            (i..4).for_each(|k| a[j][k] -= factor * row[k]);
        }
    }
    let mut x = [0.0; 3];
    for i in (0..3).rev() {
        let known: f64 = (i + 1..3).map(|k| a[i][k] * x[k]).sum();
        x[i] = (a[i][3] - known) / a[i][i];
    }
    x
}

/// Returns the limits of lost RTS (or data frames without RTS), and of data frames after CTS.
fn limits(t: &PhyTiming, retries: Retries) -> Option<(u32, u32)> {
    match retries {
        Retries::Unlimited => None,
        Retries::Mac => Some((t.short_retry_limit, t.long_retry_limit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairmesh_phy::Preamble;

    fn lossy() -> Collisions {
        Collisions {
            hidden: 0.7,
            span: 3e-3,
            met: 0.2,
            window: 4e-4,
            data_collision: 0.15,
            channel_loss: 0.3,
            idle: 0.6,
            idle_beside: 0.8,
            ..Collisions::default()
        }
    }

    fn followed(limits: (u32, u32), basic: bool, walked: u32) -> [f64; 6] {
        let phy = Phy::dot11b(Preamble::Long);
        let t = phy.timing();
        let (slot, difs) = (t.slot.as_secs_f64(), t.difs.as_secs_f64());
        let chain = Chain { collisions: &lossy(), slot, difs, basic };
        let s = chain.limited(t, limits, walked);
        [s.attempts, s.hidden, s.met, s.data, s.backoff, s.dropped]
    }

    /// Compares the closed form with the attempts one by one.
    #[test]
    fn the_closed_form_equals_the_sum_over_attempts() {
        for limits in [(1, 1), (2, 9), (7, 4), (9, 7), (30, 1), (1, 30), (12, 20)] {
            for basic in [false, true] {
                let (summed, walked) =
                    (followed(limits, basic, 0), followed(limits, basic, u32::MAX));
                for (a, b) in summed.iter().zip(walked) {
                    assert!(
                        (a - b).abs() <= 1e-12 * b,
                        "{limits:?} {basic}: {summed:?} {walked:?}"
                    );
                }
            }
        }
    }

    /// The largest limits drop so few packets that they are nearly unlimited.
    #[test]
    fn the_largest_limits_are_nearly_unlimited() {
        let phy = Phy::dot11b(Preamble::Long).with_retry_limits(255, 255).unwrap();
        for access in [Access::RtsCts, Access::Basic] {
            let of = |retries| service(&phy, access, retries, &lossy());
            let (limited, endless) = (of(Retries::Mac), of(Retries::Unlimited));
            assert!((limited.attempts / endless.attempts - 1.0).abs() < 1e-6, "{limited:?}");
            assert!((limited.backoff / endless.backoff - 1.0).abs() < 1e-6, "{limited:?}");
            assert!(limited.dropped > 0.0 && limited.dropped < 1e-6, "{limited:?}");
        }
    }
}
