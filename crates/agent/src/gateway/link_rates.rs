//! Measured rates of the links to the gateway's neighbours, by the driver's station dump.

use std::collections::BTreeSet;

use fairmesh_linux::link::{self, Link as Interface};
use fairmesh_linux::netlink::Netlink;
use fairmesh_linux::nl80211::{Nl80211, Radio, Station, Survey};
use fairmesh_linux::{Error, MacAddr};
use fairmesh_units::{BitRate, Span, Time};

use crate::gateway::config::Neighbour;

/// Interval of station dumps.
const DUMP_INTERVAL: Span = Span::from_secs(10);
/// Interval of attempts to open the radio.
const RETRY_INTERVAL: Span = Span::from_secs(300);
/// Minimum packets to a neighbour between two dumps for its rate to count.
///
/// Management frames have basic rates.
const MIN_PACKETS: u32 = 20;
/// Number of last rates of which the median counts.
const MEDIAN_SAMPLES: usize = 9;

/// Opens the radio of an interface.
pub type OpenRadio = Box<dyn FnMut(&str) -> Result<Box<dyn Radio>, Error>>;

/// Returns an interface with its ports and their ports.
///
/// Examples are a bridge under batman-adv, and the radios in it.
pub(super) fn with_ports<'a>(links: &'a [Interface], name: &str) -> Vec<&'a Interface> {
    let mut inside: BTreeSet<u32> =
        links.iter().filter(|l| l.name == name).map(|l| l.index).collect();
    for _ in 0..2 {
        let ports = links.iter().filter(|l| l.controller.is_some_and(|c| inside.contains(&c)));
        let ports: Vec<u32> = ports.map(|l| l.index).collect();
        inside.extend(ports);
    }
    links.iter().filter(|l| inside.contains(&l.index)).collect()
}

/// All radios of an interface and its ports.
struct Radios(Vec<Box<dyn Radio>>);

impl Radios {
    fn of_kernel(name: &str) -> Result<Radios, Error> {
        let links = link::all(&mut Netlink::open()?)?;
        let names = with_ports(&links, name).into_iter().map(|l| l.name.as_str());
        let mut open: OpenRadio = Box::new(|name| Ok(Box::new(Nl80211::open(name)?)));
        Radios::open(names, &mut open)
    }

    /// Opens those interfaces that have a station dump; fails if none has.
    fn open<'a>(
        names: impl Iterator<Item = &'a str>,
        open: &mut OpenRadio,
    ) -> Result<Radios, Error> {
        let mut failed = Error::NoInterface("a radio".to_owned());
        let mut radios = Vec::new();
        for name in names {
            match open(name).and_then(|mut radio| radio.stations().map(|_| radio)) {
                Ok(radio) => radios.push(radio),
                Err(e) => failed = e,
            }
        }
        if radios.is_empty() { Err(failed) } else { Ok(Radios(radios)) }
    }
}

impl Radio for Radios {
    fn survey(&mut self) -> Result<Vec<Survey>, Error> {
        self.0.first_mut().map_or_else(|| Ok(Vec::new()), |radio| radio.survey())
    }

    fn stations(&mut self) -> Result<Vec<Station>, Error> {
        let mut all = Vec::new();
        for radio in &mut self.0 {
            all.extend(radio.stations()?);
        }
        Ok(all)
    }
}

/// A station that the configuration names.
#[derive(Debug)]
struct Link {
    mac: MacAddr,
    /// Packets sent to it at the last dump.
    packets: Option<u32>,
    /// Last rates at which the driver sent to it, the latest last.
    rates: Vec<BitRate>,
}

/// Reader of the rates at which the driver sends to the neighbours.
pub struct LinkRates {
    open: OpenRadio,
    radio: Option<Box<dyn Radio>>,
    due: Time,
    links: Vec<Link>,
}

impl LinkRates {
    /// Returns a reader that opens radios by `open`.
    pub fn new(open: OpenRadio) -> Self {
        LinkRates { open, radio: None, due: Time::ZERO, links: Vec::new() }
    }

    /// Returns a reader of this machine's radios: the interface, and those below it.
    pub fn of_kernel() -> Self {
        Self::new(Box::new(|name| Ok(Box::new(Radios::of_kernel(name)?) as Box<dyn Radio>)))
    }

