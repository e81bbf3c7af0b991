//! Senses and acts of this machine, by Linux.

use std::sync::Arc;

use fairmesh_control::{Channel, Leaf, Marking};
use fairmesh_linux::bpf::{FlowCount, FlowMeter, MarkRule, Marker, Spacing};
use fairmesh_linux::link::{self, Link};
use fairmesh_linux::netlink::Netlink;
use fairmesh_linux::nl80211::{Nl80211, Radio, RadioMode, Station, Survey};
use fairmesh_linux::tc::stats::Stats;
use fairmesh_linux::{
    Error, Interface, IpNet, LocalPlace, LocalShaper, MacAddr, NextHopShaper, Removed,
};
use fairmesh_units::{BitRate, Probability, Span};

use super::sockets::{Connection, OrderSocket, Sockets};
use super::{Carrier, FlowClass, HopLimit, LocalCounters, MARK_LIFETIME, Machine, Port, Wake};

/// Flows of local traffic for which a fair queue has room.
const FAIR_QUEUE_FLOWS: u32 = 16;

struct Opened {
    name: Interface,
    radio: Option<(u32, Nl80211)>,
    connection: Option<Connection>,
}

/// This machine.
pub struct Kernel {
    interfaces: Vec<Opened>,
    netlink: Option<Netlink>,
    shaper: Option<LocalShaper>,
    hops: Vec<(Interface, NextHopShaper)>,
    meter: Option<FlowMeter>,
    /// Obstacle of our programs, once it is known.
    programs: Option<Result<(), String>>,
    markers: Vec<(Interface, Marking, Marker)>,
    orders: Option<OrderSocket>,
    wake: Arc<Wake>,
}

impl Kernel {
    /// Opens nothing yet.
    pub fn new(interfaces: &[Interface], wake: Wake) -> Self {
        let opened =
            |name: &Interface| Opened { name: name.clone(), radio: None, connection: None };
        let interfaces = interfaces.iter().map(opened).collect();
        Kernel {
            interfaces,
            netlink: None,
            shaper: None,
            hops: Vec::new(),
            meter: None,
            programs: None,
            markers: Vec::new(),
            orders: None,
            wake: Arc::new(wake),
        }
    }

    /// Returns the obstacle of our programs on this kernel.
    ///
    /// # Errors
    /// The obstacle.
    pub fn programs(&mut self) -> Result<(), String> {
        let load = || Marker::load(MarkRule::default()).map(drop).map_err(|e| e.to_string());
        self.programs.get_or_insert_with(load).clone()
    }

    fn hops(&mut self, interface: &Interface) -> Result<&mut NextHopShaper, Error> {
        let found = self.hops.iter_mut().find(|(name, _)| name == interface);
        found.map(|(_, shaper)| shaper).ok_or(Error::NotInstalled)
    }

    fn find(&mut self, name: &str) -> Result<Link, Error> {
        let mut netlink = self.netlink.take().map_or_else(Netlink::open, Ok)?;
        let found = link::find(&mut netlink, name);
        self.netlink = Some(netlink);
        found
    }
}

impl Opened {
    /// Opens radio and socket of the present interface of this name.
    fn open(&mut self, link: &Link, wake: &Arc<Wake>) {
        // An interface that was created again has another index.
        if self.radio.as_ref().is_none_or(|(index, _)| *index != link.index) {
            let radio = Nl80211::open(self.name.name()).ok();
            let radio = radio.and_then(|mut r| r.mode().ok().flatten().map(|_| r));
            self.radio = radio.map(|r| (link.index, r));
        }
        let mode = self.radio.as_mut().and_then(|(_, radio)| radio.mode().ok().flatten());
        let mesh_point = mode == Some(RadioMode::MeshPoint);
        let now = (link.index, link.mac, mesh_point);
        if self.connection.as_ref().is_none_or(|c| (c.index, c.mac, c.mesh_point) != now) {
            // Closed first: a port and a kind of frames have one socket.
            self.connection = None;
            self.connection = Connection::open(self.name.name(), link, mesh_point, wake).ok();
        }
    }
}

impl Machine for Kernel {
    fn refresh(&mut self) -> Vec<Port> {
        let mut ports = Vec::new();
        for at in 0..self.interfaces.len() {
            let name = self.interfaces[at].name.clone();
            let Ok(link) = self.find(name.name()) else {
                let opened = &mut self.interfaces[at];
                (opened.radio, opened.connection) = (None, None);
                ports.push(Port::default());
                continue;
            };
            let opened = &mut self.interfaces[at];
            opened.open(&link, &self.wake);
            let radio = opened.radio.is_some();
            let sockets = opened.connection.as_ref().map(|c| &c.sockets);
            let talks = sockets.is_some() && link.up;
            let carrier = sockets.map(Sockets::carrier).unwrap_or_default();
            let refusal = sockets.and_then(|s| s.refusal.clone());
            let programs = self.programs().is_ok();
            let stations = self.stations(at);
            ports.push(Port {
                mac: link.mac,
                up: link.up,
                talks,
                carrier,
                refusal,
                stations: radio,
                survey: self.channel(at).is_some(),
                queues: radio && stations.iter().all(|s| s.queue.is_some()),
                airtime: radio && stations.iter().all(|s| s.tx_airtime_us.is_some()),
                programs,
            });
        }
        ports
    }

