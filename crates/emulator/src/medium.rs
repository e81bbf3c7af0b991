//! The radio as the medium of `mac80211_hwsim`: real 802.11 stacks in real time.
//!
//! [`run_medium`] registers with the driver, which passes it every frame of its radios. Mesh
//! management, rate control, aggregation agreements, queues and routing are the kernel's. Station
//! `i` of the scenario is radio `i` of the driver. Time is the monotonic clock; in a virtual machine
//! that counts time in instructions it is counted, too.

use std::fs;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use fairmesh_engine::record::LatenessRecord;
use fairmesh_linux::hwsim::{Event, Hwsim, NO_ACK, Radio, ReceivedFrame, SentStatus};
use fairmesh_linux::realtime::{self, Interest, Preferred};
use fairmesh_medium::{Frame, Kernel, Medium, RateChoice, RateFlags, Reception, Status};
use fairmesh_scenario::Scenario;
use fairmesh_units::{NodeId, Span, Time};
use serde::Serialize;

use crate::error::EmulatorError;
use crate::lateness::Lateness;

/// Interval between updates of the surveys.
const SURVEY_INTERVAL: Span = Span::from_millis(100);
/// Noise in surveys, dBm: that of 20 MHz at room temperature.
const NOISE_DBM: i32 = -95;
/// Most frames taken from the kernel before due events are processed.
const MAX_FRAMES_PER_TURN: usize = 64;
/// Longest wait, after which an interrupt is noticed.
const MAX_WAIT: Span = Span::from_millis(200);
/// Priority of the thread under `SCHED_FIFO`, as the emulator's.
const THREAD_PRIORITY: i32 = 50;

/// Settings of a medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MediumOptions {
    /// Seed of the radio's random streams.
    pub seed: u64,
    /// End of the run; `None`: until it is stopped.
    pub duration: Option<Span>,
    /// True if data frames have the scenario's rates instead of the kernel's.
    pub scenario_rates: bool,
    /// True if monitor interfaces receive frames for other stations.
    pub overhear: bool,
}

/// Features of the loaded driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct DriverSupport {
    /// Frames that it passes before it stops a queue; `None`: the stock driver, without bound.
    pub ring: Option<u32>,
    /// True if surveys can be set.
    pub survey: bool,
}

/// Results of one station.
#[derive(Clone, Debug, Serialize)]
pub struct StationRecord {
    /// Name of the station in the scenario.
    pub node: String,
    /// Wireless device of its radio.
    pub phy: String,
    /// Data frames that it sent.
    pub data: u64,
    /// Other frames that it sent.
    pub management: u64,
    /// Frames with an acknowledgement, or sent to a group.
    pub delivered: u64,
    /// Frames given up.
    pub lost: u64,
    /// Frames that it received.
    pub received: u64,
    /// Most frames that the medium held at once.
    pub most_in_flight: u64,
    /// Frames that overlapped others at this station and were lost there.
    pub collided: u64,
    /// Fraction of time in which the station sensed the medium busy, without its own frames.
    pub busy: f64,
    /// Fraction of time in which it transmitted.
    pub transmit: f64,
}

/// Results of a medium.
#[derive(Clone, Debug, Serialize)]
pub struct MediumRecord {
    /// Name of the scenario.
    pub scenario: String,
    /// Time for which it ran, s.
    pub duration_s: f64,
    /// Support of the driver.
    pub driver: DriverSupport,
    /// True if the thread ran under `SCHED_FIFO`.
    pub fifo: bool,
    /// Transmissions on the air.
    pub transmissions: u64,
    /// Lateness of the medium's events.
    pub lateness_s: LatenessRecord,
    /// Messages that the driver refused, such as a frame for a radio that is down.
    pub refused: u64,
    /// Times that frames were lost before they reached the medium.
    pub overruns: u64,
    /// Stations.
    pub stations: Vec<StationRecord>,
}

/// The driver, with the radio of each station.
struct Cards {
    hwsim: Hwsim,
    radios: Vec<Radio>,
}

impl Kernel for Cards {
    fn deliver(&mut self, _: Time, to: NodeId, frame: &Frame, reception: &Reception) {
        self.hwsim.received(&ReceivedFrame {
            radio: self.radios[to.index()].number,
            bytes: &frame.bytes,
            rate_index: reception.rate_index,
            signal: reception.signal,
            frequency: frame.frequency,
            airtime_us: microseconds(reception.airtime),
        });
    }