    /// Reads the stations when due; returns each neighbour's median rate, `None` if unknown.
    ///
    /// Returns nothing while no dump is due, without neighbours that have a MAC address, and where the driver has no
    /// station dump.
    pub fn look(
        &mut self,
        now: Time,
        interface: &str,
        neighbours: &[Neighbour],
    ) -> Option<Vec<Option<BitRate>>> {
        if now < self.due || neighbours.iter().all(|n| n.mac.is_none()) {
            return None;
        }
        self.due = now + DUMP_INTERVAL;
        if self.radio.is_none() {
            self.radio = (self.open)(interface).ok();
        }
        let stations = self.radio.as_mut().and_then(|radio| radio.stations().ok());
        let Some(stations) = stations else {
            (self.radio, self.due) = (None, now + RETRY_INTERVAL);
            return None;
        };
        for station in stations {
            let named = neighbours.iter().any(|n| n.mac == Some(station.mac));
            let (true, Some(rate), Some(packets)) = (named, station.tx_rate, station.tx_packets)
            else {
                continue;
            };
            let at = self.links.iter().position(|l| l.mac == station.mac).unwrap_or_else(|| {
                self.links.push(Link { mac: station.mac, packets: None, rates: Vec::new() });
                self.links.len() - 1
            });
            let link = &mut self.links[at];
            let before = link.packets.replace(packets);
            if rate.0 > 0 && before.is_some_and(|b| packets.wrapping_sub(b) >= MIN_PACKETS) {
                link.rates.push(rate);
                let old = link.rates.len().saturating_sub(MEDIAN_SAMPLES);
                link.rates.drain(..old);
            }
        }
        let median = |n: &Neighbour| {
            let link = self.links.iter().find(|l| n.mac == Some(l.mac))?;
            let mut rates = link.rates.clone();
            rates.sort_unstable();
            (rates.len() > MEDIAN_SAMPLES / 2).then(|| rates[rates.len() / 2])
        };
        Some(neighbours.iter().map(median).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use fairmesh_linux::nl80211::{Station, Survey};

    use super::*;

    type Shared = Rc<RefCell<Vec<Station>>>;

    struct Fake(Shared);

    impl Radio for Fake {
        fn survey(&mut self) -> Result<Vec<Survey>, Error> {
            Ok(Vec::new())
        }
        fn stations(&mut self) -> Result<Vec<Station>, Error> {
            Ok(self.0.borrow().clone())
        }
    }

    fn station(last: u8, packets: u32, mbit: u64) -> Station {
        Station {
            tx_packets: Some(packets),
            tx_rate: Some(BitRate(mbit * 1_000_000)),
            ..Station::new(MacAddr([2, 0, 0, 0, 0, last]))
        }
    }

    #[test]
    fn a_rate_is_the_median_of_dumps_with_traffic() {
        let all = Shared::default();
        let there = Rc::clone(&all);
        let open: OpenRadio = Box::new(move |_| Ok(Box::new(Fake(Rc::clone(&there)))));
        let mut rates = LinkRates::new(open);
        let named = |mac| Neighbour {
            name: "n".into(),
            rate: BitRate(54_000_000),
            capacity: BitRate(20_000_000),
            mac,
        };
        let neighbours = [named(Some(MacAddr([2, 0, 0, 0, 0, 1]))), named(None)];
        let mut at = |second: u64, packets: u32, mbit: u64| {
            *all.borrow_mut() = vec![station(1, packets, mbit), station(9, packets, 1)];
            rates.look(Time::ZERO + Span::from_secs(second), "m", &neighbours)
        };
        // The first dump has nothing to compare with, and an idle link shows the rate of management frames.
        assert_eq!(at(0, 0, 6), Some(vec![None, None]));
        assert_eq!(at(5, 100, 6), None, "not due");
        for n in 1..5 {
            assert_eq!(at(10 * n, 5 * n as u32, 1), Some(vec![None, None]));
        }
        let seen: Vec<_> = [24, 24, 54, 12, 24, 24].into_iter().zip(5..).collect();
        let last = seen.iter().map(|&(mbit, n)| at(10 * n, 1000 * n as u32, mbit)).last().unwrap();
        assert_eq!(last, Some(vec![Some(BitRate(24_000_000)), None]));
        assert_eq!(at(300, 10_010, 1), last, "10 packets are too few");
    }

    /// A mesh interface of batman-adv has no stations; its ports have.
    #[test]
    fn stations_of_all_ports_count() {
        let link = |index, name: &str, controller| Interface {
            index,
            name: name.into(),
            kind: None,
            mac: None,
            header: 14,
            maps_priorities: false,
            up: true,
            mtu: 1500,
            controller,
            counters: Default::default(),
        };
        let links = [
            link(1, "lo", None),
            link(2, "bat0", None),
            link(3, "br0", Some(2)),
            link(4, "wlan0", Some(3)),
            link(5, "wlan1", Some(2)),
            link(6, "wlan2", None),
        ];
        let names: Vec<_> = with_ports(&links, "bat0").iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names, ["bat0", "br0", "wlan0", "wlan1"]);
        let mut open: OpenRadio = Box::new(|name| match name.strip_prefix("wlan") {
            Some(n) => {
                let stations = vec![station(n.parse().unwrap(), 100, 54)];
                Ok(Box::new(Fake(Rc::new(RefCell::new(stations)))) as Box<dyn Radio>)
            }
            None => Err(Error::NoInterface(name.into())),
        });
        let mut radios = Radios::open(names.into_iter(), &mut open).unwrap();
        let macs: Vec<u8> = radios.stations().unwrap().iter().map(|s| s.mac.0[5]).collect();
        assert_eq!(macs, [0, 1]);
        assert!(Radios::open(["lo", "br0"].into_iter(), &mut open).is_err());
    }

    #[test]
    fn a_radio_without_dumps_is_tried_again_later() {
        let tries = Rc::new(RefCell::new(0));
        let count = Rc::clone(&tries);
        let open: OpenRadio = Box::new(move |_| {
            *count.borrow_mut() += 1;
            Err(Error::NoInterface("m".into()))
        });
        let mut rates = LinkRates::new(open);
        let mac = Some(MacAddr([2, 0, 0, 0, 0, 1]));
        let n = Neighbour { name: "n".into(), rate: BitRate(1), capacity: BitRate(1), mac };
        let mut at = |second: u64| {
            let now = Time::ZERO + Span::from_secs(second);
            assert_eq!(rates.look(now, "m", core::slice::from_ref(&n)), None);
            *tries.borrow()
        };
        assert_eq!([at(0), at(10), at(299), at(300)], [1, 1, 1, 2]);
    }
}
