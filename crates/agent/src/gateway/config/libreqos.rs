//! LibreQoS's `ShapedDevices.csv`, with the rates of `network.json`.
//!
//! A circuit is a subscriber. A row that cannot be used is left out and reported; the others are used.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fairmesh_document::KeyPath;
use fairmesh_linux::IpNet;
use fairmesh_units::BitRate;
use serde_json::Value;

use super::files::Files;
use super::merge::Merged;
use super::refuse::{Result, refused};
use super::text::{MAX_RATE, MIN_RATE, prefix, valid_name};

/// Columns that are used, in letters and digits without the unit.
const CIRCUIT: &str = "circuitid";
const NAME: &str = "circuitname";
const PARENT: &str = "parentnode";
const ADDRESSES: [&str; 2] = ["ipv4", "ipv6"];
const RATES: [&str; 2] = ["downloadmax", "uploadmax"];
const COMMENT: &str = "comment";

/// A row, or a part of it, that is not used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unused {
    /// Line of the file, from 1.
    pub line: u64,
    /// Reason.
    pub text: String,
}

/// A circuit of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Circuit {
    /// Line of its first row.
    pub line: u64,
    /// Name of the subscriber.
    pub name: String,
    /// Number of the circuit.
    id: String,
    /// Prefixes with their lines.
    pub prefixes: Vec<(IpNet, u64)>,
    /// Ceilings downstream and upstream.
    pub ceilings: [Option<BitRate>; 2],
}

/// Content of the file.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Circuits {
    /// Circuits in the order of the file.
    pub circuits: Vec<Circuit>,
    /// Rows and addresses that are not used.
    pub unused: Vec<Unused>,
}

/// Files that `[libreqos]` names.
#[derive(Debug)]
pub(super) struct Tables {
    /// Full path of `devices`.
    pub file: String,
    /// Circuits of the file; `None` without `[libreqos]`.
    pub circuits: Option<Circuits>,
    /// Path and text of every file.
    pub texts: Vec<(PathBuf, String)>,
}

impl Tables {
    /// Reads the files.
    ///
    /// # Errors
    /// A file that cannot be read, or is not LibreQoS's.
    pub fn read(merged: &Merged, files: &Files) -> Result<Tables> {
        let mut tables = Tables { file: String::new(), circuits: None, texts: Vec::new() };
        let Some(given) = &merged.draft.libreqos else { return Ok(tables) };
        let key = |word: &str| KeyPath::from("libreqos").key(word);
        let mut text_of = |path: &Path, word: &str| -> Result<(String, String)> {
            let file = files.path(path).display().to_string();
            let text = match files.read(path) {
                Ok(text) if !file.contains('\n') => text,
                Ok(_) => return refused(key(word), "the path has a newline", "a path of one line"),
                Err(e) => {
                    return refused(key(word), format!("{file}: {e}"), "a readable text file");
                }
            };
            tables.texts.push((path.to_owned(), text.clone()));
            Ok((file, text))
        };
        let mut network = None;
        if let Some(path) = &given.network {
            let (file, text) = text_of(path, "network")?;
            let read = parents(&text);
            let fail =
                |(what, expected)| refused(key("network"), format!("{file}: {what}"), expected);
            network = Some(read.or_else(fail)?);
        }
        let (file, text) = text_of(&given.devices, "devices")?;
        let circuits = read(&text, network.as_ref());
        let fail = |(line, what, expected)| {
            refused(key("devices"), format!("{file}:{line}: {what}"), expected)
        };
        tables.circuits = Some(circuits.or_else(fail)?);
        tables.file = file;
        Ok(tables)
    }
}

/// Rates of the nodes of `network.json`: the smallest ones from a root to the node, by name.
pub(super) type Parents = BTreeMap<String, [Option<BitRate>; 2]>;

