//! The answer in words: the starving sharers, the reason, the remedy and its cost.

use std::collections::BTreeMap;

use fairmesh_lab::comparison::Comparison;
use fairmesh_lab::record::{Drops, RunRecord};
use fairmesh_lab::summary::ControlSummary;
use fairmesh_lab::verdict::{LossyHop, Starving};

use super::model::{Answer, Control, Fact, Noun, Part, Reference, Role, Sharer, Text};
use crate::table;

/// Fraction of the sum above which the share of one-hop flows is named as a reason.
const MOST_OF_THE_SUM: f64 = 0.8;
/// Maximum number of starving sharers that the first screen names.
const MOST_NAMED_SHARERS: usize = 4;
/// Fraction of the airtime above which signalling is a cost to report.
const REPORTED_SIGNALLING_SHARE: f64 = 0.005;

/// Subject of the sentences.
pub struct Facts<'a> {
    /// Summaries, by control.
    pub comparison: &'a Comparison,
    /// Results by control, in the page's form.
    pub controls: &'a [Control],
    /// The sharers.
    pub sharers: &'a [Sharer],
    /// Name of the sharers.
    pub noun: Noun,
    /// Kind of the reference.
    pub reference: Reference,
    /// The control against which others are compared.
    pub baseline: usize,
}