    fn report(&mut self, _: Time, from: NodeId, frame: &Frame, status: &Status) {
        let mut tried = [(-1, 0); 4];
        for ((entry, choice), attempts) in tried.iter_mut().zip(&frame.series).zip(status.attempts)
        {
            *entry = (choice.index, attempts);
        }
        self.hwsim.sent(&SentStatus {
            radio: self.radios[from.index()].number,
            cookie: frame.cookie,
            flags: frame.flags,
            acked: status.acked,
            tried,
            signal: status.signal,
            airtime_us: microseconds(status.airtime),
        });
    }
}

/// Runs the medium of a scenario until `stop`, its end, or an error.
///
/// `ready` is called when the radios have it.
///
/// # Errors
/// Returns an error if the scenario has no medium, there are too few radios, rights are missing, or a radio
/// sends at a rate that the scenario's PHY lacks.
pub fn run_medium(
    scenario: &Scenario,
    options: MediumOptions,
    stop: &AtomicBool,
    ready: impl FnOnce(&[Radio], DriverSupport),
) -> Result<MediumRecord, EmulatorError> {
    let mut medium = Medium::new(scenario, options.seed)?;
    if options.scenario_rates {
        medium = medium.with_scenario_rates(scenario);
    }
    if options.overhear {
        medium = medium.with_overhearing();
    }
    let stations = medium.stations().len();
    let mut radios = Hwsim::radios()?;
    if radios.len() < stations {
        return Err(EmulatorError::TooFewRadios { have: radios.len(), need: stations });
    }
    radios.truncate(stations);
    let surveys: Vec<String> = radios.iter().map(|r| survey_file(&r.phy)).collect();
    let driver = DriverSupport {
        ring: parameter("ring").filter(|ring| *ring > 0),
        survey: surveys.iter().all(|s| fs::metadata(s).is_ok()),
    };
    let mut cards = Cards { hwsim: Hwsim::register()?, radios };
    let preferred = realtime::prefer(THREAD_PRIORITY);
    let start = realtime::now();
    ready(&cards.radios, driver);
    let mut run = Run {
        start,
        end: options.duration.map_or(Time::NEVER, |d| Time::ZERO + d),
        next_survey: if driver.survey { Time::ZERO } else { Time::NEVER },
        surveys,
        lateness: Lateness::default(),
        taken: Vec::new(),
    };
    let end = run.until_stopped(&mut medium, &mut cards, stop)?;
    Ok(record(scenario, &mut medium, &cards, &run, (driver, preferred, end)))
}

/// State of the loop.
struct Run {
    /// Clock at time zero, ns.
    start: u64,
    end: Time,
    next_survey: Time,
    surveys: Vec<String>,
    lateness: Lateness,
    /// Frames of one turn, with the number of their radio.
    taken: Vec<(u32, Frame)>,
}

impl Run {
    fn now(&self) -> Time {
        Time::from_nanos(realtime::now().saturating_sub(self.start))
    }

    fn until_stopped(
        &mut self,
        medium: &mut Medium,
        cards: &mut Cards,
        stop: &AtomicBool,
    ) -> Result<Time, EmulatorError> {
        loop {
            let now = self.now();
            if now >= self.end || stop.load(Ordering::Relaxed) {
                return Ok(now.min(self.end));
            }
            let more = self.take(medium, cards)?;
            let mut due = medium.next_deadline();
            while due <= now {
                self.lateness.record(now - due);
                medium.step(cards);
                if cards.hwsim.has_output() {
                    break;
                }
                due = medium.next_deadline();
            }
            if cards.hwsim.has_output() {
                cards.hwsim.flush()?;
                continue;
            }
            if more {
                continue;
            }
            if now >= self.next_survey {
                self.write_surveys(medium, now);
                continue;
            }
            let until = due.min(self.end).min(self.next_survey).min(now + MAX_WAIT);
            let wanted = Interest { read: true, write: false };
            realtime::poll_until(&[(cards.hwsim.as_fd(), wanted)], self.start + until.as_nanos())
                .map_err(EmulatorError::system("waiting for frames"))?;
        }
    }

