//! TCP header data of subscribers, read with the counters.

use fairmesh_control::EventKind;
use fairmesh_control::host::Driver;
use fairmesh_units::Time;

use super::{DirectionState, Governor};
use crate::gateway::signs::Reader;

impl Governor {
    /// True if the control uses TCP's signs.
    pub fn reads_signs(&self) -> bool {
        let reads = |d: &Driver| d.needs().events.has(EventKind::PathSigns);
        self.driver.as_ref().is_some_and(reads)
    }

    /// True if the control uses echo probes.
    pub fn wants_probes(&self) -> bool {
        let wants = |d: &Driver| d.needs().events.has(EventKind::Probes);
        self.driver.as_ref().is_some_and(wants)
    }

    /// Reads the signs of all paths before a sample; `None`: headers are not read.
    ///
    /// `probe`: requests probes where headers give no round trip.
    pub fn take_signs(&mut self, now: Time, mut reader: Option<&mut Reader>, probe: bool) {
        for member in &mut self.members {
            let class = member.class.0;
            let read = reader.as_ref().and_then(|r| r.read(now, class));
            let trips = reader.as_mut().map_or([None; 2], |r| r.round_trips(class));
            let probed = reader.as_ref().map_or([None; 2], |r| r.oldest_probe(now, class));
            let oldest = [0, 1].map(|d| read.and_then(|r| r[d].oldest).max(probed[d]));
            let stalled = reader.as_mut().map_or(oldest, |r| r.stalled(now, class, oldest));
            let mut packets = [0; 2];
            for (d, state) in member.directions.iter_mut().enumerate() {
                let DirectionState { signs, meter, .. } = state;
                signs.take(now, read.map(|r| r[d]), trips[d], stalled[d]);
                packets[d] = signs.carried(meter.packets);
            }
            if let Some(reader) = reader.as_mut().filter(|_| probe) {
                reader.want_probe(now, class, packets);
            }
        }
    }

    pub(super) fn weigh_signs(&mut self) {
        for state in self.members.iter_mut().flat_map(|m| &mut m.directions) {
            let DirectionState { signs, meter, .. } = state;
            signs.weigh(meter.bytes);
        }
    }
}
