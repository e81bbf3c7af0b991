//! Interfaces and neighbours, as the drivers report them.

use fairmesh_linux::MacAddr;
use fairmesh_units::{BitRate, Span, Time};

use super::{Link, Router};
use crate::daemon::journal::Level;
use crate::gateway::config::capacity_of;
use crate::node::machine::{Carrier, Machine, Port};
use crate::node::neighbours::Announcer;
use crate::node::numbers;

/// Time for which a neighbour that a driver no longer reports is kept.
const NEIGHBOUR_TIMEOUT: Span = Span::from_secs(5);
/// Minimum packets to a neighbour between two reports for its rate to count.
///
/// Management frames have basic rates.
const MIN_RATE_PACKETS: u32 = 20;

impl<M: Machine> Router<M> {
    pub(super) fn sense(&mut self, now: Time) {
        let ports = self.rig.machine.refresh();
        self.report_ports(now, &ports);
        self.ports = ports;
        let macs: Vec<MacAddr> = self.ports.iter().filter_map(|p| p.mac).collect();
        if self.rig.numbers.announced().is_none()
            && let Some(number) =
                self.rig.config.number.or_else(|| macs.first().map(|mac| numbers::derived(*mac)))
        {
            self.rig.numbers.set_own(number);
        }
        self.neighbours.set_own(macs);
        for (at, port) in self.ports.iter().enumerate() {
            let (Some(mac), true) = (port.mac, port.talks) else { continue };
            // An address that returns must continue: receivers refuse numbers that they have seen.
            let first = self.announcers.values().map(|(_, a)| a.sent()).max().unwrap_or(0);
            let new = || (mac, Announcer::new(self.key.clone(), mac, self.run).after(first));
            let announcer = self.announcers.entry(at).or_insert_with(new);
            if announcer.0 != mac {
                *announcer = new();
            }
        }
        for interface in 0..self.ports.len() {
            for station in self.rig.machine.stations(interface) {
                self.report_station(now, interface, &station);
            }
        }
        self.links.retain(|_, link| now.since(link.seen) <= NEIGHBOUR_TIMEOUT);
        self.follow_carriers(now);
        let channel = self.rig.machine.channel(self.rig.uplink);
        self.rig.busy = channel.zip(self.channel).and_then(|(new, old)| {
            let active = new.active.as_nanos().checked_sub(old.active.as_nanos())?;
            let busy = new.busy.as_nanos().checked_sub(old.busy.as_nanos())?;
            (active > 0).then(|| (busy as f64 / active as f64).min(1.0))
        });
        self.channel = channel;
    }

    /// Sends by UDP too where a neighbour sends no action frames.
    ///
    /// It may receive none either.
    fn follow_carriers(&mut self, now: Time) {
        for (at, port) in self.ports.iter().enumerate() {
            let by_udp = |(_, l): &(&MacAddr, &Link)| {
                l.interface == at && l.carrier(now) == Some(Carrier::Udp)
            };
            let framed = port.talks && port.carrier == Carrier::ActionFrames;
            match self.links.iter().find(by_udp).filter(|_| framed) {
                None => {
                    self.also_udp.remove(&at);
                }
                Some((mac, _)) if self.also_udp.insert(at) => {
                    let name = &self.rig.config.interfaces[at];
                    self.rig.journal.note(now, Level::Warning, "carrier.mixed", || {
                        format!(
                            "{name}: {mac} sends messages by UDP; messages are sent by UDP, too, \
                             which the mesh floods"
                        )
                    });
                }
                Some(_) => {}
            }
        }
    }

    /// Reports the carrier of an interface's messages after it was chosen or has changed.
    fn report_carrier(&mut self, now: Time, name: &str, port: &Port) {
        let carrier = port.carrier.text();
        match &port.refusal {
            None => self.rig.journal.note(now, Level::Info, "carrier.chosen", || {
                format!("{name}: messages are sent by {carrier}")
            }),
            Some(why) => self.rig.journal.note(now, Level::Warning, "carrier.fallback", || {
                format!(
                    "{name}: messages are sent by {carrier}, which the mesh floods, since action frames \
                     fail: {why}"
                )
            }),
        }
    }

    fn report_ports(&mut self, now: Time, ports: &[Port]) {
        for (at, port) in ports.iter().enumerate() {
            let before = self.ports.get(at).map(|p| p.talks);
            let carrier = self.ports.get(at).filter(|p| p.talks).map(|p| p.carrier);
            let name = self.rig.config.interfaces[at].clone();
            if before != Some(port.talks) {
                self.report_port(now, name.name(), port);
            }
            if port.talks && carrier != Some(port.carrier) {
                self.report_carrier(now, name.name(), port);
            }
        }
    }

    fn report_port(&mut self, now: Time, name: &str, port: &Port) {
        match (port.talks, port.mac, port.up) {
            (true, ..) => self.rig.journal.note(now, Level::Info, "interface.up", || {
                let radio = if port.stations { "a radio" } else { "no radio" };
                let survey = if port.survey { ", with the use of its channel" } else { "" };
                format!("{name}: {radio}{survey}")
            }),
            (false, mac, up) => {
                self.rig.journal.note(now, Level::Warning, "interface.lost", || {
                    let why = match (mac, up) {
                        (None, _) => "there is no such interface",
                        (_, false) => "it is down",
                        _ => "its UDP port cannot be opened",
                    };
                    format!("{name}: {why}; waiting for it")
                });
            }
        }
    }

    fn report_station(
        &mut self,
        now: Time,
        interface: usize,
        station: &fairmesh_linux::nl80211::Station,
    ) {
        let link = self.links.entry(station.mac).or_insert_with(|| Link::new(interface, now));
        (link.interface, link.seen) = (interface, now);
        link.expected = station.expected_throughput;
        let (Some(rate), Some(packets)) = (station.tx_rate, station.tx_packets) else { return };
        let sent = link.packets.map(|before| packets.wrapping_sub(before));
        if link.rate.is_none() || sent.is_some_and(|n| n >= MIN_RATE_PACKETS) {
            link.rate = (rate.0 > 0).then_some(rate).or(link.rate);
            link.packets = Some(packets);
        }
    }

    /// Returns rate and capacity of a link; `None` if unknown.
    pub(in crate::node) fn capacity(&self, link: &Link) -> Option<(BitRate, BitRate)> {
        let config = &self.rig.config;
        let rate = link.rate.or(config.rate)?;
        // Rate control expects less where frames collide, and more where it aggregates.
        let nominal = capacity_of(rate);
        let derived = link.expected.map_or(nominal, |expected| expected.max(nominal));
        Some((rate, config.capacity.unwrap_or(derived)))
    }
}
