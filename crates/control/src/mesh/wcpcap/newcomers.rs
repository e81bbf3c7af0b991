//! Newcomers and leavers. The first packets of a newcomer are given up by the MAC where those who fill the air are hidden
//! from it, and reports travel in packets: until one gets through it tells of its link in messages, who hears them tells
//! on, and room is made for it. Who leaves is told as well, and what it leaves is taken.

use fairmesh_units::{NodeId, Span, Time};

use super::estimate::fastest;
use super::link::{OwnLink, TRICKLE};
use super::link_report::{LinkReport, WORDS};
use super::{Anomaly, EPOCHS, WcpCap, draw};
use crate::{Actions, Link, Reason, Value};

/// Time between messages of a node: this, and up to as much again. Those who answer the same message at the same time
/// are hidden from each other as often as not.
const PAUSE: Span = Span::from_millis(60);
/// A new flow cries so long if none of its packets gets through.
const NEW: Span = Span::from_secs(1);
/// One whose packet was given up, so long at most: TCP is silent for 4 s after its third SYN (RFC 6298 §5.5).
const UNHEARD: Span = Span::from_secs(5);
/// Where packets got through before, one that is given up is nothing yet: only where none gets through for so long.
const LOST: Span = Span::from_millis(200);
/// Who has heard one cry tells on so long.
const ECHO: Span = Span::from_millis(500);
/// Reports in a message, and bytes of each.
const REPORTS: usize = 6;
const BYTES: usize = 4 * WORDS;
/// The first byte: the sender's own packets do not get through, or it tells on.
const CRY: u8 = 1;
const TOLD: u8 = 0;
/// Data told of a link whose packets do not get through, bit/s: less than of any other ([`TRICKLE`]).
const HARDLY: f64 = 1e3;
/// At most this is told of such a link: rates are told in steps of 1.4 %.
pub(super) const UNHEARD_DATA: f64 = 1.02 * HARDLY;
/// Bytes of its packets, where none was seen yet.
const SIZE: u32 = 500;
/// Flows that have sent nothing for so long, and whose last packet got through, have left. Who comes back is a newcomer.
const IDLE: Span = Span::from_millis(1500);

/// When a node speaks again at the earliest, and until when it tells on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Voice {
    pub next: Time,
    echo: Option<Time>,
    /// How often it spoke.
    turn: u32,
}

impl OwnLink {
    /// A flow has come whose packets go out on it.
    pub fn greet(&mut self, now: Time) {
        self.cries = (now, self.cries.1.max(now + NEW));
    }

    /// What became of a packet.
    pub fn fared(&mut self, now: Time, delivered: bool) {
        self.heard |= delivered;
        let (from, until) = self.cries;
        let from = match (now < until, self.heard) {
            (true, _) => from,
            (false, true) => now + LOST,
            (false, false) => now,
        };
        self.cries = if delivered { Default::default() } else { (from, now + UNHEARD) };
    }

    /// Whether none of its packets has got through yet, and it says so.
    pub fn mute(&self, now: Time) -> bool {
        !self.heard && self.cries(now)
    }

    /// Whether its flows have left, and it says so.
    pub fn gone(&self, now: Time) -> bool {
        now < self.gone_until
    }

    /// Whether packets of its flows do not get through.
    pub fn cries(&self, now: Time) -> bool {
        (self.cries.0..self.cries.1).contains(&now)
    }
}

impl WcpCap {
    /// Messages of this node, if it is time.
    pub(super) fn cry(&mut self, now: Time, actions: &mut Actions) {
        if self.ideal || now < self.voice.next {
            return;
        }
        let crying: Vec<&OwnLink> = self.own.iter().filter(|o| o.cries(now)).collect();
        let echo = self.voice.echo.is_some_and(|until| now < until);
        let gone = self.own.iter().filter(|o| o.gone(now));
        let gone: Vec<LinkReport> = gone.map(|o| empty(o, self.node)).take(REPORTS).collect();
        if crying.is_empty() && gone.is_empty() && !echo {
            return;
        }
        self.voice.turn = self.voice.turn.wrapping_add(1);
        // To whom it does not get through: short, and with the MAC's retries, which what is sent to all has not.
        let deaf = crying.get(self.voice.turn as usize % crying.len().max(1));
        let flag = if deaf.is_some() || !gone.is_empty() { CRY } else { TOLD };
        let mut reports: Vec<LinkReport> = deaf.map(|o| bare(o, self.node)).into_iter().collect();
        let to = deaf.map(|o| o.to);
        if to.is_none() {
            reports = gone;
            let mut rest: Vec<LinkReport> = self.reports.beyond().copied().collect();
            rest.extend(self.own.iter().filter_map(|o| o.measured));
            // Those of links that hardly carry anything first: nobody else hears of them.
            while reports.len() < REPORTS {
                let first = rest.iter().position(|n| unheard(n) || n.is_empty());
                let Some(at) = first.or_else(|| draw(&mut self.stream, rest.len())) else { break };
                reports.push(rest.swap_remove(at));
            }
        }
        let words = reports.iter().flat_map(LinkReport::words).flat_map(u32::to_be_bytes);
        let body: Vec<u8> = core::iter::once(flag).chain(words).collect();
        self.voice.next = now + PAUSE + self.lull();
        actions.because(Reason::new(
            "wcpcap.unheard",
            "node {} does not get through, or has heard one that does not: told of {} links",
            &[Value::Node(self.node), Value::Count(reports.len() as u64)],
        ));
        actions.send(to, &body);
    }

