//! Attempts and losses of each link in the window.

use std::collections::BTreeMap;

use fairmesh_engine::observe::AttemptOutcome;
use fairmesh_scenario::Scenario;
use serde::Serialize;

use super::frames::Frames;
use super::{Window, name};

/// Attempts of all links that sent in a window.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TimelineSummary {
    /// Start of the window, in s.
    pub from_s: f64,
    /// End of the window, in s.
    pub until_s: f64,
    /// Links, those with most overlapped frames first.
    pub links: Vec<LinkAttempts>,
}

/// RTS and data frames of one link that began in the window, and their outcomes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LinkAttempts {
    /// Name of the transmitter.
    pub from: String,
    /// Name of the receiver.
    pub to: String,
    /// Frames. Those without an outcome at the end of the run are counted here only.
    pub frames: u64,
    /// Frames with a response that arrived.
    pub answered: u64,
    /// Frames that arrived and of which the response did not.
    pub response_lost: u64,
    /// Frames without a response that no other frame overlapped.
    ///
    /// The cause is a frame error, or the NAV of an RTS's receiver.
    pub not_overlapped: u64,
    /// Frames that did not arrive and that others overlapped at the receiver.
    pub overlapped: u64,
    /// Of these, frames that each transmitter overlapped, by name; a frame counts for each.
    pub overlapped_by: BTreeMap<String, u64>,
}

pub(super) fn of(scenario: &Scenario, frames: &Frames, window: Window) -> TimelineSummary {
    let link = |((from, to), frames): (_, Vec<&super::frames::Frame>)| {
        let mut attempts = LinkAttempts {
            from: name(scenario, from).to_owned(),
            to: name(scenario, to).to_owned(),
            frames: frames.len() as u64,
            answered: 0,
            response_lost: 0,
            not_overlapped: 0,
            overlapped: 0,
            overlapped_by: BTreeMap::new(),
        };
        for frame in frames {
            match &frame.outcome {
                None => {}
                Some(AttemptOutcome::Responded { .. }) => attempts.answered += 1,
                Some(AttemptOutcome::ResponseLost) => attempts.response_lost += 1,
                Some(AttemptOutcome::NotOverlapped) => attempts.not_overlapped += 1,
                Some(AttemptOutcome::Overlapped(by)) => {
                    attempts.overlapped += 1;
                    for &node in by {
                        let node = name(scenario, node).to_owned();
                        *attempts.overlapped_by.entry(node).or_default() += 1;
                    }
                }
            }
        }
        attempts
    };
    let mut links: Vec<LinkAttempts> = frames.by_link().into_iter().map(link).collect();
    links.sort_by_key(|l| std::cmp::Reverse(l.overlapped));
    let from = window.from.as_secs_f64();
    let until = (window.from + window.length).min(scenario.duration());
    TimelineSummary { from_s: from, until_s: until.as_secs_f64(), links }
}
