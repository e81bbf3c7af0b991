//! The medium: frames of all stations, and the radio that carries them.

use std::collections::BTreeMap;

use fairmesh_phy::Rate;
use fairmesh_scenario::Scenario;
use fairmesh_units::{NodeId, Power, Span, Time};
use fairmesh_wifi::{
    Access, Adaptation, Air, AttemptRate, Batch, ChannelTime, LinkId, MacConfig, MacCounters,
    Outcome, Outgoing, SendReport, Upper,
};
use thiserror::Error;

use crate::agreements::Agreements;
use crate::beacons::Beacons;
use crate::frame::{Address, Frame};
use crate::rates::{RateChoice, RateTable, UnknownRate};
use crate::station::{Station, StationCounters};

/// Bytes of an MPDU that the radio adds to a packet: header and FCS.
const MPDU_OVERHEAD: u32 = fairmesh_phy::frame::DATA_OVERHEAD;
const QOS_OVERHEAD: u32 = fairmesh_phy::frame::QOS_OVERHEAD;
/// Signal of a frame with unknown power, dBm.
const USUAL_SIGNAL: i32 = -60;

/// The side that sends and receives the frames.
pub trait Kernel {
    /// Handles a frame that arrived at station `to`.
    fn deliver(&mut self, now: Time, to: NodeId, frame: &Frame, reception: &Reception);

    /// Handles the transmit status of a frame of station `from`.
    fn report(&mut self, now: Time, from: NodeId, frame: &Frame, status: &Status);
}

/// Circumstances of a reception.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reception {
    /// Legacy rate index (hwsim has no other for receptions).
    pub rate_index: u32,
    /// Signal, dBm.
    pub signal: i32,
    /// Medium time of the frame that carried it; zero for all but the first MPDU of an A-MPDU.
    pub airtime: Span,
}

/// Transmit status of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// True if the receiver acknowledged it.
    pub acked: bool,
    /// Attempts by entry of the frame's series.
    pub attempts: [u8; 4],
    /// Medium time of its frames and of the responses to them.
    pub airtime: Span,
    /// Signal of the response, dBm.
    pub signal: i32,
}

/// Reason for which a scenario has no medium, or a frame ends the run.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum MediumError {
    /// No station has a radio.
    #[error("no node has a radio; expected at least two")]
    NoRadio,
    /// Radios with different settings.
    #[error("radios have different settings; expected one [radio] table for all nodes")]
    SeveralRadios,
    /// 802.11ax: rate control of the driver, which hwsim does not report.
    #[error("802.11ax has no rate indices in mac80211_hwsim; expected phy a, b, g, n or ac")]
    NoIndices,
    /// Too many modes for a rate table.
    #[error("the radio has more than 200 modes; expected a narrower channel or fewer streams")]
    Modes,
    /// A frame at a rate that the PHY lacks.
    #[error(
        "{station} sends at {rate}, a rate that the scenario's radio lacks; expected the channel \
         type of its phy (NOHT for a, b and g; HT20 at 2.4 GHz for n)"
    )]
    Rate {
        /// The station's name.
        station: String,
        /// The rate.
        rate: UnknownRate,
    },
}

/// A frame that the medium holds.
#[derive(Clone, Debug)]
struct HeldFrame {
    frame: Frame,
    from: u32,
    /// Receiving station of a frame that is acknowledged.
    link: Option<(LinkId, u32)>,
    /// Rates and attempts, in order; an entry without attempts ends the series.
    series: [(Rate, u8); 4],
    /// True when the sender has its status.
    reported: bool,
    /// True when no further station will receive the frame.
    passed: bool,
}

/// Frames and stations: the layer above the radio.
struct Frames {
    held: Vec<Option<HeldFrame>>,
    free: Vec<u32>,
    stations: Vec<Station>,
    agreements: Agreements,
    /// Signal by link, dBm: (from, to).
    signals: BTreeMap<(u32, u32), i32>,
    rates: RateTable,
    /// Bytes that the radio adds to a unicast frame.
    overhead: u32,
    by_category: bool,
    /// True if frames for other stations are passed on, for monitor interfaces.
    overhear: bool,
    /// Airtime of the frame in reception, until its first MPDU is passed on.
    arriving: Span,
}

/// The radio of a scenario as the medium of real 802.11 stacks.
pub struct Medium {
    air: Air,
    frames: Frames,
    beacons: Beacons,
    names: Vec<String>,
    /// The scenario's rate by link, if it replaces the kernel's for data frames.
    fixed: Option<BTreeMap<(u32, u32), Rate>>,
    links: BTreeMap<(u32, u32), LinkId>,
    /// Stations by the addresses with which they transmit.
    addresses: BTreeMap<Address, u32>,
    now: Time,
}