/// Reads the nodes of `network.json`.
///
/// # Errors
/// Returns the problem, and the expected value.
pub(super) fn parents(text: &str) -> core::result::Result<Parents, (String, &'static str)> {
    let expected = "LibreQoS's network.json: an object of nodes";
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let value: Value = serde_json::from_str(text).map_err(|e| (e.to_string(), expected))?;
    let Value::Object(roots) = value else { return Err(("not an object".into(), expected)) };
    let mut found = Parents::new();
    let mut open: Vec<(String, Value, [Option<BitRate>; 2])> =
        roots.into_iter().map(|(name, node)| (name, node, [None; 2])).collect();
    while let Some((name, mut node, above)) = open.pop() {
        let rate = |key: &str| node[key].as_f64().and_then(megabits);
        let own = [rate("downloadBandwidthMbps"), rate("uploadBandwidthMbps")];
        let least = [0, 1].map(|d| smaller(above[d], own[d]));
        if let Some(Value::Object(children)) = node.get_mut("children").map(Value::take) {
            open.extend(children.into_iter().map(|(name, node)| (name, node, least)));
        }
        if found.insert(name.trim().to_owned(), least).is_some() {
            let what = format!("the node \"{name}\" is there twice");
            return Err((what, "each name of a node once"));
        }
    }
    Ok(found)
}

fn smaller(a: Option<BitRate>, b: Option<BitRate>) -> Option<BitRate> {
    a.into_iter().chain(b).min()
}

/// Returns a rate of Mbit/s within the accepted range.
fn megabits(value: f64) -> Option<BitRate> {
    let rate = BitRate((value * 1e6).round() as u64);
    (value.is_finite() && (MIN_RATE..=MAX_RATE).contains(&rate)).then_some(rate)
}

/// Reads a number with a decimal point or comma.
fn number(cell: &str) -> Option<f64> {
    cell.replacen(',', ".", 1).parse().ok().filter(|v: &f64| v.is_finite())
}

/// Returns the letters and digits of a column's name in lower case, without the unit.
fn column(cell: &str) -> String {
    let name: String = cell.chars().filter(|c| c.is_alphanumeric()).collect();
    let name = name.to_lowercase();
    name.strip_suffix("mbps").map_or(name.clone(), str::to_owned)
}

/// Reads `ShapedDevices.csv`; commas, semicolons or tabs separate its columns.
///
/// # Errors
/// Line, problem and expected value, if the file has no usable header.
pub(super) fn read(
    text: &str,
    parents: Option<&Parents>,
) -> core::result::Result<Circuits, (u64, String, &'static str)> {
    let expected = "the header of LibreQoS's ShapedDevices.csv: \"Circuit ID\", \"IPv4\", \"Download Max Mbps\", …";
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let heading = text.lines().find(|l| !l.trim().is_empty() && !l.starts_with('#'));
    let heading = heading.ok_or((1, "no row".to_owned(), expected))?;
    let count = |separator: u8| heading.bytes().filter(|b| *b == separator).count();
    let separator = [b',', b';', b'\t'].into_iter().max_by_key(|s| count(*s)).unwrap_or(b',');
    let mut reader = csv::ReaderBuilder::new();
    reader.has_headers(false).flexible(true).comment(Some(b'#')).trim(csv::Trim::All);
    let mut reader = reader.delimiter(separator).from_reader(text.as_bytes());
    let mut rows = reader.records();
    // The text is UTF-8 and in memory, so a row cannot fail.
    let header = rows.next().and_then(core::result::Result::ok).unwrap_or_default();
    let mut lines = Lines { text, at: 0, line: 1 };
    let line = lines.of(&header);
    let columns: BTreeMap<String, usize> =
        header.iter().enumerate().map(|(i, cell)| (column(cell), i)).collect();
    for needed in [&[CIRCUIT, NAME][..], &ADDRESSES, &RATES] {
        if !needed.iter().any(|c| columns.contains_key(*c)) {
            return Err((line, "a column of the header is missing".to_owned(), expected));
        }
    }
    let mut found = Circuits::default();
    let mut by_id: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows.filter_map(core::result::Result::ok) {
        let line = lines.of(&row);
        let cell = |name: &str| columns.get(name).and_then(|i| row.get(*i)).unwrap_or("").trim();
        if row.iter().all(str::is_empty) {
            continue;
        }
        // LibreQoS's own example has commas in comments.
        if row.len() > header.len() && number(cell(COMMENT)).is_some() {
            let text = "the row has more columns than the header; a decimal comma needs quotes";
            found.unused.push(Unused { line, text: text.to_owned() });
            continue;
        }
        if let Err(text) = add(&mut found, &mut by_id, line, &cell, parents) {
            found.unused.push(Unused { line, text });
        }
    }
    name_apart(&mut found.circuits);
    Ok(found)
}

