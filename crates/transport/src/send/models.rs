//! Reports to a model of the path.

use fairmesh_units::Time;

use super::Sender;
use crate::congestion::window::Progress;

impl Sender {
    /// Reports an ACK to the model of the path.
    #[inline]
    pub(super) fn model(&mut self, now: Time, acked: u64, limited: bool, full: bool) {
        if self.control.is_model() {
            self.notify_model(now, acked, limited, full);
        }
    }

    /// Reports detected losses to the model.
    #[cold]
    pub(super) fn report_losses(&mut self, now: Time) {
        let delivered = self.delivery.as_ref().map_or(0, |d| d.total());
        let Some(model) = self.control.as_model() else { return };
        for loss in self.board.take_losses() {
            model.on_lost(now, &mut self.window, &loss, delivered);
        }
    }

    #[cold]
    fn notify_model(&mut self, now: Time, acked: u64, limited: bool, full: bool) {
        self.report_losses(now);
        let in_flight = self.in_flight();
        let starved = self.unsent() == 0 && in_flight < self.window.cwnd;
        let (srtt, una, next, rtt) = (self.rto.srtt(), self.una, self.next, self.sampled);
        let (Some(sample), Some(model)) = (self.rate.take(), self.control.as_model()) else {
            return;
        };
        let by_bytes = false;
        let p = Progress { now, acked, srtt, limited, rtt, una, next, in_flight, full, by_bytes };
        model.on_ack(&mut self.window, &p, sample);
        self.pacing.set_rate(model.pacing_rate(), model.quantum(self.window.mss));
        if let (true, Some(d)) = (starved || model.hides_samples(), &mut self.delivery) {
            d.starved(in_flight);
        }
    }
}
