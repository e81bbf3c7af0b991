//! Generates the table of docs/notes/2026-11-region-validation.md.
//!
//! Arguments: `region_validation [RANDOM [RADIO]]`. RANDOM is the maximum number of random meshes
//! of each radio; only radios with RADIO in their names are used.

use fairmesh_experiments::study::region::{Case, Place, RADIOS, Radio, cases, run};
use fairmesh_lab::Pool;

fn cell(cases: &[Case], radio: Radio, place: Place) -> String {
    let Some(case) = cases.iter().find(|c| (c.radio, c.place) == (radio, place)) else {
        return "–".to_owned();
    };
    match case.ratio() {
        // Below this utilisation attempts accumulate before a queue is full.
        Some(ratio) if case.utilisation < 0.9 && !radio.limits => format!("{ratio:.2}\\*"),
        Some(ratio) => format!("{ratio:.2}"),
        None => "refused".to_owned(),
    }
}

fn meshes(cases: &[Case], radio: Radio) -> String {
    let random = |c: &&Case| c.radio == radio && matches!(c.place, Place::Random(_));
    let of: Vec<Option<f64>> = cases.iter().filter(random).map(Case::ratio).collect();
    let known: Vec<f64> = of.iter().flatten().copied().collect();
    let refused = of.len() - known.len();
    let least = known.iter().copied().fold(f64::INFINITY, f64::min);
    let most = known.iter().copied().fold(0.0, f64::max);
    match (known.len(), refused) {
        (0, 0) => "–".to_owned(),
        (0, _) => format!("{refused} refused"),
        (n, 0) => format!("{least:.2} to {most:.2} ({n})"),
        (n, _) => format!("{least:.2} to {most:.2} ({n}), {refused} refused"),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let random = std::env::args().nth(1).map_or(Ok(u32::MAX), |n| n.parse())?;
    let only = std::env::args().nth(2).unwrap_or_default();
    let wanted = |radio: &Radio| radio.to_string().contains(&only);
    let mut asked = cases(random);
    asked.retain(|(_, radio)| wanted(radio));
    let found = run(&asked, &Pool::default())?;
    let mut errors: Vec<f64> = found.iter().filter_map(Case::ratio).map(|r| r.ln().abs()).collect();
    errors.sort_by(f64::total_cmp);
    let at = |part: f64| errors[((errors.len() - 1) as f64 * part) as usize].exp_m1() * 100.0;
    let refused = found.len() - errors.len();
    println!(
        "{} cases, {refused} refused; error of the others: half within {:.0} %, nine of ten within {:.0} %, all within {:.0} %.\n",
        found.len(),
        at(0.5),
        at(0.9),
        at(1.0)
    );
    println!(
        "| radio | Stack | Diamond | Half-Diamond | Chain-Cross | three hops | Fig 7.3 | random meshes |\n|---|---|---|---|---|---|---|---|"
    );
    for (radio, _) in RADIOS.into_iter().filter(|r| wanted(&r.0)) {
        let named: Vec<String> = Place::NAMED.iter().map(|&p| cell(&found, radio, p)).collect();
        println!("| {radio} | {} | {} |", named.join(" | "), meshes(&found, radio));
    }
    Ok(())
}
