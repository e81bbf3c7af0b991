//! Lookup of the declared items for a row and column of a stored record.
//!
//! The labels are resolved to items of the declaration.

use fairmesh_lab::Estimate;

use super::cell::Cell;
use super::declare::{Dimension, Experiment};
use super::record::{Number, Row};

/// Indices of the items that a label names; a part that the layout lacks is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
struct Place {
    arm: Option<usize>,
    point: Option<usize>,
    measure: Option<usize>,
    flow: String,
}

/// Returns the number of a record as it was when its runs were read.
pub fn cell(experiment: &Experiment, row: &Row, number: &Number) -> Cell {
    let place = place(experiment, &row.label, &number.column);
    let label = |labels: Vec<&String>, at: Option<usize>| {
        at.and_then(|i| labels.get(i).map(|l| (*l).clone())).unwrap_or_default()
    };
    let measure = place.measure.unwrap_or(0);
    // A row of an arm that is no longer declared belongs to no arm.
    let arm = if experiment.lays_out(Dimension::Arm) { place.arm } else { Some(0) };
    let measured = experiment.measures.get(measure).map_or("", |m| m.label.as_str());
    let line = [place.flow.as_str(), measured];
    Cell {
        row: row.label.clone(),
        column: number.column.clone(),
        arm: label(experiment.arms.iter().map(|a| &a.label).collect(), arm),
        point: label(experiment.points.iter().map(|p| &p.label).collect(), place.point),
        line: line.iter().filter(|p| !p.is_empty()).copied().collect::<Vec<_>>().join(", "),
        measure,
        value: Estimate { mean: number.ours, ci95: number.ci95 },
    }
}

/// Resolves the labels of a study: the names of items are searched anywhere in them.
fn place(experiment: &Experiment, row: &str, column: &str) -> Place {
    let mut place = Place::default();
    let layout = &experiment.layout;
    if !take(experiment, &layout.rows, row, &mut place)
        || !take(experiment, &layout.columns, column, &mut place)
    {
        let named = |label: &str| !label.is_empty() && (column == label || row.starts_with(label));
        place.measure = experiment.measures.iter().position(|m| named(&m.label));
    }
    place
}

/// Parses a label that was made of `dimensions`; returns `false` if it does not match.
fn take(experiment: &Experiment, dimensions: &[Dimension], text: &str, place: &mut Place) -> bool {
    let Some((first, rest)) = dimensions.split_first() else { return text.is_empty() };
    let known: Option<Vec<&str>> = match first {
        Dimension::Arm => Some(experiment.arms.iter().map(|a| a.label.as_str()).collect()),
        Dimension::Point => Some(experiment.points.iter().map(|p| p.label.as_str()).collect()),
        Dimension::Phase => Some(experiment.phases.iter().map(|p| p.label.as_str()).collect()),
        Dimension::Measure => Some(experiment.measures.iter().map(|m| m.label.as_str()).collect()),
        Dimension::Family => {
            let mut all: Vec<&str> = vec![""];
            all.extend(experiment.topologies.iter().map(|t| t.family.as_str()));
            Some(all)
        }
        Dimension::Place => {
            let families = experiment.topologies.iter().map(|t| t.family.as_str());
            Some(families.chain(experiment.topologies.iter().map(|t| t.label.as_str())).collect())
        }
        Dimension::Flow => None,
    };
    let Some(labels) = known else {
        // Flows are named by the scenario: the shortest name after which the rest matches, or no
        // name for a measure over all flows.
        let mut ends: Vec<usize> = text.match_indices(", ").map(|(i, _)| i).collect();
        ends.push(text.len());
        ends.insert(0, 0);
        return ends.into_iter().any(|end| {
            let mut tried = place.clone();
            text[..end].clone_into(&mut tried.flow);
            let after = text[end..].strip_prefix(", ").unwrap_or(&text[end..]);
            let read = take(experiment, rest, after, &mut tried);
            if read {
                *place = tried;
            }
            read
        });
    };
    // The longest label is first, because one label may begin with another.
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(labels[i].len()));
    order.into_iter().any(|i| {
        let after = match text.strip_prefix(labels[i]) {
            Some("") => "",
            Some(more) if labels[i].is_empty() => more,
            Some(more) => match more.strip_prefix(", ") {
                Some(more) => more,
                None => return false,
            },
            None => return false,
        };
        let mut tried = place.clone();
        match first {
            Dimension::Arm => tried.arm = Some(i),
            Dimension::Point => tried.point = Some(i),
            Dimension::Measure => tried.measure = Some(i),
            Dimension::Family | Dimension::Place | Dimension::Phase | Dimension::Flow => {}
        }
        let read = take(experiment, rest, after, &mut tried);
        if read {
            *place = tried;
        }
        read
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment() -> Experiment {
        toml::from_str(
            "title = \"t\"\npaper = \"p\"\nplace = \"\"\nabout = \"\"\nquick = { seeds = 1 }\n\
             full = { seeds = 1 }\nlayout = { rows = [\"arm\", \"point\"], columns = [\"flow\", \"measure\"] }\n\
             arm = [{ label = \"FIFO\" }, { label = \"FIFO, no capture\" }]\n\
             point = [{ label = \"5\" }, { label = \"50\" }]\n\
             measure = [{ label = \"\", of = \"goodput\" }, { label = \"delay, ms\", of = \"delay\" }, { label = \"JFI\", of = \"jain\" }]\n",
        )
        .unwrap()
    }

    #[test]
    fn labels_are_read_back() {
        let e = experiment();
        let of = |row: &str, column: &str| {
            let p = place(&e, row, column);
            (p.arm, p.point, p.measure, p.flow)
        };
        assert_eq!(of("FIFO, 50", "4→6, delay, ms"), (Some(0), Some(1), Some(1), "4→6".into()));
        assert_eq!(of("FIFO, no capture, 5", "4→6"), (Some(1), Some(0), Some(0), "4→6".into()));
        assert_eq!(of("FIFO, 5", "JFI"), (Some(0), Some(0), Some(2), String::new()));
    }
}
