//! Locations of a map's nodes.
//!
//! They are degrees in several notations, converted to metres for drawings.

use serde_json::Value;

use super::json::number;
use super::notes::Notes;

/// Mean radius of the Earth, in m.
const EARTH_RADIUS_M: f64 = 6_371_008.8;
/// Maximum distance between the ends of a radio link, m: above the Wi-Fi record (382 km).
const MAX_LINK_LENGTH_M: f64 = 400e3;
/// Maximum number of nodes in a note.
const MAX_LISTED_NODES: usize = 10;

/// Degrees north and east.
pub(super) type Degrees = (f64, f64);

/// Returns a location as degrees north and east.
///
/// It may be an object with `lat` and `lng` (`latitude`, `longitude`, `lon`, `long`), a GeoJSON Point, or
/// GeoJSON's list of longitude and latitude (RFC 7946 §3.1.1). Other values are counted.
pub(super) fn location(
    value: &Value,
    key: &str,
    owner: &str,
    notes: &mut Notes,
) -> Option<Degrees> {
    match degrees(value) {
        Ok(Some((at, listed))) => {
            if listed {
                let kind =
                    format!("of `{key}` are lists, read as [longitude, latitude] as in GeoJSON");
                notes.add(kind, || format!("{value} of {owner}"));
            }
            Some(at)
        }
        Ok(None) => None,
        Err(()) => {
            notes.foreign(key, "`lat` and `lng` in degrees", value, owner);
            None
        }
    }
}

/// Returns the location, and true if it is a list.
fn degrees(value: &Value) -> Result<Option<(Degrees, bool)>, ()> {
    match value {
        Value::Null => Ok(None),
        Value::Array(all) if all.is_empty() => Ok(None),
        Value::Array(all) => match all[..] {
            // The third number is the height.
            [ref lng, ref lat] | [ref lng, ref lat, _] => {
                let one = |v: &Value| v.as_f64().ok_or(());
                Ok(Some(((one(lat)?, one(lng)?), true)))
            }
            _ => Err(()),
        },
        Value::Object(object) => {
            let find = |names: &[&str]| {
                let is = |k: &str| names.iter().any(|n| n.eq_ignore_ascii_case(k));
                let found = object.iter().find(|(k, v)| is(k) && !v.is_null());
                found.map_or(Ok(None), |(_, v)| number(v))
            };
            if let Some(point) = object.get("coordinates") {
                return degrees(point);
            }
            let lat = find(&["lat", "latitude"])?;
            match (lat, find(&["lng", "lon", "long", "longitude"])?) {
                (Some(lat), Some(lng)) => Ok(Some(((lat, lng), false))),
                (None, None) => Ok(None),
                _ => Err(()),
            }
        }
        _ => Err(()),
    }
}

/// Returns true if a location is valid. A location of exactly zero was never set.
fn possible(&(lat, lng): &Degrees) -> bool {
    lat.abs() <= 90.0 && lng.abs() <= 180.0 && (lat, lng) != (0.0, 0.0)
}

/// Equirectangular projection to metres around a centre.
struct Projection {
    lat: f64,
    lng: f64,
    shrink: f64,
}

impl Projection {
    /// Projects around the median: one misplaced router does not move the others.
    fn around(known: &[Degrees]) -> Self {
        let median = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or_default()
        };
        let lat = median(known.iter().map(|l| l.0).collect());
        let lng = median(known.iter().map(|l| l.1).collect());
        Projection { lat, lng, shrink: libm::cos(lat.to_radians()) }
    }

    fn place(&self, (lat, lng): Degrees) -> [f64; 2] {
        [
            EARTH_RADIUS_M * self.shrink * (lng - self.lng).to_radians(),
            EARTH_RADIUS_M * (lat - self.lat).to_radians(),
        ]
    }

    fn far(&self, at: Degrees) -> f64 {
        let [x, y] = self.place(at);
        libm::hypot(x, y)
    }
}

