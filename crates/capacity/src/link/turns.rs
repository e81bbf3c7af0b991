//! Turns between a sender of data and its receiver on a link with many packets per frame.
//!
//! The receiver sends TCP acknowledgements or QUIC replies.
//!
//! Acknowledgements are caused by data that arrive, so a reverse frame carries those of the one or
//! two data frames before it, regardless of the number that would fit. Its frequency follows from
//! the two backoffs: the receiver wins the medium before the sender's next frame, or after it.

/// Events per data frame.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Turns {
    /// Frames of acknowledgements.
    pub back: f64,
    /// Slots of backoff without a transmission.
    pub idle: f64,
    /// Collisions of the two.
    pub collisions: f64,
}

/// Returns the turns with contention window `cw`.
///
/// A frame of acknowledgements covers those of at most `1 / needed` data frames. `aggregate`: true
/// if data frames have several MPDUs.
pub(super) fn turns(cw: u32, needed: f64, aggregate: bool) -> Turns {
    let values = f64::from(cw) + 1.0;
    // Two contenders, one of which has a frame only after the other has sent; by simulation
    // (`simulated`). If data frames have several MPDUs, their acknowledgements are created while
    // the medium is busy and draw their own backoff; those of a single MPDU are created when the
    // medium is idle again (IEEE 802.11-2020 §10.23.2.4).
    let own = if aggregate { 0.64 - 0.9 / values } else { 0.8 - 0.85 / values };
    let back = needed.clamp(own, 1.0);
    // At 1 both are backlogged and collide twice as often.
    let busy = (back - own) / (1.0 - own);
    let collisions = (1.0 + busy) / values;
    // The sender is backlogged: every idle slot belongs to one of its backoffs, and each collision
    // is followed by one with twice the window, or two.
    let idle = f64::from(cw) / 2.0 + collisions * (f64::from(cw) + 1.5);
    Turns { back, idle, collisions }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairmesh_units::Stream;

    /// Simulates the two backoffs slot by slot.
    ///
    /// The receiver has a frame after data have arrived, or always.
    fn simulated(cw: u32, aggregate: bool, always: bool) -> Turns {
        const FRAMES: u32 = 200_000;
        let mut rng = Stream::new(3, "turns");
        let mut draw = |cw: u32| rng.below(cw + 1);
        let (mut data, mut back, mut idle, mut collisions) = (0u32, 0u32, 0u64, 0u32);
        let (mut ours, mut theirs) = (draw(cw), draw(cw));
        let (mut our_cw, mut their_cw, mut waits) = (cw, cw, always);
        while data < FRAMES {
            let slots = if waits { ours.min(theirs) } else { ours };
            idle += u64::from(slots);
            (ours, theirs) = (ours - slots, theirs.saturating_sub(slots));
            if ours > 0 {
                (back, waits, their_cw) = (back + 1, always, cw);
                theirs = draw(cw);
            } else if waits && theirs == 0 {
                collisions += 1;
                (our_cw, their_cw) = ((2 * our_cw + 1).min(1023), (2 * their_cw + 1).min(1023));
                (ours, theirs) = (draw(our_cw), draw(their_cw));
            } else {
                (data, waits, our_cw) = (data + 1, true, cw);
                ours = draw(cw);
                if theirs == 0 && aggregate {
                    theirs = draw(their_cw);
                }
            }
        }
        let per_frame = |n: f64| n / f64::from(data);
        Turns {
            back: per_frame(f64::from(back)),
            idle: per_frame(idle as f64),
            collisions: per_frame(f64::from(collisions)),
        }
    }

    #[test]
    fn turns_are_those_of_the_two_backoffs() {
        let near = |a: f64, b: f64, off: f64| (a / b - 1.0).abs() < off;
        for cw in [7, 15, 31, 63] {
            for (needed, aggregate, always) in
                [(0.0, true, false), (0.0, false, false), (1.0, true, true), (1.0, false, true)]
            {
                let (found, wanted) =
                    (turns(cw, needed, aggregate), simulated(cw, aggregate, always));
                let close = near(found.back, wanted.back, 0.05)
                    && near(found.idle, wanted.idle, 0.025)
                    && near(found.collisions, wanted.collisions, 0.15);
                assert!(close, "{cw}, {needed}, {aggregate}: {found:?} for {wanted:?}");
            }
        }
        // Packets that do not fit into one frame are sent in the next.
        assert!((turns(15, 0.8, true).back - 0.8).abs() < 1e-12);
    }
}
