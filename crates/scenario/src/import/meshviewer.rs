//! meshviewer.json of Freifunk's meshviewer, version 4 and later.

use serde::Deserialize;
use serde_json::Value;

use super::Result;
use super::json::{Object, Properties, flag, json, number, text};
use super::location::location;
use super::map::{Map, MapLink, MapNode, OnAir};
use super::metric::{Metric, Quality};
use super::notes::Notes;
use crate::error::{KeyPath, Problem, ScenarioError};
use crate::name::Name;

#[derive(Deserialize)]
struct File {
    nodes: Vec<Object<FileNode>>,
    links: Vec<Object<FileLink>>,
}

#[derive(Deserialize)]
struct FileNode {
    node_id: Name,
    #[serde(default)]
    hostname: Value,
    #[serde(default)]
    mac: Value,
    #[serde(default)]
    addresses: Value,
    #[serde(default)]
    is_gateway: Value,
    /// Gateway that the node uses; some writers have a boolean here.
    #[serde(default)]
    gateway: Value,
    #[serde(default)]
    is_online: Value,
    /// `is_gateway` and `is_online` as in version 4 and older files of ffmap.
    #[serde(default)]
    flags: Properties<Flags>,
    #[serde(default)]
    location: Value,
    /// Device model.
    #[serde(default)]
    model: Value,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Flags {
    gateway: Value,
    online: Value,
}

#[derive(Deserialize)]
struct FileLink {
    source: Name,
    target: Name,
    #[serde(default)]
    source_tq: Value,
    #[serde(default)]
    target_tq: Value,
    #[serde(default)]
    r#type: Value,
}

/// Medium of a link.
enum Medium {
    Radio,
    Cable,
    Tunnel,
}

impl Medium {
    fn of(kind: Option<&str>) -> Medium {
        match kind.unwrap_or_default() {
            "vpn" | "tunnel" | "l2tp" | "fastd" | "wireguard" => Medium::Tunnel,
            "other" | "lan" | "wired" | "ethernet" => Medium::Cable,
            _ => Medium::Radio,
        }
    }
}

pub(super) fn read(source: &str) -> Result<Map> {
    let Object(file) = json::<Object<File>>(source)?;
    let mut map = Map::new(None);
    let mut notes = Notes::default();
    let mut offline = 0;
    for (i, Object(node)) in file.nodes.into_iter().enumerate() {
        let owner = format!("node \"{}\"", node.node_id);
        let flags = node.flags.0.unwrap_or_default();
        let mut is = |key: &str, value: &Value| {
            flag(value).unwrap_or_else(|()| {
                notes.foreign(key, "true or false", value, &owner);
                None
            })
        };
        let online = is("nodes.is_online", &node.is_online)
            .or_else(|| is("nodes.flags.online", &flags.online));
        if online == Some(false) {
            offline += 1;
        }
        let gateway = is("nodes.is_gateway", &node.is_gateway)
            .or_else(|| is("nodes.flags.gateway", &flags.gateway));
        let uses = match (&node.gateway, flag(&node.gateway)) {
            (_, Ok(Some(true))) => Some(node.node_id.clone()),
            (Value::String(name), Err(())) => {
                map.used_gateways.push(Name::from(name.as_str()));
                None
            }
            _ => None,
        };
        map.gateways.extend(gateway.filter(|g| *g).map(|_| node.node_id.clone()).or(uses));
        let mut word = |key: &str, value: Value| {
            if matches!(value, Value::Array(_) | Value::Object(_) | Value::Bool(_)) {
                notes.foreign(key, "a text", &value, &owner);
            }
            text(value).ok().flatten()
        };
        let mut names: Vec<String> = word("nodes.hostname", node.hostname).into_iter().collect();
        names.extend(word("nodes.mac", node.mac));
        match node.addresses {
            Value::Array(all) => {
                names.extend(all.into_iter().filter_map(|a| word("nodes.addresses", a)));
            }
            one => names.extend(word("nodes.addresses", one)),
        }
        let model = word("nodes.model", node.model);
        map.add_node(
            MapNode {
                id: node.node_id,
                addresses: Vec::new(),
                names,
                location: location(&node.location, "nodes.location", &owner, &mut notes),
                model,
                channels: Vec::new(),
            },
            KeyPath::from("nodes").index(i).key("node_id"),
        )?;
    }
    if offline > 0 {
        map.warnings.push(format!("{offline} nodes are marked as offline"));
    }
    // A file uses one scale; a single value above 1 identifies it.
    let values = file.links.iter().flat_map(|l| [&l.0.source_tq, &l.0.target_tq]);
    let above = values.filter_map(|v| number(v).ok().flatten()).any(|tq| tq > 1.0);
    let scale = if above { Metric::Tq255 } else { Metric::Tq };
    let mut tunnels = 0;
    for (i, Object(link)) in file.links.into_iter().enumerate() {
        let key = KeyPath::from("links").index(i);
        let tq = |value: &Value, name: &str| {
            let fail = |problem| Err(ScenarioError::at(key.clone().key(name), problem));
            match number(value) {
                Ok(None) => Ok(None),
                Ok(Some(tq)) => match scale.quality(tq) {
                    Some(quality) => Ok(Some(quality)),
                    None => fail(Problem::range(tq, scale.expected())),
                },
                Err(()) => fail(Problem::Value {
                    found: value.to_string(),
                    expected: scale.expected().into(),
                }),
            }
        };
        let (there, back) = (tq(&link.source_tq, "source_tq")?, tq(&link.target_tq, "target_tq")?);
        let (quality, back) = match Medium::of(link.r#type.as_str()) {
            Medium::Tunnel => {
                // A node with a tunnel has an uplink.
                map.check_link(&link.source, &link.target, &key)?;
                map.tunnels.push((link.source, link.target));
                tunnels += 1;
                continue;
            }
            Medium::Cable => (Quality::Cable, None),
            Medium::Radio => (there.or(back).unwrap_or(Quality::Radio(1.0)), back),
        };
        let (source, target, radio) = (link.source, link.target, OnAir::default());
        map.add_link(MapLink { source, target, quality, back, radio }, key)?;
    }
    if tunnels > 0 {
        map.warnings.push(format!("{tunnels} tunnels were left out: they are not radio links"));
    }
    map.notes(notes);
    Ok(map)
}