impl Facts<'_> {
    /// Writes the answer.
    pub fn answer(&self) -> Answer {
        if self.sharers.is_empty() {
            return Answer {
                headline: vec![vec![plain("This scenario has no flows.")]],
                facts: vec![],
            };
        }
        if self.reference == Reference::None {
            let headline = vec![vec![plain("No verdict: the runs had no fair rates.")]];
            return Answer { headline, facts: self.cost().into_iter().collect() };
        }
        let starving = self.controls[self.baseline].starving > 0;
        let mut facts = Vec::new();
        if starving {
            facts.push(self.starving_fact());
            facts.push(Fact { title: "Why", text: self.why() });
        } else {
            facts.push(self.worst());
        }
        facts.extend(self.remedy());
        if self.best().is_some_and(|best| self.better(best)) {
            facts.extend(self.cost());
        }
        Answer { headline: self.headline(), facts }
    }

    /// Returns the control with the fewest starving sharers.
    ///
    /// Of equal ones it has the largest minimum share.
    fn best(&self) -> Option<usize> {
        let others = (0..self.controls.len()).filter(|&i| i != self.baseline);
        let worst = |i: usize| self.controls[i].worst.unwrap_or(0.0);
        others.min_by(|&a, &b| {
            let starving = |i: usize| (self.controls[i].starving, self.in_runs(i).is_some());
            starving(a).cmp(&starving(b)).then(worst(b).total_cmp(&worst(a)))
        })
    }

    /// Returns true if a control is better than the baseline.
    ///
    /// Fewer sharers starve, or the worst of them has more.
    fn better(&self, control: usize) -> bool {
        let (base, other) = (&self.controls[self.baseline], &self.controls[control]);
        let fewer = other.starving < base.starving;
        fewer || (other.starving == base.starving && other.worst > base.worst)
    }

    /// Names the runs in which a sharer starves, if none does in their mean.
    fn in_runs(&self, control: usize) -> Option<String> {
        table::in_some_runs(&self.comparison.results[control])
    }

    fn headline(&self) -> Vec<Text> {
        let base = &self.controls[self.baseline];
        let (n, k) = (self.sharers.len(), base.starving);
        let Noun { one, many } = self.noun;
        let with = |name: &str, text: String| {
            vec![plain("With "), strong(name), plain(", "), bad(text), plain(".")]
        };
        let first = match (k, n, self.in_runs(self.baseline)) {
            (0, _, Some(runs)) => with(&base.name, format!("one {one} starves in {runs}")),
            (0, 1, _) => vec![
                plain(format!("The only {one} does not starve with ")),
                strong(&base.name),
                plain("."),
            ],
            (0, ..) => {
                vec![plain(format!("No {one} starves with ")), strong(&base.name), plain(".")]
            }
            (1, 1, _) => with(&base.name, format!("the only {one} starves")),
            (k, n, _) => {
                let count = if k == n {
                    if n == 2 {
                        format!("both {many} starve")
                    } else {
                        format!("all {n} {many} starve")
                    }
                } else {
                    format!("{k} of {n} {many} {}", if k == 1 { "starves" } else { "starve" })
                };
                with(&base.name, count)
            }
        };
        let mut lines = vec![first];
        if let Some(best) = self.best() {
            let other = &self.controls[best];
            let name = strong(&other.name);
            match (k, other.starving, self.in_runs(best)) {
                (_, 0, Some(runs)) => {
                    lines.push(with(&other.name, format!("one starves in {runs}")));
                }
                (0, 0, None) => {}
                (0, left, _) => {
                    lines.push(with(&other.name, format!("{left} {}", starve(left))));
                }
                (_, 0, None) => lines.push(vec![plain("With "), name, plain(", none does.")]),
                (_, left, _) if left < k => lines.push(vec![
                    plain("No control tested here feeds them all; "),
                    name,
                    plain(format!(" comes closest ({left}).")),
                ]),
                _ => lines.push(vec![plain("No control tested here feeds more of them.")]),
            }
        }
        lines
    }

    fn starving_fact(&self) -> Fact {
        let base = self.baseline;
        let mut all: Vec<(usize, f64)> = self.starved(base);
        all.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut text = Vec::new();
        let shown = if all.len() > MOST_NAMED_SHARERS { MOST_NAMED_SHARERS } else { all.len() };
        for (k, &(i, share)) in all.iter().take(shown).enumerate() {
            if k > 0 {
                text.push(plain(", "));
            }
            text.push(sharer(i, &self.sharers[i].label));
            text.push(dim(format!(" {}", percent(share))));
        }
        if all.len() > shown {
            text.push(plain(" "));
            text.push(part(format!("and {} more", all.len() - shown), Some(Role::More)));
        }
        text.push(plain("."));
        Fact { title: "Who", text }
    }

    /// Returns the starving sharers of a control with their shares.
    fn starved(&self, control: usize) -> Vec<(usize, f64)> {
        let all = self.controls[control].results.iter().enumerate().filter(|(_, r)| r.starves);
        all.filter_map(|(i, r)| Some((i, r.share?))).collect()
    }

    fn why(&self) -> Text {
        let summary = &self.comparison.results[self.baseline];
        let mut text = Vec::new();
        text.extend(self.near(summary));
        text.extend(self.hop(&summary.starving));
        if text.is_empty() {
            text.extend(losses(&summary.starving, self.noun));
        }
        if text.is_empty() {
            text.push(plain(
                "The runs recorded no dominant cause: neither losses on a hop nor full queues.",
            ));
        }
        text
    }

    /// States that the flows next to the gateway take most of the sum.
    fn near(&self, summary: &ControlSummary) -> Option<Part> {
        let far = self.starved(self.baseline).iter().any(|(i, _)| self.sharers[*i].hops > 1);
        let near: Vec<&_> = summary.flows.iter().filter(|f| f.hops == 1).collect();
        let sum = |flows: &mut dyn Iterator<Item = f64>| flows.sum::<f64>();
        let part = sum(&mut near.iter().map(|f| f.goodput_bps.mean))
            / sum(&mut summary.flows.iter().map(|f| f.goodput_bps.mean));
        (far && !near.is_empty() && near.len() < summary.flows.len() && part > MOST_OF_THE_SUM)
            .then(|| {
                let flows = if near.len() == 1 {
                    "flow one hop from the gateway takes".into()
                } else {
                    format!("{} flows one hop from the gateway take", near.len())
                };
                plain(format!("The {flows} {} of the sum. ", percent(part)))
            })
    }

    /// Names the hop that most starving sharers cross, and the reason for its losses.
    fn hop(&self, starving: &[Starving]) -> Text {
        let mut hops: BTreeMap<(&str, &str), (usize, &LossyHop)> = BTreeMap::new();
        for hop in starving.iter().filter_map(|s| s.worst_hop.as_ref()) {
            hops.entry((&hop.from, &hop.to)).or_insert((0, hop)).0 += 1;
        }
        let weight = |(n, hop): &(usize, &LossyHop)| *n as f64 * hop.unanswered;
        let Some((n, hop)) = hops.into_values().max_by(|a, b| weight(a).total_cmp(&weight(b)))
        else {
            return vec![];
        };
        let all = starving.len();
        let cross = match (n, all) {
            (1, 1) => "It crosses ".to_owned(),
            (2, 2) => "Both cross ".to_owned(),
            (n, all) if n == all => format!("All {all} cross "),
            (1, all) => format!("1 of the {all} crosses "),
            (n, all) => format!("{n} of the {all} cross "),
        };
        let mut text = vec![
            plain(cross),
            strong(&format!("{} → {}", hop.from, hop.to)),
            plain(format!(", where {} of the frames get ", percent(hop.unanswered))),
            term("no ACK", "unanswered"),
            plain(". "),
        ];
        text.extend(reason(hop));
        text
    }

    fn worst(&self) -> Fact {
        let base = &self.controls[self.baseline];
        let shares = base.results.iter().enumerate().filter_map(|(i, r)| Some((i, r.share?)));
        let worst = shares.min_by(|a, b| a.1.total_cmp(&b.1));
        let text = match worst {
            Some((i, share)) => vec![
                sharer(i, &self.sharers[i].label),
                plain(format!(" gets {} of its ", percent(share))),
                term(self.reference_name(), "reference"),
                plain(", the least."),
            ],
            None => vec![plain(format!("No {} had anything to send.", self.noun.one))],
        };
        Fact { title: "Worst", text }
    }

    fn reference_name(&self) -> &'static str {
        match self.reference {
            Reference::Bound => "reference (a bound)",
            _ => "reference",
        }
    }

    fn remedy(&self) -> Option<Fact> {
        let base = &self.controls[self.baseline];
        let Some(best) = self.best() else {
            return (base.starving > 0).then(|| Fact {
                title: "Remedy",
                text: vec![
                    plain("Not tested: no other control was run. Add some, as in "),
                    strong("--control fifo,pfrc+bursts,mesh-maxmin"),
                    plain("."),
                ],
            });
        };
        let other = &self.controls[best];
        let one = self.noun.one;
        let rest: Vec<&Control> = (0..self.controls.len())
            .filter(|&i| i != best && i != self.baseline)
            .map(|i| &self.controls[i])
            .collect();
        if other.starving > 0 && base.starving > 0 {
            let left = self.starved(best);
            let names: Vec<&str> =
                left.iter().map(|(i, _)| self.sharers[*i].label.as_str()).collect();
            let title = if self.better(best) { "Closest" } else { "Others" };
            let mut text = vec![
                strong(&other.name),
                plain(format!(" leaves {}: {}", other.starving, list(&names))),
            ];
            let others: Vec<String> =
                rest.iter().take(3).map(|c| format!("{} leaves {}", c.name, c.starving)).collect();
            if !others.is_empty() {
                text.push(plain(format!(
                    "; {}",
                    list(&others.iter().map(String::as_str).collect::<Vec<_>>())
                )));
            }
            text.push(plain("."));
            return Some(Fact { title, text });
        }
        let share = |c: &Control| c.worst.map_or("no share".into(), percent);
        let title = match (base.starving > 0, self.better(best)) {
            (true, _) => "Remedy",
            (false, true) => "Best",
            (false, false) => "Others",
        };
        let mut text = vec![
            strong(&other.name),
            plain(format!(": the worst {one} gets {} of its ", share(other))),
            term(self.reference_name(), "reference"),
        ];
        let fed = rest.iter().filter(|c| c.starving == 0).take(2);
        let others: Vec<String> = fed.map(|c| format!("{}: {}", c.name, share(c))).collect();
        if !others.is_empty() {
            text.push(plain(format!("; {}", others.join(", "))));
        }
        text.push(plain("."));
        if self.comparison.results[best].moving_limits.is_some() {
            text.push(plain(" Its limits still moved at the end: run longer."));
        }
        Some(Fact { title, text })
    }

    fn cost(&self) -> Option<Fact> {
        let best = self.best()?;
        let (base, other) = (&self.controls[self.baseline], &self.controls[best]);
        let summary = &self.comparison.results[best];
        let mut text = Vec::new();
        let tradeoff = summary.tradeoff.as_ref();
        let rates = format!(" ({} → {})", rate(base.sum.0), rate(other.sum.0));
        match tradeoff.map(|t| t.sum_change) {
            Some(change) if change.ci95.is_some() && change.mean.abs() <= change.half_width() => {
                text.push(plain(format!("no measurable change of the sum{rates}")));
            }
            Some(change) => {
                text.push(strong(&signed_percent(change.mean)));
                let interval = change
                    .ci95
                    .filter(|ci| *ci > 0.0)
                    .map_or(String::new(), |ci| format!(" ± {}", percent(ci)));
                text.push(plain(format!("{interval} of the sum{rates}")));
            }
            None => text.push(plain(format!("sum {} → {}", rate(base.sum.0), rate(other.sum.0)))),
        }
        if let (Some(before), Some(now)) = (base.delay, other.delay) {
            let change = now - before;
            let unchanged = change.abs() < 0.5;
            let sign = if change >= 0.0 { "+" } else { "−" };
            text.push(plain(", "));
            if unchanged {
                text.push(plain("the same median "));
                text.push(term("delay", "delay"));
                text.push(plain(format!(" ({})", milliseconds(now))));
            } else {
                text.push(strong(&format!("{sign}{}", milliseconds(change.abs()))));
                text.push(plain(" median "));
                text.push(term("delay", "delay"));
                text.push(plain(format!(" ({} → {})", milliseconds(before), milliseconds(now))));
            }
        }
        let signalling = summary.signalling_airtime.mean;
        if signalling >= REPORTED_SIGNALLING_SHARE {
            text.push(plain(format!(", {} of the airtime for signalling", percent(signalling))));
        }
        text.push(plain("."));
        if self.comparison.seeds == 1 {
            text.push(dim(" One seed: no interval.".to_owned()));
        }
        Some(Fact { title: "Cost", text })
    }
}