impl Medium {
    /// Builds the medium of a scenario, idle at time zero.
    ///
    /// The stations are the scenario's nodes with a radio, in order. Flows, queues, routes and controls are not
    /// used: they are the kernel's.
    ///
    /// # Errors
    /// Returns an error if no node has a radio, or radios differ, or the PHY is 802.11ax.
    pub fn new(scenario: &Scenario, seed: u64) -> Result<Self, MediumError> {
        let stations = scenario.wireless().count();
        if stations == 0 {
            return Err(MediumError::NoRadio);
        }
        if scenario.wireless().any(|n| scenario.medium_of(n) != 0) {
            return Err(MediumError::SeveralRadios);
        }
        // The kernel's frames have their LLC header, and it chooses among all modes.
        let phy = scenario.mac().phy.clone().with_all_modes().map_err(|_| MediumError::Modes)?;
        let mac = MacConfig {
            rate: phy.highest(),
            phy,
            llc_bytes: 0,
            adaptation: Adaptation::Fixed,
            ..scenario.mac().clone()
        };
        let modern = mac.phy.as_modern();
        if modern.is_some_and(|m| m.generation == fairmesh_phy::mcs::Generation::He) {
            return Err(MediumError::NoIndices);
        }
        let aggregates = modern.is_some();
        let air = scenario.air(&mac, 0, seed);
        let mut links = BTreeMap::new();
        let mut signals = BTreeMap::new();
        for l in scenario.links() {
            if let Some(link) = air.link(l.from, l.to) {
                links.insert((l.from.0, l.to.0), link);
                signals.insert((l.from.0, l.to.0), dbm(scenario.signal_of(l)));
            }
        }
        Ok(Medium {
            frames: Frames {
                held: Vec::new(),
                free: Vec::new(),
                stations: vec![Station::default(); stations],
                agreements: Agreements::default(),
                signals,
                rates: RateTable::new(&mac.phy),
                overhead: if aggregates { QOS_OVERHEAD } else { MPDU_OVERHEAD },
                by_category: aggregates && scenario.has_access_categories(),
                overhear: false,
                arriving: Span::ZERO,
            },
            beacons: Beacons::default(),
            fixed: None,
            names: scenario.wireless().map(|n| scenario.nodes()[n.index()].name.clone()).collect(),
            links,
            addresses: BTreeMap::new(),
            air,
            now: Time::ZERO,
        })
    }

    /// Passes frames for other stations on too, for monitor interfaces.
    #[must_use]
    pub fn with_overhearing(mut self) -> Self {
        self.frames.overhear = true;
        self
    }

    /// Sends data frames at the scenario's rates instead of the kernel's.
    ///
    /// The retry limit is the scenario's, too.
    /// For comparisons with simulated runs of fixed rates; the kernel's rate control then learns nothing true.
    #[must_use]
    pub fn with_scenario_rates(mut self, scenario: &Scenario) -> Self {
        let own = |rate: Rate| {
            let info = scenario.mac().phy.info(rate);
            self.air.phy().rates().find(|r| self.air.phy().info(*r).waveform == info.waveform)
        };
        let usual = scenario.mac().rate;
        let rates = scenario
            .links()
            .iter()
            .filter_map(|l| Some(((l.from.0, l.to.0), own(l.rate.unwrap_or(usual))?)));
        self.fixed = Some(rates.collect());
        self
    }

    /// Returns the stations' names.
    pub fn stations(&self) -> &[String] {
        &self.names
    }

    /// Takes note of an address of a station, by which others send to it.
    ///
    /// Addresses are also learned from the frames that a station sends.
    pub fn learn(&mut self, address: Address, station: NodeId) {
        if station.index() < self.names.len() && address[0] & 1 == 0 {
            self.addresses.insert(address, station.0);
        }
    }