    /// Takes frames from the kernel; returns true if there may be more.
    fn take(&mut self, medium: &mut Medium, cards: &mut Cards) -> Result<bool, EmulatorError> {
        let mut taken = std::mem::take(&mut self.taken);
        let mut more = true;
        while more && taken.len() < MAX_FRAMES_PER_TURN {
            let each = |event: Event<'_>| match event {
                Event::Frame(f) => taken.push((f.radio, frame_of(&f))),
                Event::Address(radio, mac) => {
                    if let Some(at) = cards.radios.iter().position(|r| r.number == radio) {
                        medium.learn(mac.0, NodeId(at as u32));
                        medium.restarted(NodeId(at as u32));
                    }
                }
            };
            more = cards.hwsim.receive(each)?;
        }
        for (radio, frame) in taken.drain(..) {
            let Some(at) = cards.radios.iter().position(|r| r.number == radio) else { continue };
            // Not beyond an event that is due: it is processed first, slightly late.
            let when = self.now().min(medium.next_deadline()).max(medium.now());
            medium.transmit(when, NodeId(at as u32), frame, cards)?;
        }
        self.taken = taken;
        Ok(more)
    }

    fn write_surveys(&mut self, medium: &Medium, now: Time) {
        let us = |s: Span| s.as_nanos() / 1000;
        for (i, path) in self.surveys.iter().enumerate() {
            let t = medium.channel_time(now, NodeId(i as u32));
            let busy = us(t.busy) + us(t.transmit);
            let (active, receive, transmit) = (us(t.active), us(t.receive), us(t.transmit));
            // A radio that was removed has no file any more.
            let _ = fs::write(path, format!("{active} {busy} {receive} {transmit} {NOISE_DBM}\n"));
        }
        self.next_survey = now + SURVEY_INTERVAL;
    }
}

fn frame_of(f: &fairmesh_linux::hwsim::SentFrame<'_>) -> Frame {
    let choice = |e: fairmesh_linux::hwsim::SeriesEntry| RateChoice {
        index: e.index,
        attempts: e.attempts,
        flags: RateFlags(e.flags),
    };
    Frame {
        bytes: f.bytes.to_vec(),
        series: f.series.map(choice),
        no_ack: f.flags & NO_ACK != 0,
        frequency: f.frequency,
        cookie: f.cookie,
        flags: f.flags,
    }
}

fn record(
    scenario: &Scenario,
    medium: &mut Medium,
    cards: &Cards,
    run: &Run,
    (driver, preferred, end): (DriverSupport, Preferred, Time),
) -> MediumRecord {
    let seconds = (end - Time::ZERO).as_secs_f64();
    let share = |s: Span| if seconds > 0.0 { s.as_secs_f64() / seconds } else { 0.0 };
    let names = medium.stations().iter().zip(&cards.radios).enumerate();
    let stations = names.map(|(i, (name, radio))| {
        let node = NodeId(i as u32);
        let (c, t) = (medium.counters(node), medium.channel_time(end, node));
        StationRecord {
            node: name.clone(),
            phy: radio.phy.clone(),
            data: c.data,
            management: c.management,
            delivered: c.delivered,
            lost: c.lost,
            received: c.received,
            most_in_flight: c.most_in_flight,
            collided: medium.mac_counters(node).collided,
            busy: share(t.busy),
            transmit: share(t.transmit),
        }
    });
    MediumRecord {
        scenario: scenario.name().to_owned(),
        duration_s: seconds,
        driver,
        fifo: preferred.fifo,
        transmissions: medium.transmissions(),
        lateness_s: run.lateness.summary(),
        refused: cards.hwsim.refused(),
        overruns: cards.hwsim.overruns(),
        stations: stations.collect(),
    }
}

/// Returns a parameter of the loaded driver.
fn parameter(name: &str) -> Option<u32> {
    let path = format!("/sys/module/mac80211_hwsim/parameters/{name}");
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn survey_file(phy: &str) -> String {
    format!("/sys/kernel/debug/ieee80211/{phy}/hwsim/survey")
}

fn microseconds(span: Span) -> u32 {
    u32::try_from(span.as_nanos() / 1000).unwrap_or(u32::MAX)
}
