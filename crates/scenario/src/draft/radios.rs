//! `[radios.NAME]`: further kinds of radio.

use fairmesh_units::{BitRate, Bytes, Distance, Frequency, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AdaptationDraft, PhyName, QueueDraft, RadioDraft, RtsDraft};
use crate::text;

/// A further kind of radio, on a separate channel.
///
/// Omitted keys are as in `[radio]`; with a `phy`, its defaults apply to rate, MCS, streams, width,
/// guard interval, aggregates and rate adaptation.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FurtherRadioDraft {
    /// Number of its primary channel: 1–13 at 2.4 GHz, 36–165 at 5 GHz.
    ///
    /// No other kind of radio uses it.
    pub channel: u32,
    /// Physical layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phy: Option<PhyName>,
    /// Data rate of links without one of their own, with 802.11a, b and g.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub rate: Option<BitRate>,
    /// MCS of links without one of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcs: Option<u8>,
    /// Spatial streams of links without a number of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<u8>,
    /// Width of the channel.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Frequency>")]
    pub width: Option<Frequency>,
    /// Guard interval.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub guard: Option<Span>,
    /// Longest A-MPDU.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub ampdu: Option<Bytes>,
    /// Longest A-MSDU.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub amsdu: Option<Bytes>,
    /// Maximum number of MPDUs in an A-MPDU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpdus: Option<u32>,
    /// TXOP limit.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub txop: Option<Span>,
    /// Choice of data rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adaptation: Option<AdaptationDraft>,
    /// RTS/CTS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rts: Option<RtsDraft>,
    /// Transmit power, dBm, with `profile = "log-distance"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<f64>,
    /// Path loss exponent, with `profile = "log-distance"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exponent: Option<f64>,
    /// Range within which frames decode.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Distance>")]
    pub decode: Option<Distance>,
    /// Range within which frames are sensed and interfere.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Distance>")]
    pub sense: Option<Distance>,
    /// Queue of each such radio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueDraft>,
}

impl FurtherRadioDraft {
    /// Returns a radio on this channel, otherwise as in `[radio]`.
    pub fn on(channel: u32) -> Self {
        FurtherRadioDraft { channel, ..FurtherRadioDraft::default() }
    }

    /// Returns all of its settings, including those of `[radio]`.
    pub(crate) fn over(&self, usual: &RadioDraft) -> RadioDraft {
        let own = self.clone();
        let mut all = usual.clone();
        if let Some(phy) = own.phy {
            all.phy = phy;
            all.adaptation = AdaptationDraft::Fixed;
            (all.rate, all.mcs, all.streams, all.width) = (None, None, None, None);
            (all.guard, all.ampdu, all.amsdu) = (None, None, None);
            (all.mpdus, all.txop) = (None, None);
            (all.basic_rates, all.cw_min, all.cw_max) = (None, None, None);
        }
        all.channel = Some(own.channel);
        all.rate = own.rate.or(all.rate);
        all.mcs = own.mcs.or(all.mcs);
        all.streams = own.streams.or(all.streams);
        all.width = own.width.or(all.width);
        all.guard = own.guard.or(all.guard);
        all.ampdu = own.ampdu.or(all.ampdu);
        all.amsdu = own.amsdu.or(all.amsdu);
        all.mpdus = own.mpdus.or(all.mpdus);
        all.txop = own.txop.or(all.txop);
        all.adaptation = own.adaptation.unwrap_or(all.adaptation);
        all.rts = own.rts.unwrap_or(all.rts);
        all.power = own.power.or(all.power);
        all.exponent = own.exponent.or(all.exponent);
        all.decode = own.decode.or(all.decode);
        all.sense = own.sense.or(all.sense);
        all.queue = own.queue.or(all.queue);
        all
    }
}