    /// Takes a frame of a station. Invalid ones are counted and lost.
    ///
    /// `at` must be neither before the last event nor after the next.
    ///
    /// # Errors
    /// Returns [`MediumError::Rate`] if the sender uses a rate that the PHY lacks.
    pub fn transmit(
        &mut self,
        at: Time,
        station: NodeId,
        frame: Frame,
        kernel: &mut impl Kernel,
    ) -> Result<(), MediumError> {
        self.now = self.now.max(at);
        let Some(s) = self.frames.stations.get_mut(station.index()) else { return Ok(()) };
        if !frame.is_whole() {
            s.counters.invalid += 1;
            return Ok(());
        }
        let c = &mut s.counters;
        *(if frame.is_data() { &mut c.data } else { &mut c.management }) += 1;
        c.bytes += u64::from(frame.length());
        c.in_flight += 1;
        c.most_in_flight = c.most_in_flight.max(c.in_flight);
        self.learn(frame.transmitter(), station);
        let to = match frame.is_for_group() || frame.no_ack {
            true => None,
            false => self.addresses.get(&frame.receiver()).copied(),
        };
        let link = to.and_then(|to| Some((*self.links.get(&(station.0, to))?, to)));
        let series = match (&self.fixed, link) {
            (Some(fixed), Some((_, to))) if frame.is_data() => {
                let rate = fixed.get(&(station.0, to)).copied().unwrap_or_default();
                let attempts = self.air.phy().timing().short_retry_limit.min(255) as u8;
                let mut series = [(rate, 0); 4];
                series[0].1 = attempts;
                series
            }
            _ => self.series(station, &frame)?,
        };
        let beacon = frame.is_beacon();
        let held =
            HeldFrame { frame, from: station.0, link, series, reported: false, passed: false };
        let handle = self.frames.insert(held);
        if beacon {
            self.beacons.hold(at, station.0, handle);
        } else {
            self.queue(at, station, handle, kernel);
        }
        Ok(())
    }

    fn queue(&mut self, at: Time, station: NodeId, frame: u32, kernel: &mut impl Kernel) {
        let access = self.frames.access(frame);
        self.frames.stations[station.index()].queues[access.index()].push_back(frame);
        self.air.kick(at, station, &mut UpperLayer { frames: &mut self.frames, kernel });
    }

    /// Returns the rates of a frame's series.
    fn series(&self, station: NodeId, frame: &Frame) -> Result<[(Rate, u8); 4], MediumError> {
        let mut series = [(Rate::default(), 0); 4];
        for (entry, choice) in series.iter_mut().zip(&frame.series) {
            if choice.index < 0 || choice.attempts == 0 {
                break;
            }
            let rate = self.frames.rates.rate(*choice, frame.frequency);
            let name = || self.names[station.index()].clone();
            let rate = rate.map_err(|rate| MediumError::Rate { station: name(), rate })?;
            *entry = (rate, choice.attempts);
        }
        if series[0].1 == 0 {
            series[0] = (self.air.phy().lowest_basic(), 1);
        }
        Ok(series)
    }

    /// Returns the instant of the next event; [`Time::NEVER`] if there is none.
    pub fn next_deadline(&mut self) -> Time {
        self.air.next_deadline().min(self.beacons.next_deadline())
    }

    /// Processes the next event and returns its instant.
    pub fn step(&mut self, kernel: &mut impl Kernel) -> Time {
        let (radio, beacon) = (self.air.next_deadline(), self.beacons.next_deadline());
        let at = radio.min(beacon);
        if at == Time::NEVER {
            return at;
        }
        self.now = self.now.max(at);
        if beacon < radio {
            if let Some((station, frame)) = self.beacons.take(at) {
                self.queue(at, NodeId(station), frame, kernel);
            }
        } else {
            self.air.step(&mut UpperLayer { frames: &mut self.frames, kernel });
        }
        at
    }

    /// Returns the instant of the latest event or frame.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the counters of a station.
    pub fn counters(&self, station: NodeId) -> &StationCounters {
        &self.frames.stations[station.index()].counters
    }

    /// Returns the MAC counters of a station.
    pub fn mac_counters(&self, station: NodeId) -> &MacCounters {
        self.air.counters(station)
    }

    /// Returns a station's time until `now` by channel state, as a survey reports it.
    pub fn channel_time(&self, now: Time, station: NodeId) -> ChannelTime {
        self.air.channel_time(now, station)
    }

    /// Returns the number of transmissions so far.
    pub fn transmissions(&self) -> u64 {
        self.air.transmissions()
    }

    /// Returns a hash of every transmission so far.
    pub fn fingerprint(&self) -> u64 {
        self.air.fingerprint()
    }

    /// Ends the block acknowledgement agreements of a station that was restarted.
    pub fn restarted(&mut self, station: NodeId) {
        self.frames.agreements.forget(station.0);
    }
}

