//! Summary as text.

use std::fmt::Write;

use super::{CongestedHour, ReplayedHome, StarvedHome, Summary};
use crate::gateway::config::is_shown;
use crate::gateway::report::short;

/// Most homes in a table; JSON has all.
const MAX_LISTED: usize = 20;

/// Returns a time with a unit that fits.
pub(super) fn time(seconds: u64) -> String {
    match seconds {
        s if s < 120 => format!("{s} s"),
        s if s < 7200 => format!("{} min", s / 60),
        s if s < 48 * 3600 => format!("{:.1} h", s as f64 / 3600.0),
        s => format!("{:.1} days", s as f64 / 86_400.0),
    }
}

/// Returns a date and time of UTC: the proleptic Gregorian calendar of days since 1970.
pub(super) fn date(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March, so that a leap day is the last one (Hinnant, "chrono-compatible date algorithms").
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", rest / 3600, rest % 3600 / 60)
}

/// Returns a date and time of UTC to the second.
pub fn instant(seconds: u64) -> String {
    format!("{}:{:02} UTC", date(seconds), seconds % 60)
}

/// Returns the hours of the day that have most of a time, such as "18–22".
pub(super) fn hours<T: Copy + Into<u64>>(by_hour: &[T; 24]) -> String {
    let of = |h: usize| -> u64 { by_hour[h].into() };
    let all: u64 = (0..24).map(of).sum();
    // Hours with more than a mean one.
    let many = |h: usize| of(h) * 24 >= all && of(h) > 0;
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for h in (0..24).filter(|h| many(*h)) {
        match spans.last_mut() {
            Some((_, end)) if *end == h => *end = h + 1,
            _ => spans.push((h, h + 1)),
        }
    }
    let text = |(from, to): &(usize, usize)| format!("{from:02}–{to:02}");
    match spans.as_slice() {
        [] => "-".to_owned(),
        spans => spans.iter().map(text).collect::<Vec<_>>().join(", "),
    }
}

/// Returns a name of one line that a terminal shows.
pub(super) fn shown(name: &str) -> String {
    let one = |c: char| if is_shown(c) { c.to_string() } else { c.escape_unicode().to_string() };
    name.chars().take(64).map(one).collect()
}

/// Returns the least and the most rate of a home in the replay.
fn range(h: &ReplayedHome) -> String {
    let [least, most] = [h.least_bits_per_second, h.most_bits_per_second].map(|r| short(Some(r)));
    if least == most { least } else { format!("{least} to {most}") }
}

impl Summary {
    /// Returns the answer in one sentence.
    pub fn answer(&self) -> String {
        if self.recorded.is_none() {
            return self.empty.clone().unwrap_or("nothing is recorded in this time".to_owned());
        }
        let all = self.homes;
        match self.starved.as_slice() {
            [] => format!("none of {all} homes starved"),
            some => {
                let worst: Vec<String> = some
                    .iter()
                    .take(3)
                    .map(|h| format!("{} ({})", shown(&h.name), time(h.seconds)))
                    .collect();
                format!("{} of {all} homes starved, the worst: {}", some.len(), worst.join(", "))
            }
        }
    }

    /// Returns the modes and the congestion, one line each.
    pub(super) fn conditions(&self) -> Vec<String> {
        let Some([from, to]) = self.recorded else { return Vec::new() };
        let mesh = &self.mesh;
        let mut lines = vec![format!(
            "recorded: {} from {} to {} UTC; limits in force for {}",
            time(mesh.seconds.into()),
            date(from),
            date(to),
            time(mesh.enforced.into())
        )];
        let most = self.congested_hours.iter().max_by_key(|h| h.seconds);
        lines.push(match most {
            None => "congested: never".to_owned(),
            Some(CongestedHour { .. }) => format!(
                "congested: {}, most at {} o'clock UTC; at the bound of [[neighbour]] for {}",
                time(mesh.congested.into()),
                hours(&self.congested_by_hour),
                time(mesh.at_bound.into())
            ),
        });
        lines
    }