/// Explains the unanswered frames of a hop.
pub fn reason(hop: &LossyHop) -> Text {
    let (from, to) = (&hop.from, &hop.to);
    match hop.main_overlap() {
        Some(o) if o.receiver => {
            vec![plain(format!("{to} was itself sending during {} of them.", percent(o.share)))]
        }
        Some(o) if o.sensed => vec![
            plain(format!("{} of them met frames of ", percent(o.share))),
            strong(&o.station),
            plain(format!(", which {from} senses.")),
        ],
        Some(o) => vec![
            plain(format!("{} of them met frames of ", percent(o.share))),
            strong(&o.station),
            plain(format!(", which {from} cannot sense: a ")),
            term("hidden terminal", "hidden"),
            plain("."),
        ],
        None if hop.answer_lost > hop.clean => {
            vec![plain(format!(
                "{} of them had arrived; the response was lost.",
                percent(hop.answer_lost)
            ))]
        }
        None => {
            vec![plain(format!("{} of them met no other frame: a weak link.", percent(hop.clean)))]
        }
    }
}

/// Names the main cause of the losses of starving sharers.
fn losses(starving: &[Starving], noun: Noun) -> Text {
    let mut sum = fairmesh_lab::drops::DropsSummary::default();
    for s in starving {
        sum.queue += s.drops.queue;
        sum.wire += s.drops.wire;
        sum.retry_limit += s.drops.retry_limit;
        sum.limiter += s.drops.limiter;
    }
    let Some((cause, part)) = sum.main_cause() else { return vec![] };
    let subject =
        if starving.len() == 1 { format!("The {}’s", noun.one) } else { "Their".to_owned() };
    vec![plain(format!(
        "{subject} packets are lost by {cause} ({} of {:.0} per run).",
        percent(part),
        sum.total()
    ))]
}