impl Frames {
    fn insert(&mut self, held: HeldFrame) -> u32 {
        if let Some(at) = self.free.pop() {
            self.held[at as usize] = Some(held);
            return at;
        }
        self.held.push(Some(held));
        self.held.len() as u32 - 1
    }

    fn get(&self, handle: u32) -> Option<&HeldFrame> {
        self.held.get(handle as usize)?.as_ref()
    }

    /// Frees a frame that has its status and that no further station will receive.
    fn release(&mut self, handle: u32) {
        let Some(slot) = self.held.get_mut(handle as usize) else { return };
        if slot.as_ref().is_some_and(|h| h.reported && h.passed) {
            *slot = None;
            self.free.push(handle);
        }
    }

    /// Returns the access category in which a frame waits.
    fn access(&self, handle: u32) -> Access {
        match self.get(handle) {
            Some(h) if self.by_category => {
                // Management frames have the highest category (IEEE 802.11-2020 §10.2.3.2).
                let priority = if h.frame.is_data() { h.frame.tid().unwrap_or(0) } else { 7 };
                Access::of_user_priority(priority)
            }
            _ => Access::BestEffort,
        }
    }

    fn outgoing(&self, handle: u32) -> Outgoing {
        let Some(h) = self.get(handle) else {
            return Outgoing { packet: handle, link: None, bytes: 1 };
        };
        let link = h.link.map(|l| l.0);
        let overhead = if link.is_some() { self.overhead } else { MPDU_OVERHEAD };
        let bytes = h.frame.length().saturating_sub(overhead).max(1);
        Outgoing { packet: handle, link, bytes }
    }

    /// Returns true if a frame may join an A-MPDU with frames of the same link.
    fn aggregates(&self, handle: u32, first: u8) -> bool {
        let Some(h) = self.get(handle) else { return false };
        let (Some(tid), Some((_, to))) = (h.frame.tid(), h.link) else { return false };
        tid == first && self.agreements.allow(h.from, to, tid)
    }
}

/// The layer above the radio during one call.
struct UpperLayer<'a, K> {
    frames: &'a mut Frames,
    kernel: &'a mut K,
}

impl<K: Kernel> UpperLayer<'_, K> {
    fn pass(&mut self, now: Time, to: NodeId, from: NodeId, handle: u32, airtime: Span) {
        let frames = &mut *self.frames;
        let Some(held) = frames.held.get(handle as usize).and_then(Option::as_ref) else { return };
        let frame = &held.frame;
        let reception = Reception {
            rate_index: frames.rates.legacy_index(frame.series[0], frame.frequency),
            signal: frames.signals.get(&(from.0, to.0)).copied().unwrap_or(USUAL_SIGNAL),
            airtime,
        };
        frames.stations[to.index()].counters.received += 1;
        self.kernel.deliver(now, to, frame, &reception);
    }
}

