//! The engine's thread: events at their due times, frames on arrival.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fairmesh_engine::record::{RunRecord, Series};
use fairmesh_linux::realtime::{Preferred, Waiter};
use fairmesh_units::{Span, Time};

use crate::clock::{Keeper, RadioClock};
use crate::lateness::Lateness;
use crate::network::Network;
use crate::stalls::Stalls;
use crate::switch::{Input, Switch, SwitchCounters};
use crate::traffic::Meter;

/// Maximum number of frames read from one interface in a row.
///
/// A flood then does not delay events.
const MAX_FRAMES_PER_TURN: usize = 64;

/// Maximum interval between turns of the engine.
///
/// It bounds the waiting time of a frame that arrives meanwhile.
const POLL_INTERVAL: Span = Span::from_millis(5);

/// Returns a waiter that watches every interface by its index.
pub(crate) fn watch_all(network: &Network) -> std::io::Result<Waiter> {
    let waiter = Waiter::new()?;
    for (i, tap) in network.taps.iter().enumerate() {
        waiter.add(tap, i as u64)?;
    }
    Ok(waiter)
}

/// The engine's thread.
pub(crate) struct Engine<'a> {
    pub switch: Switch,
    pub network: &'a Network,
    pub waiter: Waiter,
    pub preferred: Preferred,
    pub clock: &'a RadioClock,
    /// Maximum lateness of an event before radio time stops.
    pub slack: Span,
    /// The minimum retransmission timer of the namespaces.
    pub timer: Span,
    /// End of the run, ns; `u64::MAX` while it is open.
    pub end: &'a AtomicU64,
    pub stop: &'a AtomicBool,
    pub meters: &'a [Meter],
    pub sample: Span,
    pub kernel_time: bool,
    pub transmissions: &'a AtomicU64,
    pub lateness: Lateness,
    pub series: Series,
}

/// Results of the engine's thread.
pub(crate) struct Done {
    /// Measurements of the radio.
    pub record: RunRecord,
    pub inputs: Vec<Input>,
    /// Per interface.
    pub counters: Vec<SwitchCounters>,
    pub lateness: Lateness,
    pub stalls: Stalls,
    pub series: Series,
    pub preferred: Preferred,
    pub air_fingerprint: u64,
    pub end: Time,
}

impl<'a> Engine<'a> {
    /// Runs until the end, or until it is stopped.
    pub fn run(mut self) -> std::io::Result<Done> {
        let taps = &self.network.taps;
        let clock = self.clock;
        let mut keeper = Keeper::new(clock, self.slack, self.timer);
        clock.wait_for_zero();
        let mut buffer = vec![0u8; 1 << 16];
        // Interfaces with frames for which the engine had no room yet.
        let mut held: Vec<usize> = (0..taps.len()).collect();
        let (mut ready, mut responses) = (Vec::new(), Vec::new());
        let mut next_sample = Time::ZERO + self.sample;
        let mut sampled = (Time::ZERO, vec![0; self.meters.len()]);
        let end = loop {
            let now = keeper.tick();
            keeper.allow(now, self.switch.next_deadline().min(now + POLL_INTERVAL));
            let more = self.refill(&mut held, &mut buffer)?;
            let now = keeper.tick();
            let end = Time::from_nanos(self.end.load(Ordering::Relaxed));
            let due = self.switch.next_deadline();
            // The frames taken in may be due earlier.
            keeper.allow(now, due.min(now + POLL_INTERVAL));
            if now >= next_sample && next_sample <= end {
                self.take_sample(next_sample, &mut sampled);
                next_sample += self.sample;
            }
            if self.stop.load(Ordering::Relaxed) || (now >= end && due >= end) {
                break end.min(now);
            }
            if due <= now {
                self.switch.step(|interface, at, frame| {
                    // An interface that is down loses the frame, as a real one does.
                    let _ = taps[interface].write(frame);
                    if !self.kernel_time {
                        responses.push((interface, at));
                    }
                });
                self.take_responses(&mut responses, &mut buffer)?;
                // Includes the time until the kernel has the frames that arrived.
                self.lateness.record(keeper.tick() - due);
                self.transmissions.store(self.switch.world().transmissions(), Ordering::Relaxed);
                continue;
            }
            if more {
                continue;
            }
            let until = due.min(end).min(next_sample).min(now + POLL_INTERVAL);
            keeper.allow(now, until);
            self.waiter.wait(clock.reading(until), &mut ready)?;
            held.extend(ready.drain(..).map(|i| i as usize));
        };
        if self.sample != Span::MAX && sampled.0 < end {
            self.take_sample(end, &mut sampled);
        }
        let counters = (0..taps.len()).map(|i| self.switch.counters(i)).collect();
        let (live, inputs) = self.switch.into_parts();
        Ok(Done {
            air_fingerprint: live.air_fingerprint(),
            record: live.finish(end, &[]),
            inputs,
            counters,
            lateness: self.lateness,
            stalls: keeper.stalls,
            series: self.series,
            preferred: self.preferred,
            end,
        })
    }