    /// Returns the summary as text.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n", self.answer());
        for line in self.conditions() {
            let _ = writeln!(out, "{line}");
        }
        self.starved_table(&mut out);
        self.plans_table(&mut out);
        for note in &self.notes {
            let _ = writeln!(out, "\nnote: {note}");
        }
        out
    }

    fn starved_table(&self, out: &mut String) {
        if self.starved.is_empty() {
            return;
        }
        let listed = &self.starved[..self.starved.len().min(MAX_LISTED)];
        let name = listed.iter().map(|h| shown(&h.name).chars().count()).max().unwrap_or(0).max(10);
        let _ = writeln!(
            out,
            "\n{:name$}  {:4}  {:>9} {:>10} {:>13} {:>13} {:>24}  {:24} hours (UTC)",
            "home", "way", "starved", "confirmed", "carried", "due", "replayed", "bottleneck"
        );
        for h in listed {
            let StarvedHome { direction, seconds, confirmed_seconds, .. } = h;
            let _ = writeln!(
                out,
                "{:name$}  {direction:4}  {:>9} {:>10} {:>13} {:>13} {:>24}  {:24} {}",
                shown(&h.name),
                time(*seconds),
                time(*confirmed_seconds),
                short(Some(h.carried_bits_per_second)),
                short(Some(h.due_bits_per_second)),
                self.with_limits(h),
                h.bottleneck.text(),
                hours(&h.by_hour)
            );
        }
        if self.starved.len() > MAX_LISTED {
            let _ = writeln!(out, "… {} more (--json has all)", self.starved.len() - MAX_LISTED);
        }
        if let Some(change) = self.change() {
            let _ = writeln!(out, "\n{change}");
        }
    }

    /// Returns the rates of a starved home in the replay.
    pub(super) fn with_limits(&self, home: &StarvedHome) -> String {
        self.replayed(home).map_or_else(|| "not known".to_owned(), range)
    }

    /// Returns the change that limits would have made, by the replay.
    ///
    /// `None` if no home starved without limits.
    pub fn change(&self) -> Option<String> {
        self.free().next()?;
        let replay = &self.replay;
        let unknown = replay.unknown.as_deref().unwrap_or("no minute of it is recorded");
        let starved: Vec<&ReplayedHome> = self.free().filter_map(|h| self.replayed(h)).collect();
        let (Some(control), false) = (&replay.control, starved.is_empty()) else {
            return Some(format!("the change by mode = \"apply\" is not known: {unknown}"));
        };
        let all = replay.seconds + replay.left_out_seconds;
        let homes = if starved.len() == 1 { "home" } else { "homes" };
        let mut text = format!(
            "{} of {} of congestion without limits replayed through {control}: with mode = \"apply\", {} {homes} would have had",
            time(replay.seconds),
            time(all),
            starved.len(),
        );
        if let Some(h) = starved.iter().min_by_key(|h| h.least_bits_per_second) {
            let _ = write!(
                text,
                " at least {} while starved ({} {}: {} instead of {})",
                short(Some(h.least_bits_per_second)),
                shown(&h.name),
                h.direction,
                range(h),
                short(Some(h.carried_bits_per_second))
            );
        }
        let lost =
            |h: &&ReplayedHome| h.carried_bits_per_second.saturating_sub(h.most_bits_per_second);
        let most = replay.homes.iter().filter(|h| !h.starved).max_by_key(lost);
        if let Some(h) = most.filter(|h| lost(h) > 0) {
            let _ = write!(
                text,
                "; the largest loss is that of {} ({}): {} instead of {}",
                shown(&h.name),
                h.direction,
                range(h),
                short(Some(h.carried_bits_per_second))
            );
        }
        if replay.left_out_seconds > 0 {
            let _ = write!(text, ". The rest is not known: {unknown}");
        }
        Some(text)
    }

    fn plans_table(&self, out: &mut String) {
        let far: Vec<_> = self.plans.iter().filter(|p| p.ratio < 0.995).take(MAX_LISTED).collect();
        if far.is_empty() {
            return;
        }
        let name = far.iter().map(|p| shown(&p.name).chars().count()).max().unwrap_or(0).max(10);
        let _ = writeln!(
            out,
            "\n{:name$}  {:4}  {:>13} {:>13}  of the plan",
            "home", "way", "mean limit", "plan"
        );
        for p in far {
            let _ = writeln!(
                out,
                "{:name$}  {:4}  {:>13} {:>13}  {:.0} %",
                shown(&p.name),
                p.direction,
                short(Some(p.limit_bits_per_second)),
                short(Some(p.ceiling_bits_per_second)),
                100.0 * p.ratio
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00"),
            (951_782_399, "2000-02-28 23:59"),
            (951_782_400, "2000-02-29 00:00"),
            (951_868_800, "2000-03-01 00:00"),
            (1_800_000_000, "2027-01-15 08:00"),
            (4_107_542_400, "2100-03-01 00:00"),
        ] {
            assert_eq!(date(seconds), text);
        }
    }

    #[test]
    fn hours_are_those_with_most() {
        let mut by = [0_u64; 24];
        assert_eq!(hours(&by), "-");
        by[18..23].fill(3600);
        by[3] = 60;
        assert_eq!(hours(&by), "18–23");
        by[0] = 3600;
        assert_eq!(hours(&by), "00–01, 18–23");
    }
}