/// Returns the median over the flows of their mean delay, in ms.
///
/// It is averaged over the runs that have one.
pub fn median_delay(records: &[RunRecord]) -> Option<f64> {
    let of = |r: &RunRecord| {
        let measured = r.flows.iter().filter(|f| f.packets_delivered > 0 && f.delay_s.mean > 0.0);
        let mut delays: Vec<f64> = measured.map(|f| f.delay_s.mean * 1e3).collect();
        delays.sort_by(f64::total_cmp);
        let n = delays.len();
        (n > 0).then(|| (delays[(n - 1) / 2] + delays[n / 2]) / 2.0)
    };
    let all: Vec<f64> = records.iter().filter_map(of).collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

/// Returns counts of losses as the page lists them: queue, wire, retry limit, limiter.
pub fn by_cause(d: &Drops) -> [f64; 4] {
    [d.queue, d.wire, d.retry_limit, d.limiter].map(|n| n as f64)
}

fn starve(n: usize) -> &'static str {
    if n == 1 { "starves" } else { "starve" }
}

/// Formats a fraction: "0.2 %", "73 %".
pub fn percent(part: f64) -> String {
    if part <= 0.0 {
        "0 %".into()
    } else if part < 0.001 {
        "<0.1 %".into()
    } else if part < 0.0995 {
        format!("{:.1} %", part * 100.0)
    } else {
        format!("{:.0} %", part * 100.0)
    }
}

