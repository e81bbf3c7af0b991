//! `[radio]`: PHY, MAC, propagation.

use core::fmt;

use fairmesh_units::{BitRate, Bytes, Decibel, Distance, Frequency, Span};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{EdcaDraft, ErrorsDraft, QueueDraft};
use crate::text;

/// `[radio]`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RadioDraft {
    /// The PHY.
    pub phy: PhyName,
    /// Data rate of links without one of their own; the PHY's highest by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub rate: Option<BitRate>,
    /// With 802.11n, ac or ax: MCS of links without one of their own; the highest by default.
    ///
    /// MCS 8 to 15 of 802.11n have two streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcs: Option<u8>,
    /// Spatial streams; 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<u8>,
    /// Width of the channel; 20 MHz by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Frequency>")]
    pub width: Option<Frequency>,
    /// Guard interval; 800 ns by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub guard: Option<Span>,
    /// Longest A-MPDU, `0 B` for none; the PHY's own limit by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub ampdu: Option<Bytes>,
    /// Maximum length of an A-MSDU, in which packets for one neighbour share an MPDU.
    ///
    /// `0 B`, none, by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub amsdu: Option<Bytes>,
    /// Maximum number of MPDUs in an A-MPDU, and length of the block acknowledgement window.
    ///
    /// 64 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mpdus: Option<u32>,
    /// TXOP limit; `0 us`, one frame, by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub txop: Option<Span>,
    /// Contention parameters of access categories, if stations have them.
    ///
    /// The standard's by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edca: Option<EdcaDraft>,
    /// Number of the primary 20 MHz channel: 1 to 13 at 2.4 GHz, 36 to 177 at 5 GHz.
    ///
    /// 36 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<u32>,
    /// Simulator that determines the radio's rules; the standard's by default.
    #[serde(skip_serializing_if = "Rules::is_default")]
    pub rules: Rules,
    /// Rules of ns-2 to omit with `rules = "ns2"`; the standard's apply instead.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules_without: Vec<Ns2Rule>,
    /// Frames to several stations over parts of the channel: not modelled.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub ofdma: bool,
    /// Frames to several stations over several antennas: not modelled.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub mu_mimo: bool,
    /// Basic rates, for broadcasts and control responses; the PHY's own by default.
    #[serde(with = "text::list", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema_list::<BitRate>")]
    pub basic_rates: Option<Vec<BitRate>>,
    /// RTS/CTS before every frame, never, or before MPDUs of at least this size.
    pub rts: RtsDraft,
    /// Treatment of overlapping frames by a receiver.
    pub reception: ReceptionDraft,
    /// Capture margin over the sum of all other frames; 10 dB by default.
    ///
    /// A frame survives while it is stronger by this much.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Decibel>")]
    pub capture: Option<Decibel>,
    /// Maximum number of attempts of an RTS, and of a frame sent without one; 7 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_retry: Option<u32>,
    /// Maximum number of attempts of a data frame sent after RTS/CTS; 4 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long_retry: Option<u32>,
    /// Smallest contention window; the PHY's by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cw_min: Option<u32>,
    /// Largest contention window; the PHY's by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cw_max: Option<u32>,
    /// Header between the IP datagram and the MAC header: true is 8 B (LLC/SNAP), false none.
    pub llc: LlcDraft,
    /// Choice of the data rate of each link.
    pub adaptation: AdaptationDraft,
    /// Propagation profile. By default `graph` if the topology has links, otherwise `ns2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// With `profile = "log-distance"`: transmit power with antenna gains, dBm; 20 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<f64>,
    /// With `profile = "log-distance"`: path loss exponent; 3 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exponent: Option<f64>,
    /// Range within which nodes decode each other; 250 m by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Distance>")]
    pub decode: Option<Distance>,
    /// Range within which nodes sense and disturb each other.
    ///
    /// By default 550 m, or `decode` with `graph`.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Distance>")]
    pub sense: Option<Distance>,
    /// Queue of every wireless interface; drop-tail of 50 packets by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueDraft>,
    /// Frame errors of every link without a `delivery`; none by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<ErrorsDraft>,
}

