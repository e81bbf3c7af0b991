//! How to emulate.

use fairmesh_units::Span;

use crate::settings::{KernelCongestion, TcpSettings};

/// How to emulate.
#[derive(Clone, Debug)]
pub struct EmulateOptions {
    /// Seed of the radio and of the traffic.
    pub seed: u64,
    /// Interval of the curves; `None`: no curves.
    pub sample: Option<Span>,
    /// Who finds the ways.
    pub routing: Routing,
    /// The kernel's congestion control.
    pub congestion: KernelCongestion,
    /// The kernel's TCP.
    pub tcp: TcpSettings,
    /// Resolve hardware addresses over the air.
    pub arp: bool,
    /// Run the scenario's traffic.
    pub traffic: bool,
    /// Commands to start at time zero: node, command line.
    pub exec: Vec<(String, String)>,
    /// A shell at this node; the run ends when it does.
    pub shell: Option<String>,
    /// Let the time that the kernel takes to forward or answer a frame pass on the air, too.
    pub kernel_time: bool,
    /// Keep everything that enters the engine.
    pub log: bool,
}

impl Default for EmulateOptions {
    fn default() -> Self {
        EmulateOptions {
            seed: 1,
            sample: None,
            routing: Routing::Static,
            congestion: KernelCongestion::Reno,
            tcp: TcpSettings::Scenario,
            arp: false,
            traffic: true,
            exec: Vec::new(),
            shell: None,
            kernel_time: false,
            log: false,
        }
    }
}

/// Who finds the ways.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Routing {
    /// The scenario's routes.
    Static,
    /// babeld in every namespace.
    Babeld,
}
