//! `fairmesh medium`.

use std::io::Write;

use fairmesh_control::Registry;
use fairmesh_emulator::medium::{DriverSupport, MediumOptions, MediumRecord, run_medium};
use fairmesh_lab::changes::Changes;
use fairmesh_lab::source::load;
use fairmesh_report::table;

use crate::args::MediumArgs;
use crate::commands::{print_json, warn};
use crate::error::CliError;
use crate::interrupt;

/// Runs the medium of a scenario for the radios of `mac80211_hwsim`.
///
/// # Errors
/// Bad input, missing radios or rights, a rate that the scenario's PHY lacks.
pub fn run(args: &MediumArgs, registry: &Registry, out: &mut dyn Write) -> Result<(), CliError> {
    // The duration is the medium's; the scenario's warm-up may be longer.
    let changes = Changes { duration: None, ..args.changes.changes() };
    let loaded = load(&args.scenario, &changes, registry)?;
    let scenario = &loaded.scenario;
    warn(scenario.warnings());
    let options = MediumOptions {
        seed: args.seed,
        duration: args.changes.changes().duration,
        scenario_rates: args.scenario_rates,
        overhear: args.overhear,
    };
    let names: Vec<&str> =
        scenario.wireless().map(|n| scenario.nodes()[n.index()].name.as_str()).collect();
    let record = run_medium(scenario, options, interrupt::awaited(), |radios, driver| {
        let pairs = names.iter().zip(radios).map(|(name, r)| format!("{name} is {}", r.phy));
        let list: Vec<String> = pairs.collect();
        eprintln!("the radio of {}: {}", scenario.name(), list.join(", "));
        for warning in lacking(driver) {
            eprintln!("warning: {warning}");
        }
    })
    .map_err(|e| CliError::run(scenario.name(), e))?;
    if args.json {
        print_json(out, &record)?;
    } else {
        out.write_all(text(&record).as_bytes())?;
    }
    out.flush()?;
    Ok(())
}

/// Returns what the loaded driver lacks, with the effect.
fn lacking(driver: DriverSupport) -> Vec<String> {
    let mut lacks = Vec::new();
    if driver.ring.is_none() {
        lacks.push(
            "this mac80211_hwsim never stops a queue: frames wait in the medium, and fq_codel and \
             Minstrel-HT do not work (scripts/kernel/hwsim/build.sh makes one that does, with ring=2)"
                .into(),
        );
    }
    if !driver.survey {
        lacks.push(
            "this mac80211_hwsim has no settable survey: `iw survey dump` is invented".into(),
        );
    }
    lacks
}

fn text(record: &MediumRecord) -> String {
    let mut t = table::table(&[
        "station",
        "radio",
        "data",
        "other",
        "acknowledged",
        "given up",
        "received",
        "most held",
        "collided",
        "busy",
        "sending",
    ]);
    for s in &record.stations {
        let counts =
            [s.data, s.management, s.delivered, s.lost, s.received, s.most_in_flight, s.collided];
        let shares = [s.busy, s.transmit].map(|x| format!("{:.1} %", 100.0 * x));
        let names = [s.node.clone(), s.phy.clone()];
        table::row(&mut t, names.into_iter().chain(counts.map(|c| c.to_string())).chain(shares));
    }
    let l = &record.lateness_s;
    let us = |s: f64| format!("{:.0} us", s * 1e6);
    let mut text = format!(
        "{t}\n\n{} transmissions in {:.1} s; lateness of {} events: median {}, 99.9 % below {}, latest {}\n",
        record.transmissions,
        record.duration_s,
        l.events,
        us(l.p50),
        us(l.p999),
        us(l.max),
    );
    if record.overruns > 0 {
        text +=
            &format!("{} times frames were lost before they reached the medium\n", record.overruns);
    }
    text
}
