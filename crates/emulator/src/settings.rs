//! Settings of the namespaces: kernel parameters, and route attributes for TCP.

use fairmesh_scenario::{Flow, Transport};
use fairmesh_transport::{Congestion, TcpConfig};
use fairmesh_units::Span;

/// A congestion control of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelCongestion {
    /// NewReno (RFC 5681, 6582).
    Reno,
    /// RFC 9438.
    Cubic,
    /// BBR of the kernel.
    Bbr,
}

impl KernelCongestion {
    /// Returns the kernel's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            KernelCongestion::Reno => "reno",
            KernelCongestion::Cubic => "cubic",
            KernelCongestion::Bbr => "bbr",
        }
    }

    /// Returns the flow's own, if the kernel has it.
    ///
    /// [`KernelCongestion::Reno`] for UDP, which has none.
    pub const fn of(flow: &Flow) -> Option<Self> {
        let Transport::Tcp(TcpConfig { congestion, .. }) = flow.transport else {
            return Some(KernelCongestion::Reno);
        };
        match congestion {
            Congestion::NewReno => Some(KernelCongestion::Reno),
            Congestion::Cubic => Some(KernelCongestion::Cubic),
            Congestion::Bbr => Some(KernelCongestion::Bbr),
            Congestion::Bbr3 | Congestion::Prague => None,
        }
    }
}

/// Settings of TCP in the namespaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpSettings {
    /// As close to the scenario's TCP as the kernel's parameters allow.
    Scenario,
    /// The kernel's defaults.
    Kernel,
}

/// Returns the kernel parameters that set a namespace's default congestion control.
pub fn congestion(name: &str) -> Vec<(&'static str, String)> {
    vec![("ipv4/tcp_congestion_control", name.to_owned())]
}

/// Returns the kernel parameters of every namespace.
///
/// Forwarding is on, and there are no redirects although packets leave through the interface by which they
/// arrived.
pub fn forwarding() -> Vec<(&'static str, String)> {
    [
        ("ipv4/ip_forward", "1"),
        ("ipv6/conf/all/forwarding", "1"),
        ("ipv4/conf/all/send_redirects", "0"),
        ("ipv4/conf/default/send_redirects", "0"),
        ("ipv4/conf/all/accept_redirects", "0"),
        ("ipv4/conf/default/accept_redirects", "0"),
        ("ipv6/conf/all/accept_redirects", "0"),
        ("ipv6/conf/default/accept_redirects", "0"),
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/conf/default/rp_filter", "0"),
    ]
    .map(|(key, value)| (key, value.to_owned()))
    .to_vec()
}

/// Returns the kernel parameters that approximate the scenario's TCP.
///
/// Disabled, because the simulator's TCP and the RFCs it follows lack them: time stamps (12 bytes
/// in every segment), RACK and tail loss probes (RFC 8985; enabled if the scenario's TCP has
/// `rack`), F-RTO (RFC 5682), duplicate SACKs and cached metrics of earlier connections. Also
/// disabled is the delay of acknowledgements by up to 1 ms while segments arrive out of order: over
/// several hops it separates them from the frames they would have collided with.
pub fn tcp(config: &TcpConfig) -> Vec<(&'static str, String)> {
    let on = |b: bool| u8::from(b).to_string();
    vec![
        ("ipv4/tcp_timestamps", "0".into()),
        ("ipv4/tcp_sack", on(config.sack)),
        ("ipv4/tcp_dsack", "0".into()),
        ("ipv4/tcp_recovery", on(config.rack)),
        ("ipv4/tcp_early_retrans", if config.rack { "3" } else { "0" }.into()),
        ("ipv4/tcp_frto", "0".into()),
        ("ipv4/tcp_ecn", on(config.ecn)),
        ("ipv4/tcp_comp_sack_nr", "0".into()),
        ("ipv4/tcp_backlog_ack_defer", "0".into()),
        ("ipv4/tcp_no_metrics_save", "1".into()),
        ("ipv4/tcp_slow_start_after_idle", on(config.idle_restart)),
    ]
}

/// Returns the route attributes that approximate the scenario's TCP.
///
/// The kernel's delayed acknowledgements are sent after 40 to 200 ms, by its own estimate; they can
/// only be disabled.
pub fn route_attributes(config: &TcpConfig) -> String {
    let mut out = format!(
        " advmss {} initcwnd {} rto_min {}ms",
        config.mss,
        config.initial_window,
        millis(config.min_rto)
    );
    if config.delayed_ack.is_none() {
        out += " quickack 1";
    }
    if let Some(segments) = config.max_window {
        out += &format!(" window {}", u64::from(segments) * u64::from(config.mss));
    }
    out
}

fn millis(span: Span) -> u64 {
    span.as_nanos().div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_detected_as_in_the_scenario() {
        let of = |config: &TcpConfig, key: &str| {
            tcp(config).into_iter().find(|s| s.0 == key).map(|s| s.1)
        };
        for (config, value) in [(TcpConfig::linux(), ["1", "3"]), (TcpConfig::rfc(), ["0", "0"])] {
            assert_eq!(of(&config, "ipv4/tcp_recovery").as_deref(), Some(value[0]));
            assert_eq!(of(&config, "ipv4/tcp_early_retrans").as_deref(), Some(value[1]));
        }
    }

    #[test]
    fn a_scenario_as_ip_route_commands() {
        assert_eq!(
            route_attributes(&TcpConfig::ns3()),
            " advmss 1460 initcwnd 2 rto_min 200ms quickack 1"
        );
        let rfc = TcpConfig { max_window: Some(10), mss: 512, ..TcpConfig::rfc() };
        assert_eq!(route_attributes(&rfc), " advmss 512 initcwnd 10 rto_min 1000ms window 5120");
    }
}