fn signed_percent(part: f64) -> String {
    let sign = if part >= 0.0 { "+" } else { "−" };
    format!("{sign}{:.0} %", part.abs() * 100.0)
}

/// Formats a rate in kbit/s.
pub fn rate(kbps: f64) -> String {
    if kbps >= 9_950.0 {
        format!("{:.1} Mbit/s", kbps / 1e3)
    } else if kbps >= 1e3 {
        format!("{:.2} Mbit/s", kbps / 1e3)
    } else if kbps >= 100.0 {
        format!("{kbps:.0} kbit/s")
    } else {
        format!("{kbps:.1} kbit/s")
    }
}

fn milliseconds(ms: f64) -> String {
    if ms >= 1e3 { format!("{:.2} s", ms / 1e3) } else { format!("{ms:.0} ms") }
}

/// Joins names: "a, b and c", or "a, b, c and 4 more".
fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [some @ .., last] if names.len() <= MOST_NAMED_SHARERS => {
            format!("{} and {last}", some.join(", "))
        }
        _ => format!(
            "{} and {} more",
            names[..MOST_NAMED_SHARERS - 1].join(", "),
            names.len() + 1 - MOST_NAMED_SHARERS
        ),
    }
}

fn part(text: impl Into<String>, role: Option<Role>) -> Part {
    Part { text: text.into(), role, sharer: None, term: None }
}

fn plain(text: impl Into<String>) -> Part {
    part(text, None)
}

fn strong(text: &str) -> Part {
    part(text, Some(Role::Strong))
}

fn bad(text: String) -> Part {
    part(text, Some(Role::Bad))
}

fn dim(text: String) -> Part {
    part(text, Some(Role::Dim))
}

fn sharer(index: usize, label: &str) -> Part {
    Part { sharer: Some(index), ..part(label, Some(Role::Sharer)) }
}

fn term(text: &str, term: &'static str) -> Part {
    Part { term: Some(term), ..plain(text) }
}

/// Returns a text without its roles.
pub fn unmarked(text: &Text) -> String {
    text.iter().map(|p| p.text.as_str()).collect()
}