/// Returns metres around the median location of each node, and notes about ignored locations.
///
/// `name` returns the name of a node; `links` are the radio links by their ends.
pub(super) fn places<'a>(
    locations: &[Option<Degrees>],
    links: impl Iterator<Item = (usize, usize)>,
    name: impl Fn(usize) -> &'a str,
) -> (Vec<Option<[f64; 2]>>, Vec<String>) {
    let mut notes = Vec::new();
    let mut kept: Vec<Option<Degrees>> =
        locations.iter().map(|l| l.as_ref().filter(|l| possible(l)).copied()).collect();
    let impossible: Vec<Degrees> =
        locations.iter().flatten().filter(|l| !possible(l)).copied().collect();
    if !impossible.is_empty() {
        let swapped = impossible.iter().filter(|l| l.0.abs() > 90.0 && l.1.abs() <= 90.0).count();
        let hint = match swapped {
            0 => String::new(),
            n => format!("; {n} would be possible with latitude and longitude swapped"),
        };
        notes.push(format!("impossible locations ignored: {}{hint}", impossible.len()));
    }
    let known: Vec<Degrees> = kept.iter().flatten().copied().collect();
    let middle = Projection::around(&known);
    let mut misplaced = std::collections::BTreeSet::new();
    for (a, b) in links {
        let (Some(at_a), Some(at_b)) = (kept[a], kept[b]) else { continue };
        let ([ax, ay], [bx, by]) = (middle.place(at_a), middle.place(at_b));
        if libm::hypot(ax - bx, ay - by) > MAX_LINK_LENGTH_M {
            misplaced.insert(if middle.far(at_a) > middle.far(at_b) { a } else { b });
        }
    }
    if !misplaced.is_empty() {
        let swapped = |i: &&usize| {
            let turned = kept[**i].map(|(lat, lng)| (lng, lat));
            turned.is_some_and(|at| possible(&at) && middle.far(at) < MAX_LINK_LENGTH_M)
        };
        let hint = match misplaced.iter().filter(swapped).count() {
            0 => String::new(),
            n => format!("; {n} would be near with latitude and longitude swapped"),
        };
        let shown: Vec<&str> = misplaced.iter().take(MAX_LISTED_NODES).map(|&i| name(i)).collect();
        let more = if misplaced.len() > MAX_LISTED_NODES { ", …" } else { "" };
        notes.push(format!(
            "{} locations more than {} km from a neighbour's were ignored{hint}: {}{more}",
            misplaced.len(),
            MAX_LINK_LENGTH_M / 1e3,
            shown.join(", ")
        ));
    }
    misplaced.into_iter().for_each(|i| kept[i] = None);
    // The projection is invalid beyond this distance, and resolving the draft would refuse it.
    let near = |p: &[f64; 2]| p.iter().all(|v| v.abs() < 9e6);
    let places = kept.into_iter().map(|l| l.map(|l| middle.place(l)).filter(near));
    (places.collect(), notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<(Degrees, bool)>, ()> {
        degrees(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn notations_of_a_location() {
        for text in [
            r#"{"lat": 47.5, "lng": 8.5}"#,
            r#"{"latitude": 47.5, "longitude": 8.5, "altitude": 400}"#,
            r#"{"lat": "47.5", "lon": "8.5"}"#,
            r#"{"Lat": 47.5, "Long": 8.5}"#,
        ] {
            assert_eq!(read(text), Ok(Some(((47.5, 8.5), false))), "{text}");
        }
        for text in
            ["[8.5, 47.5]", "[8.5, 47.5, 400]", r#"{"type": "Point", "coordinates": [8.5, 47.5]}"#]
        {
            assert_eq!(read(text), Ok(Some(((47.5, 8.5), true))), "{text}");
        }
        for text in ["null", "{}", "[]", r#"{"lat": null, "lng": null}"#] {
            assert_eq!(read(text), Ok(None), "{text}");
        }
        for text in ["\"Main Street 1\"", "7", "[1]", "[\"8.5\", \"47.5\"]", r#"{"lat": 1}"#] {
            assert_eq!(read(text), Err(()), "{text}");
        }
    }

    #[test]
    fn implausible_locations_are_ignored_with_a_note() {
        let near = |i: usize| Some((47.0 + 0.01 * i as f64, 8.0));
        let mut all: Vec<Option<Degrees>> = (0..5).map(near).collect();
        all[3] = Some((8.0, 47.03));
        let links = [(0, 1), (1, 2), (2, 3), (3, 4)];
        let name = |i: usize| ["a", "b", "c", "d", "e"][i];
        let (places, notes) = places(&all, links.into_iter(), name);
        assert_eq!(
            places.iter().map(Option::is_some).collect::<Vec<_>>(),
            [true, true, true, false, true]
        );
        let expected = "1 locations more than 400 km from a neighbour's were ignored; 1 would be near with latitude and longitude swapped: d";
        assert_eq!(notes, [expected]);
        let (_, notes) = super::places(&[Some((120.0, 8.0))], [].into_iter(), name);
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("1 would be possible with latitude and longitude swapped"));
    }
}