    /// Takes frames from the kernel while the engine has room; returns true if there are more.
    ///
    /// An interface leaves `held` when it has no more frames; the waiter reports new ones.
    fn refill(&mut self, held: &mut Vec<usize>, buffer: &mut [u8]) -> std::io::Result<bool> {
        let (mut k, mut taken, mut more) = (0, 0, false);
        while k < held.len() {
            let i = held[k];
            let room = self.switch.has_room(i);
            if !room || taken == MAX_FRAMES_PER_TURN {
                more |= room;
                (k, taken) = (k + 1, 0);
                continue;
            }
            match self.network.taps[i].read(buffer)? {
                Some(n) => {
                    taken += 1;
                    let now = self.clock.now();
                    // Not beyond an event that is due: the event is processed first, slightly late.
                    let at = now.min(self.switch.next_deadline()).max(self.switch.now());
                    self.switch.accept(at, i, &buffer[..n]);
                }
                None => {
                    taken = 0;
                    held.swap_remove(k);
                    self.waiter.arm(&self.network.taps[i], i as u64)?;
                }
            }
        }
        Ok(more)
    }

    /// Takes the frames that nodes sent in response to a received frame.
    ///
    /// These are forwarded packets, acknowledgements. They enter at the arrival of that frame, as in the
    /// simulator, so that kernel processing takes no emulated time.
    fn take_responses(
        &mut self,
        responses: &mut Vec<(usize, Time)>,
        buffer: &mut [u8],
    ) -> std::io::Result<()> {
        for (interface, at) in responses.drain(..) {
            let all = &self.network.plan.interfaces;
            let node = all[interface].node;
            // Interfaces of one node are contiguous.
            let first = all[..interface].iter().rposition(|i| i.node != node).map_or(0, |i| i + 1);
            for i in (first..all.len()).take_while(|i| all[*i].node == node) {
                for _ in 0..MAX_FRAMES_PER_TURN {
                    if !self.switch.has_room(i) {
                        break;
                    }
                    let Some(n) = self.network.taps[i].read(buffer)? else { break };
                    self.switch.accept(at.max(self.switch.now()), i, &buffer[..n]);
                }
            }
        }
        Ok(())
    }

    fn take_sample(&mut self, at: Time, before: &mut (Time, Vec<u64>)) {
        let interval = (at - before.0).as_secs_f64();
        before.0 = at;
        let s = &mut self.series;
        s.time_s.push(at.as_secs_f64());
        s.goodput_bps.resize(self.meters.len(), Vec::new());
        s.cwnd_bytes.resize(self.meters.len(), Vec::new());
        s.limit_bps.resize(self.meters.len(), Vec::new());
        for (f, meter) in self.meters.iter().enumerate() {
            let total = meter.delivered.load(Ordering::Relaxed);
            let bytes = total - std::mem::replace(&mut before.1[f], total);
            s.goodput_bps[f].push(bytes as f64 * 8.0 / interval);
            let cwnd = meter.cwnd.load(Ordering::Relaxed);
            if cwnd > 0 || !s.cwnd_bytes[f].is_empty() {
                s.cwnd_bytes[f].push(cwnd as f64);
            }
        }
        let radios = self.network.plan.interfaces.iter();
        let nodes: Vec<_> = radios
            .filter(|i| i.side == crate::plan::Side::Radio)
            .map(|i| self.switch.world().queued(i.node))
            .collect();
        s.queue_packets.resize(nodes.len(), Vec::new());
        for (n, length) in nodes.into_iter().enumerate() {
            s.queue_packets[n].push(f64::from(length));
        }
    }
}