/// Counter of lines up to each row.
///
/// The reader's own position is that of the end of the row before: with CRLF a line too early, and before comments.
struct Lines<'t> {
    text: &'t str,
    at: usize,
    line: u64,
}

impl Lines<'_> {
    /// Returns the line of a row, from 1; rows come in their order.
    fn of(&mut self, row: &csv::StringRecord) -> u64 {
        let from = row.position().map_or(0, |p| p.byte() as usize).max(self.at);
        let newlines = |text: &str| text.bytes().filter(|b| *b == b'\n').count() as u64;
        self.line += self.text.get(self.at..from).map_or(0, newlines);
        self.at = from;
        while let Some((line, _)) = self.text.get(self.at..).and_then(|t| t.split_once('\n')) {
            if !line.trim().is_empty() && !line.starts_with('#') {
                break;
            }
            (self.at, self.line) = (self.at + line.len() + 1, self.line + 1);
        }
        self.line
    }
}

/// Adds a row to its circuit.
fn add<'r>(
    found: &mut Circuits,
    by_id: &mut BTreeMap<String, usize>,
    line: u64,
    cell: &dyn Fn(&str) -> &'r str,
    parents: Option<&Parents>,
) -> core::result::Result<(), String> {
    let (id, given) = (cell(CIRCUIT), cell(NAME));
    let id = if id.is_empty() { given } else { id };
    let Some(name) = [given, id].into_iter().find_map(valid_name) else {
        return Err(
            "neither name nor number of the circuit has 1 to 64 printable characters".into()
        );
    };
    let mut ceilings = [None; 2];
    for (ceiling, column) in ceilings.iter_mut().zip(RATES) {
        let text = cell(column);
        if !text.is_empty() {
            let rate = number(text).and_then(megabits);
            let expected = "a number of Mbit/s from 0.001 to 1000000";
            *ceiling =
                Some(rate.ok_or_else(|| format!("{column} \"{text}\"; expected {expected}"))?);
        }
    }
    let mut unused = Vec::new();
    let mut prefixes = Vec::new();
    let cells = ADDRESSES.map(cell);
    for text in cells.iter().flat_map(|c| c.split([',', ';', ' ', '|'])).filter(|t| !t.is_empty()) {
        match prefix(text) {
            Some(net) if net == net.trunc() && net.prefix_len() > 0 => prefixes.push((net, line)),
            Some(net) => unused.push(format!("{net} is not a prefix of one subscriber")),
            None => unused.push(format!("\"{text}\" is not an address")),
        }
    }
    if prefixes.is_empty() && unused.is_empty() {
        return Err(format!("\"{name}\" has no IPv4 or IPv6 address"));
    }
    let parent = cell(PARENT);
    if let (Some(parents), false) = (parents, parent.is_empty()) {
        match parents.get(parent) {
            Some(most) => ceilings = [0, 1].map(|d| smaller(ceilings[d], most[d])),
            None => unused.push(format!("the parent \"{parent}\" is not in network.json")),
        }
    }
    found.unused.extend(unused.into_iter().map(|text| Unused { line, text }));
    if prefixes.is_empty() {
        return Ok(());
    }
    if let Some(circuit) = by_id.get(id).and_then(|i| found.circuits.get_mut(*i)) {
        if circuit.ceilings != ceilings {
            let text = format!("rates differ from those of line {}, which apply", circuit.line);
            found.unused.push(Unused { line, text });
        }
        let new = |p: &(IpNet, u64)| !circuit.prefixes.iter().any(|(known, _)| *known == p.0);
        let prefixes: Vec<_> = prefixes.into_iter().filter(new).collect();
        circuit.prefixes.extend(prefixes);
        return Ok(());
    }
    by_id.insert(id.to_owned(), found.circuits.len());
    found.circuits.push(Circuit { line, name, id: id.to_owned(), prefixes, ceilings });
    Ok(())
}