/// The PHYs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub enum PhyName {
    /// 1 to 11 Mbit/s, long preamble.
    #[default]
    #[serde(rename = "802.11b")]
    B,
    /// 1 to 11 Mbit/s, short preamble above 1 Mbit/s.
    #[serde(rename = "802.11b-short")]
    BShort,
    /// 6 to 54 Mbit/s at 5 GHz.
    #[serde(rename = "802.11a")]
    A,
    /// 6 to 54 Mbit/s at 2.4 GHz, no 802.11b stations.
    #[serde(rename = "802.11g")]
    G,
    /// 1 to 54 Mbit/s at 2.4 GHz with support of 802.11b stations, long preamble.
    #[serde(rename = "802.11bg")]
    Bg,
    /// As `802.11bg` with the short preamble.
    #[serde(rename = "802.11bg-short")]
    BgShort,
    /// HT: MCS 0 to 15, 20 and 40 MHz, A-MPDUs.
    #[serde(rename = "802.11n")]
    N,
    /// VHT: MCS 0 to 9, 1 to 4 streams, 20 to 160 MHz, A-MPDUs.
    #[serde(rename = "802.11ac")]
    Ac,
    /// HE: MCS 0 to 11, 1 to 4 streams, 20 to 160 MHz, A-MPDUs.
    #[serde(rename = "802.11ax")]
    Ax,
}

impl PhyName {
    const ALL: [(PhyName, &'static str); 9] = [
        (PhyName::B, "802.11b"),
        (PhyName::BShort, "802.11b-short"),
        (PhyName::A, "802.11a"),
        (PhyName::G, "802.11g"),
        (PhyName::Bg, "802.11bg"),
        (PhyName::BgShort, "802.11bg-short"),
        (PhyName::N, "802.11n"),
        (PhyName::Ac, "802.11ac"),
        (PhyName::Ax, "802.11ax"),
    ];
}

impl fmt::Display for PhyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = PhyName::ALL.iter().find(|(p, _)| p == self);
        f.write_str(known.map_or("", |k| k.1))
    }
}

impl core::str::FromStr for PhyName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = PhyName::ALL.iter().find(|(_, name)| *name == text);
        known.map(|k| k.0).ok_or_else(|| {
            let names: Vec<&str> = PhyName::ALL.iter().map(|k| k.1).collect();
            format!("found \"{text}\"; expected one of {}", names.join(", "))
        })
    }
}

/// Simulator that determines the radio's rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Rules {
    /// Rules of the standard.
    #[default]
    Standard,
    /// Rules of ns-3.37, for comparisons; with 802.11n, ac and ax.
    Ns3,
    /// Rules of ns-2.35: deferral, capture, backoff, timeouts and MAC header.
    ///
    /// With 802.11a, b and g.
    Ns2,
}

/// A rule of ns-2.35's MAC that can be omitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ns2Rule {
    /// An undecodable frame sets the NAV to EIFS, and a DIFS follows.
    Deferral,
    /// A frame beside a stronger one in reception sets the NAV.
    CaptureNav,
    /// A frame is compared only with the one in reception.
    Pairwise,
    /// A collision lasts as long as its longest frame.
    Collision,
    /// A frame during an own transmission is received and lost.
    OwnFrame,
    /// The countdown stops with the first energy.
    CarrierSense,
    /// A backoff is drawn from 0 to CW − 1.
    Window,
    /// A packet delivered by a reception draws a backoff.
    RelayBackoff,
    /// Any other packet that finds the medium idle draws a backoff.
    IdleBackoff,
    /// The timeout for a response is its airtime.
    Timeout,
}

impl Rules {
    fn is_default(&self) -> bool {
        *self == Rules::Standard
    }
}

