//! Cost of a frame in A-MPDUs that lose some of their MPDUs.
//!
//! A sender may send only one window beyond its oldest unacknowledged MPDU, so an MPDU that is lost
//! repeatedly blocks the window: losses also shorten frames, in addition to the retransmissions.

use fairmesh_units::Span;

use super::{FrameCost, LinkModel};

/// Length of the delimiter before each MPDU, bytes (IEEE 802.11-2020 §9.7.1).
const DELIMITER_BYTES: u32 = 4;
/// Factor of the window's progress per exchange, relative to consecutive windows.
///
/// From a simulation of the window alone: 1.18 to 1.27 for losses of 1 to 90 %.
const WINDOW_PROGRESS: f64 = 1.24;
/// Sharpness of the transition between the window's limit and the frame's.
const TRANSITION_SHARPNESS: f64 = 12.0;

/// Returns the cost of a frame of `psdu` bytes in A-MPDUs of at most `most` frames.
pub(super) fn frame(
    link: &LinkModel<'_>,
    psdu: u32,
    most: u32,
    reserve: Span,
    limit: u32,
) -> FrameCost {
    let (t, r) = (link.phy.timing(), link.phy.response(link.rate));
    let window = link.phy.as_modern().map_or(most, |m| m.window);
    let (lost, block_acked) = (1.0 - link.delivery, link.answer);
    // MPDUs that arrived in a frame with a lost response are not lost again.
    let lost = block_acked * lost / (1.0 - (1.0 - block_acked) * lost);
    let moved = advance(window, most, lost);
    let mpdus = (moved / (1.0 - lost).max(1e-12)).clamp(1.0, f64::from(most));
    // In a frame that gets a response, at least one MPDU arrived.
    let arrived = 1.0 - libm::pow(1.0 - link.delivery, mpdus);
    let moved = (moved / arrived.max(1e-12)).min(mpdus);
    let subframe = f64::from((psdu + DELIMITER_BYTES).next_multiple_of(4));
    let bytes = (mpdus - 1.0) * subframe + f64::from(DELIMITER_BYTES + psdu);
    let data = reserve + link.phy.airtime(link.rate, bytes as u32);
    let ok = (data + t.sifs + r.block_ack).as_secs_f64();
    let failed = (data + r.ack_timeout).as_secs_f64();
    let (difs, slot) = (t.difs.as_secs_f64(), t.slot.as_secs_f64());
    let good = block_acked * arrived;
    let (mut seconds, mut exchanges, mut reached, mut cw) = (0.0, 0.0, 1.0, t.cw_min);
    for _ in 0..limit {
        let backoff = f64::from(cw) / 2.0 * slot;
        exchanges += reached;
        seconds += reached * (difs + backoff + good * ok + (1.0 - good) * failed);
        reached *= 1.0 - good;
        cw = t.next_cw(cw);
    }
    // Number of MPDUs finished from one response, or the end of all retries, to the next.
    let done = (1.0 - reached) * moved + reached * mpdus;
    FrameCost {
        seconds: seconds / done,
        attempts: exchanges * mpdus / done,
        delivered: (1.0 - reached) * moved / done,
    }
}

/// Returns the number of MPDUs by which the window moves per acknowledged exchange.
///
/// It is at most the arrivals of a full frame, and at most the throughput of a window of this
/// length in which each MPDU is sent until it arrives.
fn advance(window: u32, most: u32, lost: f64) -> f64 {
    let frames = f64::from(most) * (1.0 - lost);
    let through = WINDOW_PROGRESS * f64::from(window) / longest(window, lost);
    libm::pow(
        libm::pow(frames, -TRANSITION_SHARPNESS) + libm::pow(through, -TRANSITION_SHARPNESS),
        -1.0 / TRANSITION_SHARPNESS,
    )
}

/// Returns the mean of the largest of `count` geometric numbers of attempts.
fn longest(count: u32, lost: f64) -> f64 {
    if lost <= 0.0 {
        return 1.0;
    }
    let n = f64::from(count);
    if lost > 0.9 {
        // As for exponential variables, with Euler's constant.
        let ln = libm::log(n) + 0.577_215_664_9 + 0.5 / n;
        return ln / -libm::log(lost) + 0.5;
    }
    let (mut sum, mut power) = (0.0, 1.0);
    while n * power > 1e-9 {
        sum += 1.0 - libm::pow(1.0 - power, n);
        power *= lost;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates the window alone, MPDU by MPDU, and returns its progress per exchange.
    fn simulated(window: usize, most: usize, lost: f64) -> f64 {
        let mut rng = fairmesh_units::Stream::new(7, "window");
        let (mut waiting, mut next, mut arrived) = (std::collections::VecDeque::new(), 0, 0);
        const EXCHANGES: usize = 20_000;
        for _ in 0..EXCHANGES {
            let oldest = waiting.front().copied().unwrap_or(next);
            while waiting.len() < most && next < oldest + window {
                waiting.push_back(next);
                next += 1;
            }
            let sent: Vec<usize> = waiting.drain(..waiting.len().min(most)).collect();
            let before = waiting.len();
            for mpdu in sent.into_iter().rev() {
                if rng.unit() < lost { waiting.push_front(mpdu) } else { arrived += 1 }
            }
            assert!(waiting.len() >= before);
        }
        arrived as f64 / EXCHANGES as f64
    }

    #[test]
    fn the_window_moves_as_if_simulated() {
        for most in [64, 42, 32, 16] {
            for lost in [0.01, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85] {
                let (found, wanted) = (advance(64, most, lost), simulated(64, most as usize, lost));
                let off = found / wanted - 1.0;
                assert!(off.abs() < 0.08, "{most} MPDUs, {lost} lost: {found} for {wanted}");
            }
        }
        assert!((advance(64, 64, 1e-9) / 64.0 - 1.0).abs() < 0.01);
    }

    #[test]
    fn the_largest_of_many() {
        // One coin: 1/p. Two fair ones: 8/3.
        assert!((longest(1, 0.5) - 2.0).abs() < 1e-6);
        assert!((longest(2, 0.5) - 8.0 / 3.0).abs() < 1e-6);
        let (below, above) = (longest(64, 0.9), longest(64, 0.900_001));
        assert!((above / below - 1.0).abs() < 0.005, "{below} {above}");
    }
}
