//! Rate adaptation: the rate of the next attempt to a neighbour.
//!
//! One [`Adapter`] per node and neighbour receives the result of every data attempt (docs/models/rate-adaptation.md).

mod arf;
mod minstrel_ht;
mod sample;

pub use arf::Arf;
pub use minstrel_ht::MinstrelHt;
pub use sample::SampleRate;

use fairmesh_units::{Stream, Time};

use fairmesh_phy::{Phy, Rate};

/// Result of one data attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// Rate of the attempt.
    pub rate: Rate,
    /// PSDU of the attempt, in bytes.
    pub bytes: u32,
    /// MPDUs that it carried.
    pub mpdus: u32,
    /// Number of them that were acknowledged.
    pub acked: u32,
    /// True if a response came.
    pub ok: bool,
    /// True if the frame is finished: acknowledged, or dropped.
    pub last: bool,
}

/// The rate choice of one node for one neighbour.
#[derive(Clone, Debug)]
pub enum Adapter {
    /// Always the same rate.
    Fixed(Rate),
    /// Automatic Rate Fallback.
    Arf(Arf),
    /// Lowest mean transmission time, with samples.
    Sample(Box<SampleRate>),
    /// Most expected throughput, as Linux chooses.
    Minstrel(Box<MinstrelHt>),
}

impl Adapter {
    /// Returns ARF over all rates of `phy`, starting at the fastest.
    pub fn arf(phy: &Phy) -> Self {
        Adapter::Arf(Arf::new(phy.lowest(), phy.highest()))
    }

    /// Returns SampleRate over all rates of `phy`.
    pub fn sample(phy: &Phy) -> Self {
        Adapter::Sample(Box::new(SampleRate::new(phy)))
    }

    /// Returns Minstrel-HT over all MCS of `phy`.
    pub fn minstrel_ht(phy: &Phy) -> Self {
        Adapter::Minstrel(Box::new(MinstrelHt::new(phy)))
    }

    /// Returns true if it depends on the results of attempts.
    #[inline]
    pub fn learns(&self) -> bool {
        !matches!(self, Adapter::Fixed(_))
    }

    /// Returns the rate of an attempt of a frame with a PSDU of `bytes` bytes.
    ///
    /// `attempt` is 0 for the first. Called once before each attempt.
    pub fn rate_for(&mut self, now: Time, bytes: u32, attempt: u32, rng: &mut Stream) -> Rate {
        match self {
            Adapter::Fixed(rate) => *rate,
            Adapter::Arf(a) => a.rate(),
            Adapter::Sample(s) => s.rate_for(now, bytes, attempt, rng),
            Adapter::Minstrel(m) => m.rate_for(now, rng),
        }
    }

    /// Reports the result of a data attempt.
    ///
    /// A missing CTS is not a data attempt and is not reported.
    pub fn on_result(&mut self, now: Time, attempt: &Attempt) {
        match self {
            Adapter::Fixed(_) => {}
            Adapter::Arf(a) => a.on_result(attempt.rate, attempt.ok),
            Adapter::Sample(s) => s.on_result(now, attempt),
            Adapter::Minstrel(m) => m.on_result(attempt),
        }
    }
}