impl<K: Kernel> Upper for UpperLayer<'_, K> {
    const OVERHEAR: bool = true;
    const RATE_SERIES: bool = true;

    fn attempt_rate(&mut self, packet: u32, attempt: u32) -> AttemptRate {
        let Some(h) = self.frames.get(packet) else { return AttemptRate::default() };
        let used = h.series.iter().take_while(|(_, attempts)| *attempts > 0);
        let mut end = 0;
        let mut found = None;
        let mut slowest = h.series[0].0;
        for &(rate, attempts) in used {
            end += u32::from(attempts);
            slowest = rate;
            if attempt < end && found.is_none() {
                found = Some(rate);
            }
        }
        AttemptRate { rate: found.unwrap_or(slowest), last: attempt + 1 >= end }
    }

    fn pull(&mut self, _now: Time, node: NodeId, access: Access) -> Option<Outgoing> {
        let frames = &mut *self.frames;
        let handle = frames.stations[node.index()].queues[access.index()].pop_front()?;
        let tid = frames.get(handle).and_then(|h| h.frame.tid());
        let serving = tid.filter(|tid| frames.aggregates(handle, *tid));
        frames.stations[node.index()].serving[access.index()] = serving;
        Some(frames.outgoing(handle))
    }

    fn pull_more(
        &mut self,
        _now: Time,
        node: NodeId,
        link: LinkId,
        access: Access,
        batch: &mut Batch<'_>,
    ) {
        // In queue order up to the first frame for this link that does not join: order per TID is kept.
        let station = &self.frames.stations[node.index()];
        let (queue, serving) = (&station.queues[access.index()], station.serving[access.index()]);
        let Some(tid) = serving else { return };
        let mut chosen = Vec::new();
        for (at, &handle) in queue.iter().enumerate() {
            let outgoing = self.frames.outgoing(handle);
            if outgoing.link != Some(link) {
                continue;
            }
            if !self.frames.aggregates(handle, tid) || !batch.fits(outgoing.bytes) {
                break;
            }
            batch.take(outgoing);
            chosen.push(at);
        }
        let queue = &mut self.frames.stations[node.index()].queues[access.index()];
        for at in chosen.into_iter().rev() {
            queue.remove(at);
        }
    }

    fn arriving(&mut self, _: Time, _: NodeId, _: NodeId, airtime: Span, _: Access) {
        self.frames.arriving = airtime;
    }

    fn received(&mut self, now: Time, node: NodeId, from: NodeId, packet: u32, broadcast: bool) {
        let airtime = core::mem::take(&mut self.frames.arriving);
        let change = self.frames.get(packet).and_then(|h| h.frame.agreement());
        if let Some(change) = change {
            self.frames.agreements.on(from.0, node.0, change);
        }
        self.pass(now, node, from, packet, airtime);
        if !broadcast {
            if let Some(Some(h)) = self.frames.held.get_mut(packet as usize) {
                h.passed = true;
            }
            self.frames.release(packet);
        }
    }

    fn overheard(&mut self, now: Time, node: NodeId, from: NodeId, packet: u32) {
        if self.frames.overhear {
            self.pass(now, node, from, packet, Span::ZERO);
        }
    }

    fn sent(&mut self, now: Time, node: NodeId, report: &SendReport, _: Access) {
        let handle = report.packet.packet;
        let frames = &mut *self.frames;
        let Some(held) = frames.held.get_mut(handle as usize).and_then(Option::as_mut) else {
            return;
        };
        // A frame without a receiver in reach goes out once and is not acknowledged.
        let acked =
            report.outcome == Outcome::Sent && (held.link.is_some() || held.frame.is_for_group());
        held.reported = true;
        held.passed |= held.link.is_none() || report.outcome == Outcome::Lost;
        let signal = held.link.and_then(|(_, to)| frames.signals.get(&(to, node.0)));
        let status = Status {
            acked,
            attempts: by_entry(&held.frame.series, report.data_attempts),
            airtime: report.airtime,
            signal: signal.copied().unwrap_or(USUAL_SIGNAL),
        };
        let c = &mut frames.stations[node.index()].counters;
        c.in_flight -= 1;
        *(if acked { &mut c.delivered } else { &mut c.lost }) += 1;
        self.kernel.report(now, node, &held.frame, &status);
        frames.release(handle);
    }
}

/// Returns the attempts of the entries of a series, up to its end.
fn attempts_of(series: &[RateChoice; 4]) -> impl Iterator<Item = u8> + '_ {
    series.iter().take_while(|c| c.index >= 0 && c.attempts > 0).map(|c| c.attempts)
}

/// Distributes attempts over the entries of a series.
///
/// Those beyond its end count for the last entry.
fn by_entry(series: &[RateChoice; 4], attempts: u32) -> [u8; 4] {
    let mut left = attempts.max(1);
    let mut by = [0; 4];
    let mut last = 0;
    for (at, most) in attempts_of(series).enumerate() {
        let here = left.min(u32::from(most));
        by[at] = here as u8;
        left -= here;
        last = if here > 0 { at } else { last };
    }
    by[last] = by[last].saturating_add(left.min(255) as u8);
    by
}

fn dbm(power: Power) -> i32 {
    libm::round(power.as_dbm()).clamp(-110.0, 0.0) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rates::RateFlags;

    fn series(entries: &[(i8, u8)]) -> [RateChoice; 4] {
        let mut series = [RateChoice { index: -1, attempts: 0, flags: RateFlags::default() }; 4];
        for (choice, &(index, attempts)) in series.iter_mut().zip(entries) {
            (choice.index, choice.attempts) = (index, attempts);
        }
        series
    }

    #[test]
    fn attempts_fill_the_series_in_order() {
        let s = series(&[(7, 2), (4, 3)]);
        assert_eq!(by_entry(&s, 1), [1, 0, 0, 0]);
        assert_eq!(by_entry(&s, 4), [2, 2, 0, 0]);
        assert_eq!(by_entry(&s, 5), [2, 3, 0, 0]);
        assert_eq!(by_entry(&s, 9), [2, 7, 0, 0]);
        assert_eq!(by_entry(&s, 0), [1, 0, 0, 0]);
    }
}
