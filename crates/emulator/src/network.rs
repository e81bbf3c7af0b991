//! The planned network as namespaces and devices, and its removal.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use fairmesh_linux::netns::{self, Namespace};
use fairmesh_linux::tap::{self, Tap};
use fairmesh_units::NodeId;
use nix::fcntl::{Flock, FlockArg};

use crate::error::EmulatorError;
use crate::plan::{NAMESPACE_PREFIX, Plan};
use crate::settings::{self, TcpSettings};

/// Directory of the locks of running emulations.
const LOCK_FOLDER: &str = "/run/fairmesh-emulator";

/// Options of the namespaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetworkOptions {
    /// Install the plan's routes; otherwise a routing daemon does.
    pub static_routes: bool,
    /// Let the kernel resolve hardware addresses over the air instead of configuring them.
    pub arp: bool,
    /// Settings of TCP.
    pub tcp: TcpSettings,
    /// Name of the congestion control that programs start with.
    pub congestion: &'static str,
}

/// Namespaces, connected to this process by TAP devices; dropping it removes them.
#[derive(Debug)]
pub struct Network {
    /// The plan that was built.
    pub plan: Plan,
    /// Per node.
    pub namespaces: Vec<Namespace>,
    /// Per interface.
    pub taps: Vec<Tap>,
    /// Settings applied, and settings that this kernel lacks, one line each.
    pub notes: Vec<String>,
    _lock: Flock<File>,
    lock_path: PathBuf,
}

impl Network {
    /// Builds the network; removes what was built if a step fails.
    ///
    /// # Errors
    /// Returns an error without the required privileges, or if the kernel refuses an operation.
    pub fn build(plan: Plan, options: &NetworkOptions) -> Result<Self, EmulatorError> {
        let run = run_of(&plan.nodes.first().map_or(String::new(), |n| n.namespace.clone()));
        let lock_path = PathBuf::from(LOCK_FOLDER).join(&run);
        let lock = lock(&lock_path).map_err(EmulatorError::system(format!(
            "the lock {} cannot be had",
            lock_path.display()
        )))?;
        let mut network = Network {
            namespaces: Vec::with_capacity(plan.nodes.len()),
            taps: Vec::with_capacity(plan.interfaces.len()),
            notes: plan.notes.clone(),
            plan,
            _lock: lock,
            lock_path,
        };
        network.fill(options)?;
        Ok(network)
    }

    fn fill(&mut self, options: &NetworkOptions) -> Result<(), EmulatorError> {
        let (mut missing, mut default_refused) = (Vec::new(), false);
        for node in &self.plan.nodes {
            let name = &node.namespace;
            let failed = |what: &str| EmulatorError::system(format!("{what} {name}"));
            let ns = Namespace::create(name).map_err(failed("namespace"))?;
            let found = ns.sysctl(&self.parameters(options)).map_err(failed("parameters of"))?;
            missing.extend(found);
            // Our own sockets set it explicitly, which root may.
            if ns.sysctl(&settings::congestion(options.congestion)).is_err() {
                default_refused = true;
            }
            self.namespaces.push(ns);
        }
        for i in &self.plan.interfaces {
            let ns = &self.namespaces[i.node.index()];
            let what = format!("TAP device {} in {}", i.name, ns.name());
            self.taps.push(Tap::create(ns, &i.name).map_err(EmulatorError::system(what))?);
        }
        for (n, ns) in self.namespaces.iter().enumerate() {
            let batch = self.batch(NodeId(n as u32), options);
            ns.ip(&batch).map_err(EmulatorError::system(ns.name()))?;
        }
        if default_refused {
            let name = options.congestion;
            self.notes.push(format!(
                "programs of --exec start with the kernel's default congestion control, not {name}: \
                 it is not among the host's net.ipv4.tcp_allowed_congestion_control"
            ));
        }
        missing.sort_unstable();
        missing.dedup();
        self.notes.extend(missing.iter().map(|key| format!("this kernel has no net/{key}")));
        Ok(())
    }