    /// A message in the air.
    pub(super) fn cried(&mut self, now: Time, from: NodeId, body: &[u8], actions: &mut Actions) {
        let Some((flag, reports)) = body.split_first() else {
            return self.anomaly(Anomaly::Implausible, from, actions);
        };
        if *flag > CRY || reports.len() % BYTES != 0 || reports.len() > BYTES * REPORTS {
            return self.anomaly(Anomaly::Implausible, from, actions);
        }
        for report in reports.chunks_exact(BYTES) {
            let word = |i: usize| {
                report[4 * i..4 * i + 4].iter().fold(0, |w: u32, b| w << 8 | u32::from(*b))
            };
            if let Some(report) = LinkReport::read(core::array::from_fn(word)) {
                self.take(now, from, report, actions);
            }
        }
        if *flag == CRY {
            self.voice.next = self.voice.next.max(now + self.lull());
            self.voice.echo = Some(now + ECHO);
            self.due = Some(self.due.map_or(self.voice.next, |d| d.min(self.voice.next)));
        }
    }

    fn lull(&mut self) -> Span {
        Span::from_nanos(u64::from(self.stream.below(PAUSE.as_nanos() as u32)))
    }

    /// Whether it has something to say by messages, soon.
    pub(super) fn speaks(&self, now: Time) -> bool {
        let echo = self.voice.echo.is_some_and(|until| now < until);
        !self.ideal && (echo || self.own.iter().any(|o| o.cries(now) || o.gone(now)))
    }

    /// How long flows of an own link are silent before they count as gone. While somebody around is not heard they may be
    /// waiting for that: its packets may be their acknowledgements.
    pub(super) fn patience(&self, now: Time, i: usize) -> Span {
        let told = self.reports.among(&self.own[i].middle).any(unheard);
        match (self.ideal, told || self.own.iter().any(|o| o.cries(now))) {
            (true, _) => self.hold,
            (false, true) => UNHEARD,
            (false, false) => IDLE,
        }
    }

    /// Flows around have left: the next epoch of every own link that they concern ends now.
    pub(super) fn hear_of_leavers(&mut self, now: Time) {
        for link in self.reports.fewer() {
            for own in &mut self.own {
                if own.middle.contains(&link.from) || own.middle.contains(&link.to) {
                    own.fewer = true;
                }
            }
        }
        for own in self.own.iter_mut().filter(|o| o.fewer) {
            own.hurry(now, EPOCHS.0);
        }
    }

    /// Where flows have left, R is at least what all that are left could have alike.
    pub(super) fn take_what_is_left(&mut self, i: usize, around: &[LinkReport]) {
        let own = &mut self.own[i];
        if self.ideal || !std::mem::take(&mut own.fewer) {
            return;
        }
        let hears = self.reports.hears(around);
        let model = self.model.as_ref();
        let alike = self.questions.alike(model, around, hears, self.u, &mut own.even);
        if let Some(alike) = alike {
            own.set(own.limit.unwrap_or(0.0).max(alike.delta), self.least);
        }
    }
}

/// Whether packets of its flows do not get through.
fn unheard(report: &LinkReport) -> bool {
    report.flows > 0 && report.data <= UNHEARD_DATA
}

/// What is told of a link whose flows have left.
fn empty(own: &OwnLink, node: NodeId) -> LinkReport {
    LinkReport { data: 0.0, flows: 0, top: 0.0, acks: 0.0, limit: 0.0, ..bare(own, node) }
}

/// What is known of a link that nothing may have crossed yet.
fn bare(own: &OwnLink, node: NodeId) -> LinkReport {
    let report = own.measured.filter(|n| n.flows > 0 && n.data > TRICKLE).unwrap_or(LinkReport {
        link: Link { from: node, to: own.to },
        data: HARDLY,
        size: SIZE,
        flows: 1,
        top: 0.0,
        acks: 0.0,
        rate: own.rate,
        delivery: 1.0,
        limit: 0.0,
        trip: 0.0,
    });
    LinkReport { limit: own.limit.unwrap_or(0.0), ..report }
}

/// A link with flows whose packets do not get through counts as if these had what the fastest flow around has: what it
/// carries says nothing of what it needs, and the others give way before its packets can be heard.
pub(super) fn make_room(around: &mut [LinkReport]) {
    let fastest = fastest(around);
    for report in around.iter_mut().filter(|n| unheard(n)) {
        report.data = fastest * f64::from(report.flows);
    }
}
