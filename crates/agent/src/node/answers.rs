//! Answers of a router's daemon to `status` and `why`.

use fairmesh_linux::MacAddr;
use fairmesh_units::Time;

use super::config::Config;
use super::machine::{FlowClass, Machine};
use super::neighbours::Cause;
use super::report::{
    FlowReport, InterfaceReport, LimitReport, MarkingReport, NeighbourReport, OrdersReport,
    RefusedReport, SCHEMA, ShareReport, Status, WhyReport,
};
use super::rig::{FlowClasses, HopShare, HopShares};
use super::service::Router;

impl<M: Machine> Router<M> {
    fn limit_report(&self) -> Option<LimitReport> {
        self.rig.limit.as_ref().map(|l| LimitReport {
            interface: l.place.interface.to_string(),
            bits_per_second: l.rate.map(|r| r.0),
            applied: l.applied,
        })
    }

    fn waits(&self) -> Option<String> {
        self.idle.clone().filter(|_| self.driver.is_none())
    }

    /// Returns the report of `status`.
    pub(super) fn status(&self, now: Time) -> Status {
        let config: &Config = &self.rig.config;
        let interfaces = config.interfaces.iter().enumerate().map(|(at, name)| {
            let port = self.ports.get(at).cloned().unwrap_or_default();
            InterfaceReport {
                name: name.to_string(),
                talks: port.talks,
                carrier: port.talks.then_some(port.carrier),
                also_udp: self.also_udp.contains(&at),
                refusal: port.refusal,
                stations: port.stations,
                survey: port.survey,
            }
        });
        let neighbours = self.links.iter().map(|(mac, link)| {
            let sender = self.neighbours.senders().find(|(m, _)| m == mac).map(|(_, s)| s);
            let capacity = self.capacity(link);
            NeighbourReport {
                mac: mac.to_string(),
                interface: config.interfaces[link.interface].to_string(),
                role: sender.filter(|s| s.active).map(|s| s.role),
                carrier: link.carrier(now),
                rate_bits_per_second: capacity.map(|c| c.0.0),
                capacity_bits_per_second: capacity.map(|c| c.1.0),
                messages: sender.map_or(0, |s| s.received),
                lost: sender.map_or(0, |s| s.lost),
            }
        });
        let counted = |(cause, messages): (Cause, u64)| RefusedReport {
            cause: cause.name().to_owned(),
            messages,
        };
        let orders = self.listening.then(|| OrdersReport {
            accepted: self.orders.accepted(),
            refused: self.orders.refused().filter(|(_, n)| *n > 0).map(counted).collect(),
        });
        let refused = self.neighbours.refused().filter(|(cause, n)| *n > 0 && !cause.is_normal());
        let last_refused = self.neighbours.last_refused().map(|(mac, cause)| {
            let from = mac.map_or("an unknown sender".to_owned(), |mac| mac.to_string());
            let advice = cause.advice().map(|a| format!(": {a}")).unwrap_or_default();
            format!("{} from {from}{advice}", cause.name())
        });
        Status {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: now.as_secs_f64(),
            mode: config.mode.name().to_owned(),
            routing: config.routing.name().to_owned(),
            role: config.role,
            number: self.rig.numbers.own().0,
            control: config.mechanism.to_string(),
            running: self.driver.is_some(),
            waits: self.waits(),
            interfaces: interfaces.collect(),
            channel_busy: self.rig.busy,
            neighbours: neighbours.collect(),
            limit: self.limit_report(),
            marking: self
                .rig
                .marking
                .map(|m| MarkingReport { probability: m.probability.0, applied: m.applied }),
            shares: self.share_reports(),
            flows: self.flow_reports(),
            sent_messages: self.sent_messages(),
            orders,
            refused: refused.map(counted).collect(),
            last_refused,
            events: self.rig.journal.totals().map(|(code, _, n)| (code.to_owned(), n)).collect(),
        }
    }

    fn share_reports(&self) -> Vec<ShareReport> {
        let report = |s: &HopShares| {
            let one = |(mac, hop): (&MacAddr, &HopShare)| ShareReport {
                next_hop: mac.to_string(),
                share: hop.share,
                bits_per_second: hop.rate.map(|r| r.0),
                applied: s.applied,
            };
            s.hops.iter().map(one).collect()
        };
        self.rig.shares.as_ref().map(report).unwrap_or_default()
    }

    fn flow_reports(&self) -> Vec<FlowReport> {
        let report = |f: &FlowClasses| {
            let one = |class: &FlowClass| FlowReport {
                home: std::net::Ipv4Addr::from_bits(class.home.0).to_string(),
                download: class.home.1,
                bits_per_second: class.rate.map(|r| r.0),
                applied: f.applied,
            };
            f.classes.values().map(one).collect()
        };
        self.rig.flows.as_ref().map(report).unwrap_or_default()
    }

    /// Returns the report of `why`.
    pub(super) fn why(&self, now: Time) -> WhyReport {
        WhyReport {
            schema: SCHEMA,
            control: self.rig.config.mechanism.to_string(),
            waits: self.waits(),
            limit: self.limit_report(),
            uptime_seconds: now.as_secs_f64(),
            decisions: self.rig.decisions.iter().cloned().collect(),
        }
    }
}
