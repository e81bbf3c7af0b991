//! Mechanisms of `fairmesh-node` on routers with real mac80211 stacks, beside the simulator.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::mesh::{Mesh, address, sh};

/// A `fairmesh-node` in each station's namespace, ended with the test.
pub struct Routers {
    daemons: Vec<Child>,
}

/// Configuration of one router; `capacity` of its links in bit/s.
fn config(node: usize, role: &str, routing: &str, capacity: f64, control: &str) -> String {
    format!(
        "interfaces = [\"wlan0\"]\nrouting = \"{routing}\"\nrole = \"{role}\"\nmode = \"apply\"\nkey = \"/tmp/node.key\"\ncapacity = \"{capacity:.0} bit/s\"\n\
         [paths]\nsocket = \"/tmp/node{node}/socket\"\nstate = \"/tmp/node{node}/state\"\n[control]\n{control}\n"
    )
}

impl Routers {
    /// Starts a router in each namespace; station 0 is the gateway.
    pub fn start(mesh: &Mesh, routing: &str, capacity: f64, control: &str) -> Routers {
        let key = Path::new("/tmp/node.key");
        if !key.exists() {
            sh("umask 077; fairmesh-node key > /tmp/node.key");
        }
        let mut daemons = Vec::new();
        for node in 0..mesh.nodes.len() {
            let role = if node == 0 { "gateway" } else { "router" };
            let folder = format!("/tmp/node{node}");
            fs::create_dir_all(format!("{folder}/state")).unwrap();
            let file = format!("{folder}/node.toml");
            fs::write(&file, config(node, role, routing, capacity, control)).unwrap();
            let mut run = Command::new("ip");
            run.args(["netns", "exec", mesh.nodes[node].name(), "fairmesh-node", "run"]);
            run.args(["--config", &file]);
            let log = fs::File::create(format!("{folder}/log")).unwrap();
            daemons.push(run.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        }
        Routers { daemons }
    }

    /// Returns the status of a router.
    pub fn status(&self, mesh: &Mesh, node: usize) -> serde_json::Value {
        let line = format!("fairmesh-node status --json --config /tmp/node{node}/node.toml");
        serde_json::from_str(&mesh.sh(node, &line)).unwrap()
    }

    /// Returns a router's limits and latest decision.
    pub fn summary(&self, mesh: &Mesh, node: usize) -> String {
        let status = self.status(mesh, node);
        let share = |s: &serde_json::Value| {
            let (part, rate) = (s["share"].as_f64().unwrap_or(0.0), s["bits_per_second"].as_f64());
            format!("{:.3} of the air, {:.2} Mbit/s", part, rate.unwrap_or(0.0) / 1e6)
        };
        let shares = status["shares"].as_array().into_iter().flatten().map(share);
        let shares: Vec<_> = shares.collect();
        let flow = |f: &serde_json::Value| format!("{} {}", f["home"], f["bits_per_second"]);
        let flows: Vec<_> = status["flows"].as_array().into_iter().flatten().map(flow).collect();
        let (waits, refused) = (&status["waits"], &status["refused"]);
        format!("{shares:?}, {flows:?}, waits {waits}, refused {refused}")
    }

    /// Returns what a router's daemon has printed.
    pub fn log(node: usize) -> String {
        fs::read_to_string(format!("/tmp/node{node}/log")).unwrap_or_default()
    }

    /// Waits until every router answers.
    pub fn wait(&self, mesh: &Mesh) {
        let start = Instant::now();
        for node in 0..mesh.nodes.len() {
            let line = format!(
                "ip netns exec {} fairmesh-node status --config /tmp/node{node}/node.toml",
                mesh.nodes[node].name()
            );
            while !Command::new("sh").args(["-c", &line]).output().unwrap().status.success() {
                assert!(
                    start.elapsed() < Duration::from_secs(20),
                    "router {node}: {}",
                    Self::log(node)
                );
                thread::sleep(Duration::from_millis(200));
            }
        }
    }
}

impl Drop for Routers {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            sh(&format!("kill -TERM {} 2>/dev/null || true", daemon.id()));
            let _ = daemon.wait();
        }
    }
}

/// Sets host routes along paths from each station to station 0, and back.
pub fn route(mesh: &Mesh, parents: &[Option<usize>]) {
    for (node, ns) in mesh.nodes.iter().enumerate() {
        mesh.sh(node, "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.wlan0.send_redirects=0 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.wlan0.rp_filter=0");
        let mut lines = String::new();
        for to in (0..mesh.nodes.len()).filter(|to| *to != node) {
            let up = |n: usize| parents[n];
            // The next hop: below, if `to` is in the subtree; else the parent.
            let mut at = to;
            let mut below = None;
            while let Some(parent) = up(at) {
                if parent == node {
                    below = Some(at);
                    break;
                }
                at = parent;
            }
            let next = below.or(up(node)).unwrap_or(0);
            if next != to {
                lines +=
                    &format!("route replace {}/32 via {} dev wlan0\n", address(to), address(next));
            }
        }
        ns.ip(&lines).unwrap();
    }
}