    fn parameters(&self, options: &NetworkOptions) -> Vec<(&'static str, String)> {
        let mut all = settings::forwarding();
        if let (TcpSettings::Scenario, Some(tcp)) = (options.tcp, &self.plan.tcp) {
            all.extend(settings::tcp(tcp));
        }
        all
    }

    /// Builds the batch of `ip` commands for a node's namespace.
    fn batch(&self, node: NodeId, options: &NetworkOptions) -> String {
        let plan = &self.plan;
        let own = plan.nodes[node.index()].address;
        let mut out = String::from("link set dev lo up\n");
        for (_, i) in plan.interfaces_of(node) {
            // No segmentation offload, so that each packet leaves as it is sent on the air.
            let _ = writeln!(
                out,
                "link set dev {0} address {1} mtu {2} txqueuelen {3} gso_max_segs 1\n\
                 addr add {own}/32 dev {0}\n\
                 link set dev {0} up",
                i.name, i.mac, plan.mtu, i.queue
            );
        }
        let attributes = match (options.tcp, &plan.tcp) {
            (TcpSettings::Scenario, Some(tcp)) => settings::route_attributes(tcp),
            _ => String::new(),
        };
        let mut table = 1000;
        for r in &plan.nodes[node.index()].routes {
            let interface = &plan.interfaces[r.interface];
            let via = plan.nodes[r.via.index()].address;
            let to = plan.nodes[r.to.index()].address;
            if !options.arp
                && r.via == r.to
                && r.from.is_none()
                && let Some(peer) = plan.peer(r.interface, r.via)
            {
                let (mac, name) = (peer.mac, &interface.name);
                let _ = writeln!(out, "neigh replace {via} lladdr {mac} dev {name} nud permanent");
            }
            if !options.static_routes {
                continue;
            }
            let hop = if r.via == r.to {
                format!("dev {} scope link", interface.name)
            } else {
                format!("via {via} dev {} onlink", interface.name)
            };
            let place = match r.from {
                None => String::new(),
                Some(from) => {
                    table += 1;
                    let from = plan.nodes[from.index()].address;
                    let _ = writeln!(out, "rule add from {from} to {to} lookup {table}");
                    format!(" table {table}")
                }
            };
            let _ = writeln!(out, "route add {to}/32 {hop} src {own}{attributes}{place}");
        }
        out
    }

    /// Returns the number of frames that the kernel dropped because of a full queue.
    ///
    /// # Errors
    /// Returns an error if the interface no longer exists.
    pub fn queue_drops(&self, interface: usize) -> io::Result<u64> {
        let i = &self.plan.interfaces[interface];
        tap::send_drops(&self.namespaces[i.node.index()], &i.name)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.taps.clear();
        for ns in &self.namespaces {
            // A namespace that cannot be removed now is removed by `clean` later.
            let _ = netns::remove(ns.name());
        }
        let _ = fs::remove_file(&self.lock_path);
    }
}

/// The run that a namespace belongs to.
fn run_of(namespace: &str) -> String {
    let rest = namespace.strip_prefix(NAMESPACE_PREFIX).unwrap_or(namespace);
    rest.split('-').next().unwrap_or(rest).to_owned()
}

fn lock(path: &PathBuf) -> io::Result<Flock<File>> {
    fs::create_dir_all(LOCK_FOLDER)?;
    let file = File::options().create(true).truncate(false).write(true).open(path)?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, e)| e.into())
}

/// Removes the namespaces of ended emulations with their processes; returns their names.
///
/// Those of running emulations are left alone.
///
/// # Errors
/// Returns an error if one cannot be removed.
pub fn clean() -> Result<Vec<String>, EmulatorError> {
    let mut removed = Vec::new();
    for name in netns::list(NAMESPACE_PREFIX) {
        let path = PathBuf::from(LOCK_FOLDER).join(run_of(&name));
        let Ok(_held) = lock(&path) else { continue };
        netns::remove(&name).map_err(EmulatorError::system(format!("namespace {name}")))?;
        let _ = fs::remove_file(&path);
        removed.push(name);
    }
    Ok(removed)
}