    fn stations(&mut self, interface: usize) -> Vec<Station> {
        let radio = self.interfaces.get_mut(interface).and_then(|i| i.radio.as_mut());
        radio.and_then(|(_, r)| r.stations().ok()).unwrap_or_default()
    }

    fn channel(&mut self, interface: usize) -> Option<Channel> {
        let (_, radio) = self.interfaces.get_mut(interface)?.radio.as_mut()?;
        radio.survey().ok()?.iter().find(|s| s.in_use).and_then(channel_of)
    }

    fn send(&mut self, interface: usize, bytes: &[u8], also_udp: bool) -> bool {
        let connection = self.interfaces.get_mut(interface).and_then(|i| i.connection.as_mut());
        connection.is_some_and(|c| c.sockets.send(bytes, also_udp))
    }

    fn read(&mut self, handle: &mut dyn FnMut(usize, Carrier, &[u8])) {
        for (at, opened) in self.interfaces.iter_mut().enumerate() {
            if let Some(connection) = &mut opened.connection {
                connection.receive(&mut |carrier, message| handle(at, carrier, message));
            }
        }
    }

    fn sent(&mut self, interface: &Interface) -> Result<LocalCounters, Error> {
        let link = self.find(interface.name())?;
        let (bytes, packets) = (link.counters.tx_bytes, link.counters.tx_packets);
        Ok(LocalCounters {
            bytes: without_headers(bytes, packets, link.header),
            packets,
            ..LocalCounters::default()
        })
    }

    fn install(&mut self, place: &LocalPlace, queue: Leaf, burst: u32) -> Result<(), Error> {
        self.shaper = None;
        let mut shaper = LocalShaper::install(place, queue.packets(), burst)?;
        if matches!(queue, Leaf::Fair { .. })
            && let Err(e) = shaper.serve_in_turn(queue.packets().saturating_mul(FAIR_QUEUE_FLOWS))
        {
            let _ = LocalShaper::remove(place);
            return Err(e);
        }
        self.shaper = Some(shaper);
        Ok(())
    }

    fn listen(&mut self, on: bool) -> Result<(), Error> {
        if !on {
            self.orders = None;
        } else if self.orders.is_none() {
            self.orders = Some(OrderSocket::open(&self.wake)?);
        }
        Ok(())
    }

    fn read_orders(&mut self, handle: &mut dyn FnMut(&[u8]) -> Option<Vec<u8>>) {
        if let Some(orders) = &mut self.orders {
            orders.receive(handle);
        }
    }

    fn set_rate(&mut self, rate: Option<BitRate>) -> Result<(), Error> {
        self.shaper.as_mut().ok_or(Error::NotInstalled)?.set_rate(rate)
    }

    fn sample(&mut self) -> Result<LocalCounters, Error> {
        let shaper = self.shaper.as_mut().ok_or(Error::NotInstalled)?;
        let stats = shaper.sample()?;
        Ok(counters(&stats, shaper.header()))
    }

    fn mark(
        &mut self,
        interfaces: &[Interface],
        to: Option<MacAddr>,
        chance: Probability,
        how: Marking,
    ) -> Result<(), Error> {
        if self.markers.iter().any(|(_, other, _)| *other != how) {
            self.markers.clear();
        }
        for interface in interfaces {
            let at = match self.markers.iter().position(|(name, ..)| name == interface) {
                Some(at) => at,
                None => {
                    let spacing = if how.even { Spacing::Even } else { Spacing::Random };
                    let mut marker = Marker::load(MarkRule { spacing, ..MarkRule::default() })?;
                    marker.attach(interface)?;
                    self.markers.push((interface.clone(), how, marker));
                    self.markers.len() - 1
                }
            };
            let marker = &mut self.markers[at].2;
            marker.verify()?;
            marker.set(to, chance, MARK_LIFETIME)?;
        }
        Ok(())
    }

    fn unmark(&mut self) {
        self.markers.clear();
    }

    fn remove(&mut self, place: &LocalPlace) -> Result<Removed, Error> {
        self.shaper = None;
        LocalShaper::remove(place)
    }

    fn install_hops(&mut self, interface: &Interface, burst: u32) -> Result<(), Error> {
        self.hops.retain(|(name, _)| name != interface);
        self.hops.push((interface.clone(), NextHopShaper::install(interface, burst)?));
        Ok(())
    }

