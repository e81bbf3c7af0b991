//! Options of an emulation.

use fairmesh_scenario::{Flow, Scenario, Transport};
use fairmesh_units::Span;

use crate::error::EmulatorError;
use crate::settings::{KernelCongestion, TcpSettings};

/// Options of an emulation.
#[derive(Clone, Debug)]
pub struct EmulateOptions {
    /// Seed of the radio and of the traffic.
    pub seed: u64,
    /// Interval of the curves; `None`: no curves.
    pub sample: Option<Span>,
    /// Source of the routes.
    pub routing: Routing,
    /// The kernel's congestion control for all connections; `None`: each flow its scenario's.
    pub congestion: Option<KernelCongestion>,
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
    /// Let the kernel's forwarding and processing time pass on the air, too.
    pub kernel_time: bool,
    /// Record all frames that enter the engine.
    pub log: bool,
}

impl Default for EmulateOptions {
    fn default() -> Self {
        EmulateOptions {
            seed: 1,
            sample: None,
            routing: Routing::Static,
            congestion: None,
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

impl EmulateOptions {
    /// Checks that the kernel has each flow's congestion control, unless one is named for all.
    ///
    /// # Errors
    /// [`EmulatorError::Congestion`] with the first flow that fails, or [`EmulatorError::Quic`]
    /// with the first QUIC flow.
    pub fn check_congestion(&self, scenario: &Scenario) -> Result<(), EmulatorError> {
        let quic = |f: &Flow| matches!(f.transport, Transport::Quic(_));
        if let Some(flow) = scenario.flows().iter().position(quic) {
            return Err(EmulatorError::Quic { flow });
        }
        let none = |f: &&Flow| self.congestion.or(KernelCongestion::of(f)).is_none();
        match (0..).zip(scenario.flows()).find(|(_, f)| none(f)) {
            Some((flow, Flow { transport: Transport::Tcp(tcp), .. })) => {
                Err(EmulatorError::Congestion { flow, name: tcp.congestion.name() })
            }
            _ => Ok(()),
        }
    }

    /// Returns the congestion control of this flow's connections.
    ///
    /// Reno where [`EmulateOptions::check_congestion`] fails.
    pub fn congestion_of(&self, flow: &Flow) -> KernelCongestion {
        self.congestion.or(KernelCongestion::of(flow)).unwrap_or(KernelCongestion::Reno)
    }

    /// Returns the names of the congestion controls in use, each once; "reno" if there are none.
    pub fn congestions(&self, scenario: &Scenario) -> Vec<&'static str> {
        let tcp = scenario.flows().iter().filter(|f| matches!(f.transport, Transport::Tcp(_)));
        let mut names = Vec::new();
        for name in tcp.map(|f| self.congestion_of(f).name()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if names.is_empty() {
            names.push(self.congestion.unwrap_or(KernelCongestion::Reno).name());
        }
        names
    }
}

/// Source of routes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Routing {
    /// The scenario's routes.
    Static,
    /// babeld in every namespace.
    Babeld,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flow_has_its_scenarios_unless_one_is_named() {
        let text = "duration = \"2 s\"\n[radio]\nrate = \"1 Mbit/s\"\n[topology]\nchain = { hops = 2 }\n\
            [[flow]]\nfrom = 1\nto = 0\ntraffic = \"bulk\"\ntransport = { tcp = \"cubic\" }\n\
            [[flow]]\nfrom = 2\nto = 0\ntraffic = \"bulk\"\ntransport = { tcp = \"bbr\" }\n\
            [[flow]]\nfrom = 0\nto = 2\ntraffic = \"bulk\"\n\
            [[flow]]\nfrom = 0\nto = 1\ntraffic = \"bulk\"\ntransport = { tcp = \"cubic\" }\n";
        let scenario = fairmesh_scenario::parse(
            "t.toml",
            text.as_bytes(),
            &fairmesh_scenario::ImportOptions::default(),
        )
        .unwrap();
        let own = EmulateOptions::default();
        let names: Vec<_> = scenario.flows().iter().map(|f| own.congestion_of(f).name()).collect();
        assert_eq!(names, ["cubic", "bbr", "reno", "cubic"]);
        assert_eq!(own.congestions(&scenario), ["cubic", "bbr", "reno"]);
        let one = EmulateOptions { congestion: Some(KernelCongestion::Bbr), ..own };
        assert_eq!(one.congestions(&scenario), ["bbr"]);
    }

    #[test]
    fn unknown_congestion_controls_are_refused_unless_one_is_named_for_all() {
        let text = "duration = \"2 s\"\n[radio]\nrate = \"1 Mbit/s\"\n[topology]\nchain = { hops = 2 }\n\
            [[flow]]\nfrom = 1\nto = 0\ntraffic = \"bulk\"\ntransport = { tcp = \"cubic\" }\n\
            [[flow]]\nfrom = 2\nto = 0\ntraffic = \"bulk\"\ntransport = { tcp = \"bbr3\" }\n";
        let scenario = fairmesh_scenario::parse(
            "t.toml",
            text.as_bytes(),
            &fairmesh_scenario::ImportOptions::default(),
        )
        .unwrap();
        let refused = EmulateOptions::default().check_congestion(&scenario).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "flow[1].transport.tcp: the kernel has no \"bbr3\"; expected newreno, cubic or bbr, or one of them for all"
        );
        let cubic = Some(KernelCongestion::Cubic);
        let one = EmulateOptions { congestion: cubic, ..EmulateOptions::default() };
        assert!(one.check_congestion(&scenario).is_ok());
    }

    #[test]
    fn quic_is_refused_with_any_congestion_control() {
        let text = "duration = \"2 s\"\n[radio]\nrate = \"1 Mbit/s\"\n[topology]\nchain = { hops = 2 }\n\
            [[flow]]\nfrom = 1\nto = 0\ntraffic = \"bulk\"\n\
            [[flow]]\nfrom = 2\nto = 0\ntraffic = \"bulk\"\ntransport = { quic = \"cubic\" }\n";
        let scenario = fairmesh_scenario::parse(
            "t.toml",
            text.as_bytes(),
            &fairmesh_scenario::ImportOptions::default(),
        )
        .unwrap();
        for congestion in [None, Some(KernelCongestion::Cubic)] {
            let options = EmulateOptions { congestion, ..EmulateOptions::default() };
            assert_eq!(
                options.check_congestion(&scenario).unwrap_err().to_string(),
                "flow[1].transport.quic: the kernel has no QUIC; expected tcp or udp"
            );
        }
    }
}
