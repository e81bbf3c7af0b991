//! Named events of the daemon: counted by name, and printed at a limited rate.

use std::collections::BTreeMap;

use fairmesh_units::{Span, Time};
use serde::Serialize;

/// Severity of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A decision, or an expected event.
    Info,
    /// A problem with which the daemon continues.
    Warning,
    /// A problem that affects limits.
    Error,
}

impl Level {
    /// Returns the priority that systemd's journal reads at the start of a line (sd-daemon(3)).
    pub const fn prefix(self) -> &'static str {
        match self {
            Level::Info => "<6>",
            Level::Warning => "<4>",
            Level::Error => "<3>",
        }
    }
}

/// An event.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Notice {
    /// Time on the daemon's clock.
    #[serde(skip)]
    pub at: Time,
    /// Stable name: `interface.lost`, `pfrc.starved`.
    pub code: &'static str,
    /// Severity.
    pub level: Level,
    /// Text of the event.
    pub text: String,
    /// Events of the same name that were suppressed since the last printed one.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

// The signature is serde's.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Events of one name in a burst.
const EVENT_BURST: u32 = 10;
/// Time after which one more event of a name is allowed.
const EVENT_REFILL_INTERVAL: Span = Span::from_secs(6);
/// Events that `status` shows.
const MAX_SHOWN_EVENTS: usize = 64;

#[derive(Clone, Debug)]
struct Count {
    total: u64,
    level: Level,
    tokens: u32,
    refilled: Time,
    left_out: u64,
}

/// Counter of all events, and a rate limiter for those that are printed.
#[derive(Clone, Default, Debug)]
pub struct Journal {
    counts: BTreeMap<&'static str, Count>,
    fresh: Vec<Notice>,
    recent: std::collections::VecDeque<Notice>,
}

impl Journal {
    /// Records an event. The text is only built if the event is printed.
    pub fn note(
        &mut self,
        at: Time,
        level: Level,
        code: &'static str,
        text: impl FnOnce() -> String,
    ) {
        let first = Count { total: 0, level, tokens: EVENT_BURST, refilled: at, left_out: 0 };
        let count = self.counts.entry(code).or_insert(first);
        count.total += 1;
        count.level = level;
        let earned =
            (at.since(count.refilled) / EVENT_REFILL_INTERVAL).min(u64::from(EVENT_BURST)) as u32;
        if earned > 0 {
            count.tokens = (count.tokens + earned).min(EVENT_BURST);
            count.refilled = at;
        }
        if count.tokens == 0 {
            count.left_out += 1;
            return;
        }
        count.tokens -= 1;
        let left_out = core::mem::take(&mut count.left_out);
        let notice = Notice { at, code, level, text: text(), left_out };
        if self.recent.len() == MAX_SHOWN_EVENTS {
            self.recent.pop_front();
        }
        self.recent.push_back(notice.clone());
        self.fresh.push(notice);
    }

    /// Returns the events since the last call.
    pub fn take(&mut self) -> Vec<Notice> {
        core::mem::take(&mut self.fresh)
    }

    /// Iterates over the last printed events.
    pub fn recent(&self) -> impl Iterator<Item = &Notice> {
        self.recent.iter()
    }

    /// Iterates over all events by name, with severity and number.
    pub fn totals(&self) -> impl Iterator<Item = (&'static str, Level, u64)> + '_ {
        self.counts.iter().map(|(code, c)| (*code, c.level, c.total))
    }

    /// Returns the number of events of a name.
    pub fn total(&self, code: &str) -> u64 {
        self.counts.get(code).map_or(0, |c| c.total)
    }
}

/// True if a terminal shows a character without side effects.
///
/// No control character, none that changes the direction of writing (Unicode 16 §23.2), none that is invisible.
pub fn is_shown(c: char) -> bool {
    let invisible = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    );
    !c.is_control() && !invisible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_printed_in_part() {
        let mut j = Journal::default();
        let at = |ms| Time::ZERO + Span::from_millis(ms);
        for i in 0..1000 {
            j.note(at(i), Level::Info, "a.b", || format!("{i}"));
        }
        assert_eq!(j.total("a.b"), 1000);
        assert_eq!(j.take().len(), 10);
        j.note(at(20_000), Level::Info, "a.b", || "later".into());
        let printed = j.take();
        assert_eq!((printed.len(), printed[0].left_out), (1, 990));
        j.note(at(20_000), Level::Error, "c", String::new);
        assert_eq!(j.take().len(), 1, "another name has its own measure");
        assert_eq!(j.recent().count(), 12);
    }
}
