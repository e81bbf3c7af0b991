//! From the channels that a map names to the radios that its routers have.

use std::collections::BTreeMap;

use fairmesh_phy::Band;
use fairmesh_phy::mcs::Generation;
use fairmesh_phy::spectrum::Occupied;

use super::ImportOptions;

/// Number of map entries that name each channel.
pub(super) type Channels = BTreeMap<u32, usize>;

/// One radio of a map, which occupies one stretch of the spectrum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// The channel that most of its links name.
    pub channel: u32,
    pub generation: Generation,
    pub band: Band,
    /// Width, MHz.
    pub mhz: u64,
}

/// The radios of a map.
pub(super) struct Places {
    /// The first is the one of most links.
    pub all: Vec<Place>,
    /// By channel, which of them it is.
    of: BTreeMap<u32, usize>,
}

impl Places {
    /// One for each stretch of the spectrum that links name, where no channel is asked for. `kind` is what a radio on a
    /// channel is: generation, band, width in MHz.
    pub fn of(
        options: &ImportOptions,
        channels: &Channels,
        kind: impl Fn(Option<u32>) -> (u32, Generation, Band, u64),
    ) -> Self {
        let place = |channel| {
            let (channel, generation, band, mhz) = kind(channel);
            Place { channel, generation, band, mhz }
        };
        // Of equal channels the lowest number.
        let mut by_use: Vec<(u32, usize)> = channels.iter().map(|c| (*c.0, *c.1)).collect();
        by_use.sort_by_key(|&(channel, n)| (std::cmp::Reverse(n), channel));
        let first = options.channel.or(by_use.first().map(|c| c.0));
        let mut places = Places { all: vec![place(first)], of: BTreeMap::new() };
        if options.channel.is_some() {
            return places;
        }
        for (channel, _) in by_use {
            let new = place(Some(channel));
            // Wide channels reach over several numbers.
            let middle = |p: &Place| Occupied::of(p.channel, p.mhz as u32, false);
            let known = places.all.iter().position(|p| middle(p) == middle(&new));
            let at = known.unwrap_or_else(|| {
                places.all.push(new);
                places.all.len() - 1
            });
            places.of.insert(channel, at);
        }
        places
    }

    /// The radio of a link that names a channel, or none.
    pub fn at(&self, channel: Option<u32>) -> usize {
        channel.and_then(|c| self.of.get(&c).copied()).unwrap_or(0)
    }

    /// The name of a radio.
    pub fn name(&self, at: usize) -> String {
        match at {
            0 => "main".to_owned(),
            _ => format!("channel{}", self.all[at].channel),
        }
    }
}

/// The number of the channel around a frequency in MHz (IEEE 802.11-2020 Annex E), if it is a whole one.
pub(super) fn around(mhz: f64) -> Option<u32> {
    let step = |base: f64| {
        let number = (mhz - base) / 5.0;
        (number >= 1.0 && number.fract() == 0.0 && number < 200.0).then_some(number as u32)
    };
    if mhz < 3000.0 { step(2407.0).filter(|n| *n <= 13) } else { step(5000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_are_channels() {
        for (mhz, channel) in [(2412.0, 1), (2472.0, 13), (5180.0, 36), (5825.0, 165)] {
            assert_eq!(around(mhz), Some(channel));
        }
        for mhz in [2413.0, 2484.0, 900.0, 5001.0, 60_480.0, f64::NAN] {
            assert_eq!(around(mhz), None, "{mhz}");
        }
    }
}