/// Adds the circuits' numbers to names that several circuits have.
fn name_apart(circuits: &mut [Circuit]) {
    let mut uses: BTreeMap<String, u32> = BTreeMap::new();
    for circuit in circuits.iter() {
        *uses.entry(circuit.name.clone()).or_default() += 1;
    }
    for circuit in circuits.iter_mut().filter(|c| uses[&c.name] > 1) {
        let long = format!("{} ({})", circuit.name, circuit.id);
        if let Some(name) = valid_name(&long).or_else(|| valid_name(&circuit.id)) {
            circuit.name = name;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,\
        Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment,sqm";

    fn rows(rows: &str) -> Circuits {
        read(&format!("{HEADER}\n{rows}"), None).unwrap()
    }

    /// The forms of LibreQoS's example: comments, quotes, several addresses, commas in a comment.
    #[test]
    fn circuits_are_subscribers() {
        let found = read(
            &format!(
                "# Rates are in Mbit/s.\n#\n{HEADER}\n\
                 1,\"12 Hill St., Springfield\",1,Device 1,AP_A,,\"100.64.0.1, 100.64.0.14\",\
                 fdd7:b724:0:100::/56,1,1,155,20,,\n\
                 10,Mill,12,Device 12,AP_1,,100.64.0.12,,50,20,200,2.5,Down=cake, Up=fq_codel,cake/fq_codel\n\
                 27,Farm,5,Device 5,AP_11,,100.64.0.5,,1,1,105,18,,\n\
                 27,Farm,6,Device 6,AP_11,,100.64.0.6,,1,1,105,18,,\n"
            ),
            None,
        )
        .unwrap();
        assert_eq!(found.unused, []);
        let text = |c: &Circuit| {
            let nets: Vec<_> = c.prefixes.iter().map(|(net, _)| net.to_string()).collect();
            format!("{} {} {:?}", c.name, nets.join(" "), c.ceilings.map(|r| r.unwrap().0 / 1000))
        };
        let texts: Vec<_> = found.circuits.iter().map(text).collect();
        assert_eq!(
            texts,
            [
                "12 Hill St., Springfield 100.64.0.1/32 100.64.0.14/32 fdd7:b724:0:100::/56 [155000, 20000]",
                "Mill 100.64.0.12/32 [200000, 2500]",
                "Farm 100.64.0.5/32 100.64.0.6/32 [105000, 18000]",
            ]
        );
    }

    #[test]
    fn a_spreadsheets_form_is_the_same() {
        let plain =
            "1,\"a \"\"b\"\", c\",1,d,,,10.0.0.1,,1,1,2.5,1,,\n2,e,2,f,,,10.0.0.2,,1,1,3,1.5,,\n";
        let text = format!("{HEADER}\n{plain}");
        let semicolons = text.replace("\"a \"\"b\"\", c\"", "\"a \"\"b\"\"\u{1} c\"");
        let semicolons = semicolons.replace(',', ";").replace('\u{1}', ",");
        let semicolons = semicolons.replace("2.5", "2,5").replace("1.5", "1,5");
        let expected = read(&text, None).unwrap();
        assert_eq!((expected.circuits.len(), expected.unused.len()), (2, 0));
        assert_eq!(expected.circuits[0].name, "a \"b\", c");
        for form in [
            format!("\u{feff}{}", semicolons.replace('\n', "\r\n")),
            semicolons.replace('\n', "\r\n"),
            text.replace("Download Max Mbps", "download_max").replace("Circuit ID", "circuit_id"),
        ] {
            assert_eq!(read(&form, None).unwrap(), expected, "{form}");
        }
    }

    #[test]
    fn unusable_rows_are_left_out_with_their_line() {
        let found = rows(
            "#\n\n1,none,1,d,,,,,1,1,5,1,,\n\
             2,zero,1,d,,,10.0.0.2,,1,1,0,1,,\n\
             3,wide,1,d,,,\"10.0.0.3/24 10.0.3.3\",,1,1,5,1,,\n\
             4,word,1,d,,,here,,1,1,5,1,,\n\
             5,comma,1,d,,,10.0.0.5,,1,0,2,5,1,0,,\n\
             \u{1},\u{1},1,d,,,10.0.0.6,,1,1,5,1,,\n\
             7,twice,1,d,,,10.0.0.7,,1,1,5,1,,\n\
             7,twice,1,d,,,10.0.0.8,,1,1,6,1,,\n",
        );
        let names: Vec<_> = found.circuits.iter().map(|c| &*c.name).collect();
        assert_eq!(names, ["wide", "twice"]);
        let lines: Vec<_> = found.unused.iter().map(|u| u.line).collect();
        assert_eq!(lines, [4, 5, 6, 7, 8, 9, 11], "{:?}", found.unused);
        assert!(found.unused[4].text.contains("decimal comma"), "{:?}", found.unused[4]);
    }

    #[test]
    fn one_name_of_two_circuits_gets_their_numbers() {
        let found = rows("1,a,1,d,,,10.0.0.1,,1,1,5,1,,\n2,a,1,d,,,10.0.0.2,,1,1,5,1,,\n");
        let names: Vec<_> = found.circuits.iter().map(|c| &*c.name).collect();
        assert_eq!(names, ["a (1)", "a (2)"]);
    }

    #[test]
    fn a_file_without_its_header_is_refused() {
        for text in ["", "#", "\n\n", "a,b\n", "1,a,1,d,,,10.0.0.1,,1,1,5,1,,\n", "\u{feff}{}"] {
            assert!(read(text, None).is_err(), "{text:?}");
        }
    }

    /// A subscriber gets at most the rate of each node above it.
    #[test]
    fn parents_bound_their_circuits() {
        let network = r#"{ "Site_1": { "downloadBandwidthMbps": 40, "uploadBandwidthMbps": 500, "type": "Site",
            "children": { "AP_1": { "downloadBandwidthMbps": 60, "uploadBandwidthMbps": 8, "type": "AP" } } } }"#;
        let parents = parents(network).unwrap();
        let text = format!(
            "{HEADER}\n1,a,1,d,AP_1,,10.0.0.1,,1,1,50,10,,\n2,b,1,d,AP_2,,10.0.0.2,,1,1,50,10,,\n"
        );
        let found = read(&text, Some(&parents)).unwrap();
        let ceilings = |i: usize| found.circuits[i].ceilings.map(|r| r.unwrap().0 / 1_000_000);
        assert_eq!((ceilings(0), ceilings(1)), ([40, 8], [50, 10]));
        assert!(found.unused[0].text.contains("\"AP_2\""), "{:?}", found.unused);
        for wrong in ["[]", "{", "{\"a\": {\"children\": {\"a\": {}}}}"] {
            assert!(super::parents(wrong).is_err(), "{wrong}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*|([0-9a-z,;\"\r\n. /#:]|\u{feff}){0,200}") {
            let _ = read(&text, None);
            let _ = read(&format!("{HEADER}\n{text}"), None);
            let _ = parents(&text);
        }
    }
}
