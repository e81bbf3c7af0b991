//! Radios of routers, derived from the channels of a map.

use std::collections::BTreeMap;

use fairmesh_phy::Band;
use fairmesh_phy::mcs::Generation;
use fairmesh_phy::spectrum::Occupied;

use super::ImportOptions;

/// Number of map entries that name each channel.
pub(super) type Channels = BTreeMap<u32, usize>;

/// One radio of a map, which occupies one part of the spectrum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// Channel of most of its links.
    pub channel: u32,
    pub generation: Generation,
    pub band: Band,
    /// Width, MHz.
    pub mhz: u64,
}

/// The radios of a map.
pub(super) struct Places {
    /// All radios; the first is the one of most links.
    pub all: Vec<Place>,
    /// Index of the radio of each channel.
    of: BTreeMap<u32, usize>,
}

impl Places {
    /// Returns a radio for each part of the spectrum in use, unless a channel is requested.
    ///
    /// Links name their part. `kind` returns generation, band and width in MHz of a radio on a channel.
    pub fn of(
        options: &ImportOptions,
        channels: &Channels,
        kind: impl Fn(Option<u32>) -> (u32, Generation, Band, u64),
    ) -> Self {
        let place = |channel| {
            let (channel, generation, band, mhz) = kind(channel);
            Place { channel, generation, band, mhz }
        };
        // On a tie, the lowest number.
        let mut by_use: Vec<(u32, usize)> = channels.iter().map(|c| (*c.0, *c.1)).collect();
        by_use.sort_by_key(|&(channel, n)| (std::cmp::Reverse(n), channel));
        let first = options.channel.or(by_use.first().map(|c| c.0));
        let mut places = Places { all: vec![place(first)], of: BTreeMap::new() };
        if options.channel.is_some() {
            return places;
        }
        for (channel, _) in by_use {
            let new = place(Some(channel));
            // Wide channels cover several numbers.
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

    /// Returns the radio of a link that names a channel, or none.
    pub fn at(&self, channel: Option<u32>) -> usize {
        channel.and_then(|c| self.of.get(&c).copied()).unwrap_or(0)
    }

    /// Returns the name of a radio.
    pub fn name(&self, at: usize) -> String {
        match at {
            0 => "main".to_owned(),
            _ => format!("channel{}", self.all[at].channel),
        }
    }
}

/// Returns the channel number of a centre frequency in MHz (IEEE 802.11-2020 Annex E).
///
/// `None` if there is none.
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
