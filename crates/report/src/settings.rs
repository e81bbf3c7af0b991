//! The settings of a scenario in words, for the report.

use fairmesh_lab::scenario::Scenario;

/// Returns name and value of every setting of a run, except topology and flows.
pub fn list(s: &Scenario) -> Vec<(String, String)> {
    let mac = s.mac();
    let rate = |r| mac.phy.bit_rate(r).to_string();
    let mut out: Vec<(&str, String)> = vec![
        ("description", s.description().to_owned()),
        ("data rate", rate(mac.rate)),
        ("rates of the PHY", mac.phy.rates().map(rate).collect::<Vec<_>>().join(", ")),
        ("rate adaptation", words(&mac.adaptation)),
        ("RTS/CTS", rts(mac.rts_threshold)),
        ("reception", words(&mac.reception)),
        ("capture margin", format!("{} dB", mac.capture.0)),
        (
            "attempts of short / long frames",
            format!(
                "{} / {}",
                mac.phy.timing().short_retry_limit,
                mac.phy.timing().long_retry_limit
            ),
        ),
        (
            "contention window",
            format!("{} to {}", mac.phy.timing().cw_min, mac.phy.timing().cw_max),
        ),
        ("LLC header", format!("{} B", mac.llc_bytes)),
        ("interface queue", format!("{:?}", s.queue())),
        ("frame errors", format!("{:?}", s.errors())),
        ("external interferers", s.interferers().len().to_string()),
        ("gateway", gateways(s)),
    ];
    if let Some(edca) = &mac.edca {
        out.push(("access categories", edca.to_string()));
    }
    // Flows of the same kind share a line.
    let mut kinds: Vec<(String, usize)> = Vec::new();
    for f in s.flows() {
        let access = match s.has_access_categories() {
            true => format!(", {}", f.access),
            false => String::new(),
        };
        let kind = format!("{:?} over {:?}{access}", f.traffic, f.transport);
        match kinds.iter_mut().find(|k| k.0 == kind) {
            Some(k) => k.1 += 1,
            None => kinds.push((kind, 1)),
        }
    }
    out.extend(kinds.into_iter().map(|(kind, n)| ("traffic", format!("{n} × {kind}"))));
    out.extend(s.warnings().iter().map(|w| ("note", w.clone())));
    out.retain(|(_, v)| !v.is_empty());
    out.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
}

fn rts(threshold: Option<u32>) -> String {
    match threshold {
        None => "never".into(),
        Some(0) => "before every unicast frame".into(),
        Some(n) => format!("before frames of {n} B and more"),
    }
}

/// Converts "SampleRate" to "sample rate".
fn words(v: &impl std::fmt::Debug) -> String {
    let mut out = String::new();
    for c in format!("{v:?}").chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push(' ');
        }
        out.extend(c.to_lowercase());
    }
    out
}

/// Returns the names of the gateways.
fn gateways(s: &Scenario) -> String {
    let names = s.gateways().list().iter().map(|g| s.nodes()[g.index()].name.as_str());
    match s.gateways().is_empty() {
        true => "none".to_owned(),
        false => names.collect::<Vec<_>>().join(", "),
    }
}
