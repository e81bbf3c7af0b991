//! Round-trip estimation and the retransmission timeout (RFC 6298).

use fairmesh_units::Span;

use crate::config::{Dialect, TcpConfig};

/// Round-trip estimator of one direction, in whole nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Rto {
    srtt: Option<i64>,
    rttvar: i64,
    rto: Span,
    initial: Span,
    min: Span,
    max: Span,
    granularity: i64,
    /// True for ns-3's rule to reset the back-off at any new ACK.
    ///
    /// Karn's rule waits for a sample (RFC 6298 §5.7).
    forgets_backoff: bool,
}

impl Rto {
    pub(super) fn new(cfg: &TcpConfig) -> Self {
        Rto {
            srtt: None,
            rttvar: 0,
            rto: cfg.initial_rto.clamp(cfg.min_rto, cfg.max_rto),
            initial: cfg.initial_rto,
            min: cfg.min_rto,
            max: cfg.max_rto,
            granularity: cfg.clock_granularity.as_nanos() as i64,
            forgets_backoff: cfg.dialect == Dialect::Ns3,
        }
    }

    /// Adds a measured round trip of a segment that was sent once.
    pub(super) fn sample(&mut self, rtt: Span) {
        let r = rtt.as_nanos() as i64;
        match self.srtt {
            // RFC 6298 §2.2
            None => {
                self.srtt = Some(r);
                self.rttvar = r / 2;
            }
            // RFC 6298 §2.3, alpha = 1/8, beta = 1/4; the variance uses the old SRTT
            Some(srtt) => {
                let err = r - srtt;
                self.rttvar += (err.abs() - self.rttvar) >> 2;
                self.srtt = Some(srtt + (err >> 3));
            }
        }
        self.recompute();
    }

    /// Records that new data was acknowledged.
    pub(super) fn on_progress(&mut self) {
        if self.forgets_backoff {
            self.recompute();
        }
    }

    /// Records that the SYN was retransmitted, so that its round trip is unknown.
    pub(super) fn after_lost_syn(&mut self) {
        // RFC 6298 §5.7: 3 s when data transmission begins
        self.initial = self.initial.max(Span::from_secs(3));
        self.recompute();
    }

    /// Handles the expiry of the timer.
    pub(super) fn back_off(&mut self) {
        self.rto = self.rto.saturating_mul(2).min(self.max); // RFC 6298 §5.5, §2.5
    }

    fn recompute(&mut self) {
        let raw = match self.srtt {
            None => self.initial,
            // RFC 6298 §2.3
            Some(srtt) => Span::from_nanos((srtt + (4 * self.rttvar).max(self.granularity)) as u64),
        };
        self.rto = raw.clamp(self.min, self.max); // RFC 6298 §2.4, §2.5
    }

    pub(super) const fn get(&self) -> Span {
        self.rto
    }

    pub(super) fn srtt(&self) -> Option<Span> {
        self.srtt.map(|ns| Span::from_nanos(ns as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Span {
        Span::from_millis(n)
    }

    #[test]
    fn values_of_rfc_6298() {
        let mut rto = Rto::new(&TcpConfig { min_rto: ms(1), ..TcpConfig::rfc() });
        assert_eq!(rto.get(), Span::from_secs(1));
        rto.sample(ms(100)); // SRTT 100, RTTVAR 50
        assert_eq!(rto.get(), ms(300));
        rto.sample(ms(140)); // RTTVAR 3/4*50 + 1/4*40 = 47.5, SRTT 105
        assert_eq!(rto.get(), ms(105) + ms(190));
        assert_eq!(rto.srtt(), Some(ms(105)));
        rto.sample(ms(65)); // RTTVAR 3/4*47.5 + 1/4*40 = 45.625, SRTT 100
        assert_eq!(rto.get(), Span::from_micros(100_000 + 4 * 45_625));
    }

    #[test]
    fn limits_and_granularity() {
        let cfg = TcpConfig { min_rto: ms(200), ..TcpConfig::ns3() };
        let mut rto = Rto::new(&cfg);
        for _ in 0..100 {
            rto.sample(ms(300));
        }
        // The variance has decayed to zero; the granularity of 10 ms remains.
        assert_eq!(rto.get(), ms(310));
        for _ in 0..100 {
            rto.sample(ms(20));
        }
        assert_eq!(rto.get(), ms(200));
        for _ in 0..20 {
            rto.back_off();
        }
        assert_eq!(rto.get(), Span::from_secs(60));
    }

    #[test]
    fn back_off_ends_by_dialect() {
        for (cfg, kept) in [(TcpConfig::ns3(), false), (TcpConfig::rfc(), true)] {
            let mut rto = Rto::new(&cfg);
            rto.sample(Span::from_secs(1));
            let base = rto.get();
            rto.back_off();
            rto.on_progress();
            assert_eq!(rto.get(), if kept { base * 2 } else { base });
            rto.sample(Span::from_secs(1));
            assert!(rto.get() <= base);
        }
    }
}