    fn set_hops(&mut self, interface: &Interface, limits: &[HopLimit]) -> Result<(), Error> {
        self.hops(interface)?.set_rates(limits)
    }

    fn sample_hops(&mut self, interface: &Interface) -> Result<Vec<(MacAddr, u64)>, Error> {
        let mut stats = Vec::new();
        self.hops(interface)?.sample(&mut stats)?;
        Ok(stats.into_iter().map(|(mac, stats)| (mac, stats.bytes)).collect())
    }

    fn remove_hops(&mut self, interface: &Interface) -> Result<Removed, Error> {
        self.hops.retain(|(name, _)| name != interface);
        NextHopShaper::remove(interface)
    }

    fn count_flows(&mut self, interfaces: &[Interface], homes: &[IpNet]) -> Result<(), Error> {
        self.meter = None;
        if interfaces.is_empty() {
            return Ok(());
        }
        let found = |i: &Interface| self.find(i.name()).map(|link| link.index);
        let mesh = interfaces.iter().map(found).collect::<Result<Vec<_>, _>>()?;
        let mut meter = FlowMeter::load(homes, &mesh)?;
        interfaces.iter().try_for_each(|interface| meter.attach(interface))?;
        self.meter = Some(meter);
        Ok(())
    }

    fn set_flow(&mut self, class: &FlowClass) -> Result<(), Error> {
        let shaper = self.shaper.as_mut().ok_or(Error::NotInstalled)?;
        let priority = shaper.set_flow(class.number, class.rate, class.packets)?;
        let meter = self.meter.as_mut().ok_or(Error::NotInstalled)?;
        meter.assign(class.home, priority, class.marks, MARK_LIFETIME)
    }

    fn remove_flow(&mut self, class: &FlowClass) -> Result<(), Error> {
        let meter = self.meter.as_mut().ok_or(Error::NotInstalled)?;
        meter.release(class.home)?;
        self.shaper.as_mut().ok_or(Error::NotInstalled)?.remove_flow(class.number)
    }

    fn sample_flows(&mut self) -> Result<Vec<(u16, LocalCounters)>, Error> {
        let shaper = self.shaper.as_mut().ok_or(Error::NotInstalled)?;
        let header = shaper.header();
        let all = shaper.sample_flows()?;
        Ok(all.into_iter().map(|(number, stats)| (number, counters(&stats, header))).collect())
    }

    fn flows(&mut self) -> Result<Vec<FlowCount>, Error> {
        let meter = self.meter.as_mut().ok_or(Error::NotInstalled)?;
        meter.verify()?;
        meter.read()
    }
}

/// Converts the counters of a class to IP bytes.
fn counters(stats: &Stats, header: u16) -> LocalCounters {
    LocalCounters {
        bytes: without_headers(stats.bytes, stats.packets, header),
        packets: stats.packets,
        drops: stats.drops.into(),
        overlimits: stats.overlimits.into(),
        queued_packets: stats.queued_packets,
        queued_bytes: stats.queued_bytes.into(),
    }
}

fn without_headers(bytes: u64, packets: u64, header: u16) -> u64 {
    bytes.saturating_sub(packets.saturating_mul(header.into()))
}

/// Returns the counters of a channel; `None` without active and busy time.
fn channel_of(survey: &Survey) -> Option<Channel> {
    let span = |ms: u64| Span::from_millis(ms);
    Some(Channel {
        active: span(survey.active_ms?),
        busy: span(survey.busy_ms?),
        receive: span(survey.receive_ms.unwrap_or(0)),
        transmit: span(survey.transmit_ms.unwrap_or(0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_survey_without_busy_time_is_no_channel() {
        let full = Survey {
            active_ms: Some(100),
            busy_ms: Some(60),
            receive_ms: Some(40),
            ..Survey::default()
        };
        let channel = channel_of(&full).unwrap();
        assert_eq!((channel.busy, channel.transmit), (Span::from_millis(60), Span::ZERO));
        assert_eq!(channel_of(&Survey { busy_ms: None, ..full }), None);
    }

    #[test]
    fn counters_are_of_ip_bytes() {
        assert_eq!(without_headers(1014 * 10, 10, 14), 10_000);
        assert_eq!(without_headers(5, 10, 14), 0, "counters of different instants");
    }

    #[test]
    fn an_interface_that_does_not_exist_is_no_error() {
        let name = Interface::new("fm-none").unwrap();
        let mut machine = Kernel::new(std::slice::from_ref(&name), Box::new(|| true));
        assert_eq!(machine.refresh(), [Port::default()]);
        assert!(machine.stations(0).is_empty() && machine.channel(0).is_none());
        assert!(!machine.send(0, b"x", true));
        machine.read(&mut |_, _, _| panic!("nothing is open"));
        assert!(machine.sent(&name).is_err() && machine.sample().is_err());
    }
}
