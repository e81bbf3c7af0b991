//! `fairmesh capacity`.

use std::io::Write;
use std::path::Path;

use fairmesh_control::Registry;
use fairmesh_lab::Changes;
use fairmesh_lab::analysis::Capacity;
use fairmesh_lab::analysis::gap::GapReport;
use fairmesh_lab::analysis::region::RegionReport;
use fairmesh_lab::files::folder::PendingFile;
use fairmesh_lab::models::region::{Retries, Settings};
use fairmesh_lab::source::load;
use fairmesh_report::capacity::{gap, page, region as region_report, text};
use fairmesh_report::topology::Drawing;
use fairmesh_scenario::Scenario;
use serde::Serialize;

use crate::args::{CapacityArgs, ContentionRange, FlowDirection, ModelKind};
use crate::commands::{print_json, warn};
use crate::error::CliError;

/// Analyses a scenario.
///
/// # Errors
/// Bad input; a page that cannot be written.
pub fn run(
    args: &CapacityArgs,
    command: &str,
    registry: &Registry,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let changes = Changes {
        gateways: args.gateway.clone(),
        flows: args.flows.map(FlowDirection::direction),
        flow_count: args.flow_count,
        radio: args.radio.radio(),
        ..Changes::default()
    };
    let loaded = load(&args.scenario, &changes, registry)?;
    match args.model {
        ModelKind::Sets => sets(args, &loaded.scenario, command, out),
        ModelKind::Region => region(args, &loaded.scenario, command, out),
        ModelKind::Gap => fluid(args, &loaded.scenario, command, out),
    }
}

fn sets(
    args: &CapacityArgs,
    scenario: &Scenario,
    command: &str,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let forms = Forms {
        report: || Ok(Capacity::of(scenario, args.contention_range.map(ContentionRange::model))?),
        text: text::tables,
        page: |c: &Capacity, _: &Path| Ok(page::render(c, &Drawing::from(scenario), command)),
    };
    forms.show(args, scenario, out)
}

fn region(
    args: &CapacityArgs,
    scenario: &Scenario,
    command: &str,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    if !(args.utilization > 0.0 && args.utilization <= 1.0) {
        let problem = format!("found {}; expected above 0, at most 1", args.utilization);
        return Err(CliError::option("--utilization", problem));
    }
    let settings = Settings {
        utilisation: args.utilization,
        retries: if args.retry_limits { Retries::Mac } else { Retries::Unlimited },
        ..Settings::default()
    };
    let forms = Forms {
        report: || Ok(RegionReport::of(scenario, &args.group, settings)?),
        text: region_report::text,
        page: |r: &RegionReport, _: &Path| Ok(region_report::page(r, command)),
    };
    forms.show(args, scenario, out)
}

fn fluid(
    args: &CapacityArgs,
    scenario: &Scenario,
    command: &str,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let draw = |r: &GapReport, path: &Path| {
        let bare = path.extension().is_some_and(|e| e == "svg");
        let page = if bare { gap::svg(r) } else { gap::page(r, command) };
        page.map_err(|e| CliError::file(path, format!("cannot be drawn: {e}")))
    };
    let forms = Forms { report: || Ok(GapReport::of(scenario)?), text: gap::text, page: draw };
    forms.show(args, scenario, out)
}

/// A report and the forms in which it is shown.
struct Forms<Compute, Text, Page> {
    report: Compute,
    text: Text,
    /// Builder of the page for a file of a given name.
    page: Page,
}

impl<R, Compute, Text, Page> Forms<Compute, Text, Page>
where
    R: Serialize,
    Compute: FnOnce() -> Result<R, CliError>,
    Text: FnOnce(&R) -> String,
    Page: FnOnce(&R, &Path) -> Result<String, CliError>,
{
    fn show(
        self,
        args: &CapacityArgs,
        scenario: &Scenario,
        out: &mut dyn Write,
    ) -> Result<(), CliError> {
        // The page's file is created first, so that an unwritable file costs no computation.
        let file = args.html.as_deref().map(PendingFile::create).transpose()?;
        let report = (self.report)()?;
        if let (Some((pending, mut file)), Some(path)) = (file, &args.html) {
            file.write_all((self.page)(&report, path)?.as_bytes())
                .map_err(|e| CliError::file(path, format!("cannot be written: {e}")))?;
            pending.finish()?;
        }
        if args.json {
            return print_json(out, &report);
        }
        warn(scenario.warnings());
        out.write_all((self.text)(&report).as_bytes())?;
        if let Some(path) = &args.html {
            writeln!(out, "\nPage: {}", path.display())?;
        }
        Ok(())
    }
}
