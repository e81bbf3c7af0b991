//! Measures the loss of each home in the seconds after a control's limits come into force.
//!
//! Arguments: `rtt_start FAMILY FIRST END [CONTROL]`, such as `rtt_start random 60 66 rtt`. Up to 60 s the control
//! computes limits that are not set, as the daemon in mode `observe`; the run ends at 180 s. A home is harmed while its
//! goodput, a mean over 5 s, is below 80 % of the lesser of its goodput before and at the end.

use fairmesh_control::{
    Action, Actions, Class, Control, Definition, Event, EventSet, Instance, Limit, Needs, Offers,
    Origin, Registry, Site,
};
use fairmesh_engine::RunOptions;
use fairmesh_engine::record::RunRecord;
use fairmesh_experiments::study::families::{Family, Times, network};
use fairmesh_lab::changes::with_controls;
use fairmesh_units::{BitRate, Span, Time};

/// Start of the limits, end of the run, s.
const APPLY: usize = 60;
const END: usize = 180;
/// Width of the mean, s.
const WINDOW: usize = 5;

/// A control with limits that are set from an instant on.
#[derive(Debug)]
struct Observed {
    inner: Box<dyn Control>,
    from: Time,
    applied: bool,
    limits: Vec<(Class, Option<BitRate>)>,
    own: Actions,
}

impl Observed {
    fn pass(&mut self, now: Time, actions: &mut Actions) {
        let applies = now >= self.from;
        for action in self.own.iter() {
            if let Action::SetRate { class, rate } = *action {
                self.limits.retain(|l| l.0 != class);
                self.limits.push((class, rate));
                if !applies {
                    continue;
                }
            }
            match *action {
                Action::SetRate { class, rate: Some(rate) } => actions.set_rate(class, rate),
                Action::Because(reason) => actions.because(reason),
                Action::Remove { class } => actions.remove(class),
                _ => {}
            }
        }
        self.own.clear();
        if applies && !core::mem::replace(&mut self.applied, true) {
            for (class, rate) in &self.limits {
                rate.iter().for_each(|rate| actions.set_rate(*class, *rate));
            }
        }
    }
}

impl Control for Observed {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        self.inner.on(now, event, &mut self.own);
        self.pass(now, actions);
    }
    fn wants(&self) -> EventSet {
        self.inner.wants()
    }
    fn next_deadline(&self) -> Option<Time> {
        self.inner.next_deadline()
    }
}

/// Returns the control, observing for `seconds`.
fn observed(name: &str, of: &str, seconds: u64) -> Definition {
    let inner = Registry::standard().lookup(of).expect("a control");
    let gateway = Site::new().with_gateway(true).with_hops(Some(0));
    let needs: Vec<Needs> = inner.needs(&gateway).into_iter().collect();
    fairmesh_control::options! {
        /// None.
        struct Options { variants {} parameters {} }
    }
    let build = move |_: &Options, setting| {
        let offers = Offers::everything("the simulator");
        let Instance { control, mut plan } =
            inner.start(setting, &offers).expect("offered").expect("a gateway");
        let limit = |c: &fairmesh_control::ClassPlan| match c.limit {
            Limit::Rate(rate) => (c.class, Some(rate)),
            _ => (c.class, None),
        };
        let limits = plan.classes.iter().map(limit).collect();
        plan.classes.iter_mut().for_each(|c| c.limit = Limit::None);
        let from = Time::ZERO + Span::from_secs(seconds);
        let inner = control;
        Ok(Instance {
            control: Box::new(Observed {
                inner,
                from,
                applied: false,
                limits,
                own: Actions::new(),
            }),
            plan,
        })
    };
    Definition::new(name.to_owned(), "observes first", Origin::ours(""))
        .with_revision("1")
        .with_options(move |_| needs.clone(), build)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [family, first, end, control @ ..] = &given[..] else {
        return Err(
            "expected: rtt_start FAMILY FIRST END [CONTROL], such as rtt_start random 60 66 rtt"
                .into(),
        );
    };
    let family = *Family::ALL.iter().find(|f| f.name() == family).ok_or("no such family")?;
    let control = control.first().map_or("rtt", |c| c.as_str());
    let mut registry = Registry::standard();
    registry.add(observed("applied", control, APPLY as u64))?;
    registry.add(observed("observed", control, 10 * END as u64))?;
    println!(
        "network, homes; harmed homes, s of harm in all, at most; 10 s sum before, after 5, 10, 20, 30 s over that at the end; s until the worst has 90 %"
    );
    for number in first.parse()?..end.parse()? {
        let times = Times { duration_s: END as u32, warmup_s: 10 };
        let scenario = network(family, number, times)?.scenario()?;
        let names = ["observed", "applied"].map(str::to_owned);
        let [never, now] = &with_controls(&scenario, &names, &registry)?[..] else {
            unreachable!()
        };
        let run = |s| {
            let sample = Some(Span::from_secs(1));
            fairmesh_engine::run(s, &RunOptions { seed: 1, sample, ..RunOptions::default() })
        };
        let (never, now) = (homes(&run(never)?), homes(&run(now)?));
        let settled: Vec<f64> = now.iter().map(|h| mean(h, END - 60, END)).collect();
        print!("{family:?}-{number} {}:", settled.len());
        for (label, homes) in [("observed", &never), ("applied", &now)] {
            let harm: Vec<usize> = homes.iter().zip(&settled).map(|(h, s)| harmed(h, *s)).collect();
            let over = harm.iter().filter(|h| **h > 5).count();
            print!(
                " {label} {over} {} {}",
                harm.iter().sum::<usize>(),
                harm.iter().max().unwrap_or(&0)
            );
        }
        let sum = |from, to| now.iter().map(|h| mean(h, from, to)).sum::<f64>();
        let last = sum(END - 60, END);
        let worst = |t: usize| {
            let part = |(h, s): (&Vec<f64>, &f64)| mean(h, t - 5, t + 5) / s.max(1.0);
            now.iter().zip(&settled).map(part).fold(f64::INFINITY, f64::min)
        };
        let until =
            (APPLY + 5..END - 5).find(|t| worst(*t) >= 0.9).map_or(-1, |t| (t - APPLY) as i64);
        let at = |t| sum(APPLY + t, APPLY + t + 10) / last;
        println!(
            " sum {:.2}: {:.2} {:.2} {:.2} {:.2}; {until}",
            sum(APPLY - 20, APPLY) / last,
            at(5),
            at(10),
            at(20),
            at(30)
        );
    }
    Ok(())
}

/// Returns the goodput of each backlogged home in each second.
fn homes(record: &RunRecord) -> Vec<Vec<f64>> {
    let sum = |flows: &Vec<usize>| {
        let each = flows.iter().map(|&f| &record.series.goodput_bps[f]);
        each.fold(vec![0.0; END], |all, one| all.iter().zip(one).map(|(a, b)| a + b).collect())
    };
    record.subscribers.iter().map(|s| sum(&s.flows)).collect()
}

fn mean(home: &[f64], from: usize, to: usize) -> f64 {
    let part = &home[from.min(home.len())..to.min(home.len())];
    part.iter().sum::<f64>() / part.len().max(1) as f64
}

/// Returns the longest time of harm of a home in the minute after the change, in s.
fn harmed(home: &[f64], settled: f64) -> usize {
    let least = 0.8 * mean(home, APPLY - 30, APPLY).min(settled);
    let (mut longest, mut now) = (0, 0);
    for t in APPLY + WINDOW..APPLY + 60 {
        now = if mean(home, t - WINDOW, t) < least { now + 1 } else { 0 };
        longest = longest.max(now);
    }
    longest
}
