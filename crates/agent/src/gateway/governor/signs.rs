//! What TCP's headers say of subscribers, taken over with the counters.

use fairmesh_control::EventKind;
use fairmesh_control::host::Driver;
use fairmesh_units::Time;

use super::{DirectionState, Governor};
use crate::gateway::signs::Reader;

impl Governor {
    /// Whether the control makes use of TCP's signs.
    pub fn reads_signs(&self) -> bool {
        let reads = |d: &Driver| d.needs().events.has(EventKind::PathSigns);
        self.driver.as_ref().is_some_and(reads)
    }

    /// Takes over what headers say, before a look at the counters; `None`: nobody reads them.
    pub fn take_signs(&mut self, now: Time, mut reader: Option<&mut Reader>) {
        for member in &mut self.members {
            let class = member.class.0;
            let read = reader.as_ref().and_then(|r| r.read(now, class));
            let trips = reader.as_mut().map_or([None; 2], |r| r.round_trips(class));
            for (d, state) in member.directions.iter_mut().enumerate() {
                state.signs.take(now, read.map(|r| r[d]), trips[d]);
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
