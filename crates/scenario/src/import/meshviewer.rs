//! meshviewer.json of Freifunk's meshviewer, version 4 and later.

use serde::Deserialize;

use super::map::{Map, MapLink, MapNode, OnAir};
use super::metric::{Metric, Quality};
use super::{Result, json};
use crate::error::{KeyPath, Problem, ScenarioError};
use crate::name::Name;

#[derive(Deserialize)]
struct File {
    nodes: Vec<FileNode>,
    links: Vec<FileLink>,
}

#[derive(Deserialize)]
struct FileNode {
    node_id: Name,
    #[serde(default)]
    hostname: Option<String>,
    #[serde(default)]
    mac: Option<String>,
    #[serde(default)]
    addresses: Option<Vec<String>>,
    #[serde(default)]
    is_gateway: Option<bool>,
    #[serde(default)]
    is_online: Option<bool>,
    #[serde(default)]
    location: Option<Location>,
    /// What the device is.
    #[serde(default)]
    model: Option<String>,
}

#[derive(Deserialize)]
struct Location {
    #[serde(default)]
    latitude: Option<f64>,
    #[serde(default)]
    longitude: Option<f64>,
}

#[derive(Deserialize)]
struct FileLink {
    source: Name,
    target: Name,
    #[serde(default)]
    source_tq: Option<f64>,
    #[serde(default)]
    target_tq: Option<f64>,
    #[serde(default)]
    r#type: Option<String>,
}

/// What carries a link.
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

pub(super) fn read(text: &str) -> Result<Map> {
    let file: File = json(text)?;
    let mut map = Map::new(None);
    let mut offline = 0;
    for (i, node) in file.nodes.into_iter().enumerate() {
        if node.is_online == Some(false) {
            offline += 1;
        }
        if node.is_gateway == Some(true) {
            map.gateways.push(node.node_id.clone());
        }
        let aliases = node.hostname.into_iter().chain(node.mac);
        map.add_node(
            MapNode {
                id: node.node_id,
                aliases: aliases.chain(node.addresses.unwrap_or_default()).collect(),
                location: node.location.and_then(|l| l.latitude.zip(l.longitude)),
                model: node.model,
                channels: Vec::new(),
            },
            KeyPath::from("nodes").index(i).key("node_id"),
        )?;
    }
    if offline > 0 {
        map.warnings.push(format!("{offline} nodes are marked as offline"));
    }
    // One file uses one scale: a single value above 1 tells which.
    let values = file.links.iter().flat_map(|l| [l.source_tq, l.target_tq]);
    let scale = if values.flatten().any(|tq| tq > 1.0) { Metric::Tq255 } else { Metric::Tq };
    let mut tunnels = 0;
    for (i, link) in file.links.into_iter().enumerate() {
        let key = KeyPath::from("links").index(i);
        let tq = |value: Option<f64>, name: &str| match value.map(|v| (v, scale.quality(v))) {
            None => Ok(None),
            Some((_, Some(quality))) => Ok(Some(quality)),
            Some((v, None)) => {
                let problem = Problem::range(v, scale.expected());
                Err(ScenarioError::at(key.clone().key(name), problem))
            }
        };
        let (there, back) = (tq(link.source_tq, "source_tq")?, tq(link.target_tq, "target_tq")?);
        let (quality, back) = match Medium::of(link.r#type.as_deref()) {
            Medium::Tunnel => {
                // Whoever has a tunnel has a way out.
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
        map.warnings.push(format!("{tunnels} tunnels were left out: they are no radio links"));
    }
    Ok(map)
}