/// Treatment of overlapping frames by a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReceptionDraft {
    /// Locks on the first frame sensed, even if it is too weak to decode.
    #[default]
    Ns2,
    /// Locks only on decodable frames.
    Sinr,
    /// Two flat power levels: every overlap destroys a frame.
    NoCap,
}

/// Choice of the data rate of each link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AdaptationDraft {
    /// The link's own rate, or the radio's.
    #[default]
    Fixed,
    /// Automatic rate fallback.
    Arf,
    /// The rate with the best expected transmission time.
    SampleRate,
    /// With 802.11n, ac or ax: the MCS with the highest expected throughput, as Linux chooses.
    #[serde(rename = "minstrel-ht")]
    MinstrelHt,
}

/// Derivation of received power from the topology.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Two-ray ground from positions.
    Ns2,
    /// Equal power on every link, and a lower one for nodes that are only sensed.
    Graph,
    /// From positions: free space up to a metre, then a power of the distance.
    #[serde(rename = "log-distance")]
    LogDistance,
}

/// `rts`: true, false, or a size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RtsDraft {
    /// Never.
    #[default]
    Off,
    /// Before every unicast data frame.
    On,
    /// Before data frames with an MPDU of at least this size.
    From(Bytes),
}

/// `llc`: true, false, or a size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LlcDraft(pub Bytes);

impl Default for LlcDraft {
    fn default() -> Self {
        LlcDraft(SNAP)
    }
}

/// LLC and SNAP headers together.
const SNAP: Bytes = Bytes(8);

/// A boolean or a size.
enum SwitchOrSize {
    Switch(bool),
    Size(Bytes),
}

impl<'de> Deserialize<'de> for SwitchOrSize {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = SwitchOrSize;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, or a size such as \"512 B\"")
            }
            fn visit_bool<E: de::Error>(self, on: bool) -> Result<SwitchOrSize, E> {
                Ok(SwitchOrSize::Switch(on))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<SwitchOrSize, E> {
                text.parse().map(SwitchOrSize::Size).map_err(E::custom)
            }
        }
        d.deserialize_any(Visitor)
    }
}

fn switch_or_size(g: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "boolean" }, text::schema::<Bytes>(g)] })
}

impl<'de> Deserialize<'de> for RtsDraft {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(match SwitchOrSize::deserialize(d)? {
            SwitchOrSize::Switch(false) => RtsDraft::Off,
            SwitchOrSize::Switch(true) => RtsDraft::On,
            SwitchOrSize::Size(b) => RtsDraft::From(b),
        })
    }
}

impl Serialize for RtsDraft {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            RtsDraft::Off => s.serialize_bool(false),
            RtsDraft::On => s.serialize_bool(true),
            RtsDraft::From(b) => text::serialize(b, s),
        }
    }
}

impl JsonSchema for RtsDraft {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Rts".into()
    }
    fn json_schema(g: &mut SchemaGenerator) -> Schema {
        switch_or_size(g)
    }
}

impl<'de> Deserialize<'de> for LlcDraft {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(LlcDraft(match SwitchOrSize::deserialize(d)? {
            SwitchOrSize::Switch(false) => Bytes(0),
            SwitchOrSize::Switch(true) => SNAP,
            SwitchOrSize::Size(b) => b,
        }))
    }
}

impl Serialize for LlcDraft {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        text::serialize(&self.0, s)
    }
}

impl JsonSchema for LlcDraft {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Llc".into()
    }
    fn json_schema(g: &mut SchemaGenerator) -> Schema {
        switch_or_size(g)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phys_are_written_as_in_files() {
        for (phy, name) in PhyName::ALL {
            assert_eq!(serde_json::to_value(phy).unwrap(), name);
            assert_eq!((phy.to_string().as_str(), name.parse()), (name, Ok(phy)));
        }
        assert!("802.11z".parse::<PhyName>().unwrap_err().contains("802.11ax"));
    }
}
