//! `[radio]`: MAC settings, queue and frame errors.

use fairmesh_phy::{Compatibility, Phy, PhyError, Preamble, Rate};
use fairmesh_units::{BitRate, Decibel, Span};
use fairmesh_wifi::loss::FrameErrors;
use fairmesh_wifi::{Adaptation, MacConfig, MacRules, Ns2Rules, Reception};

use super::{Result, access, fail, modern};
use crate::draft::{
    AdaptationDraft, Draft, Ns2Rule, PhyName, RadioDraft, ReceptionDraft, RtsDraft, Rules,
};
use crate::draft::{QueueDraft, USUAL_PACKETS};
use crate::error::{KeyPath, Problem, ScenarioError};
use crate::scenario::InterfaceQueue;

/// Resolved `[radio]` section.
pub(super) struct Radio {
    pub mac: MacConfig,
    pub queue: InterfaceQueue,
    pub errors: FrameErrors,
    /// Time to send a full-sized packet, by which RED ages its average.
    pub packet_time: Span,
}

pub(super) fn build(all: &Draft) -> Result<Radio> {
    let draft = &all.radio;
    modern::refuse_features(draft)?;
    let (phy, rate, txop, edca) = match modern::generation(draft.phy) {
        Some(g) => {
            let (phy, usual) = modern::phy(all, g)?;
            let phy = adjust(phy, draft)?;
            let rate = phy.rate_of(usual).unwrap_or(phy.highest());
            let edca = access::edca(all, &phy)?;
            (phy, rate, modern::txop(draft)?, edca)
        }
        None => {
            modern::refuse_keys(draft)?;
            access::refuse(all)?;
            modern::check_channel(draft)?;
            let phy = adjust(phy(draft.phy), draft)?;
            let rate = match draft.rate {
                None => phy.highest(),
                Some(bit_rate) => find_rate(&phy, bit_rate, "radio.rate".into())?,
            };
            (phy, rate, Span::ZERO, None)
        }
    };
    let capture = draft.capture.unwrap_or(Decibel(10.0));
    if !(0.0..=100.0).contains(&capture.0) {
        let problem = Problem::range(format!("{} dB", capture.0), "0 dB to 100 dB");
        return fail("radio.capture".into(), problem);
    }
    let size = |bytes: u64, key: &str| {
        u32::try_from(bytes)
            .ok()
            .filter(|&b| b <= 65_535)
            .ok_or_else(|| ScenarioError::at(key.into(), Problem::range(bytes, "at most 65535 B")))
    };
    let rts_threshold = match draft.rts {
        RtsDraft::Off => None,
        RtsDraft::On => Some(0),
        RtsDraft::From(bytes) => Some(size(bytes.0, "radio.rts")?),
    };
    let mac = MacConfig {
        rate,
        rts_threshold,
        llc_bytes: size(draft.llc.0.0, "radio.llc")?,
        reception: match draft.reception {
            ReceptionDraft::Ns2 => Reception::Ns2,
            ReceptionDraft::Sinr => Reception::Sinr,
            ReceptionDraft::NoCap => Reception::NoCapture,
        },
        rules: mac_rules(draft)?,
        capture,
        adaptation: match draft.adaptation {
            AdaptationDraft::Fixed => Adaptation::Fixed,
            AdaptationDraft::Arf => Adaptation::Arf,
            AdaptationDraft::SampleRate => Adaptation::SampleRate,
            AdaptationDraft::MinstrelHt => Adaptation::MinstrelHt,
        },
        txop,
        edca,
        phy,
    };
    let packet_time =
        mac.phy.difs() + mac.phy.airtime(rate, 1536) + mac.phy.sifs() + mac.phy.response(rate).ack;
    let queue = draft.queue.as_ref().unwrap_or(&QueueDraft::Packets(USUAL_PACKETS));
    let queue = queue.build(packet_time).map_err(|p| ScenarioError::at("radio.queue".into(), p))?;
    let errors = draft.errors.as_ref().map_or(Ok(FrameErrors::None), |e| e.build(&mac.phy));
    let errors = errors.map_err(|p| ScenarioError::at("radio.errors".into(), p))?;
    Ok(Radio { mac, queue, errors, packet_time })
}

/// Returns the rules of the MAC; those of ns-2 require 802.11a, b or g.
fn mac_rules(draft: &RadioDraft) -> Result<MacRules> {
    if draft.rules != Rules::Ns2 {
        if !draft.rules_without.is_empty() {
            let problem = Problem::refused("rules of ns-2 left out", "`radio.rules = \"ns2\"`");
            return fail("radio.rules_without".into(), problem);
        }
        return Ok(MacRules::Standard);
    }
    if modern::generation(draft.phy).is_some() {
        let problem = Problem::refused(
            "ns-2 has no such radio",
            "`radio.phy` of \"802.11b\", \"802.11a\" or \"802.11g\"",
        );
        return fail("radio.rules".into(), problem);
    }
    if draft.reception == ReceptionDraft::Sinr {
        let problem =
            Problem::refused("the rules of ns-2 have no such reception", "\"ns2\" or \"nocap\"");
        return fail("radio.reception".into(), problem);
    }
    let mut rules = Ns2Rules::ALL;
    for left_out in &draft.rules_without {
        *match left_out {
            Ns2Rule::Deferral => &mut rules.deferral,
            Ns2Rule::CaptureNav => &mut rules.capture_nav,
            Ns2Rule::Pairwise => &mut rules.pairwise,
            Ns2Rule::Collision => &mut rules.collision,
            Ns2Rule::OwnFrame => &mut rules.own_frame,
            Ns2Rule::CarrierSense => &mut rules.carrier_sense,
            Ns2Rule::Window => &mut rules.window,
            Ns2Rule::RelayBackoff => &mut rules.relay_backoff,
            Ns2Rule::IdleBackoff => &mut rules.idle_backoff,
            Ns2Rule::Timeout => &mut rules.timeout,
        } = false;
    }
    Ok(MacRules::Ns2(rules))
}

fn phy(name: PhyName) -> Phy {
    match name {
        PhyName::B => Phy::dot11b(Preamble::Long),
        PhyName::BShort => Phy::dot11b(Preamble::Short),
        PhyName::A => Phy::dot11a(),
        PhyName::G => Phy::dot11g(Compatibility::Pure),
        PhyName::Bg => Phy::dot11g(Compatibility::WithB(Preamble::Long)),
        PhyName::BgShort => Phy::dot11g(Compatibility::WithB(Preamble::Short)),
        // Not used for these.
        PhyName::N | PhyName::Ac | PhyName::Ax => Phy::dot11a(),
    }
}

/// Applies the basic rates, retry limits and windows of `[radio]`.
fn adjust(mut phy: Phy, draft: &RadioDraft) -> Result<Phy> {
    if let Some(basic) = &draft.basic_rates {
        for (i, &rate) in basic.iter().enumerate() {
            find_rate(&phy, rate, KeyPath::from("radio.basic_rates").index(i))?;
        }
        phy = phy
            .with_basic_rates(basic)
            .map_err(|e| refused("radio.basic_rates", &e, "at least one rate"))?;
    }
    let timing = *phy.timing();
    let short = draft.short_retry.unwrap_or(timing.short_retry_limit);
    let long = draft.long_retry.unwrap_or(timing.long_retry_limit);
    for (key, limit) in [("radio.short_retry", short), ("radio.long_retry", long)] {
        if !(1..=255).contains(&limit) {
            return fail(key.into(), Problem::range(limit, "1 to 255 attempts"));
        }
    }
    phy = phy
        .with_retry_limits(short, long)
        .map_err(|e| refused("radio.short_retry", &e, "1 to 255 attempts"))?;
    phy.with_contention_window(
        draft.cw_min.unwrap_or(timing.cw_min),
        draft.cw_max.unwrap_or(timing.cw_max),
    )
    .map_err(|e| {
        let key = if draft.cw_min.is_some() { "radio.cw_min" } else { "radio.cw_max" };
        refused(key, &e, "windows such as 15, 31, …, 1023")
    })
}

fn refused(key: &str, error: &PhyError, expected: &str) -> ScenarioError {
    ScenarioError::at(key.into(), Problem::refused(error.to_string(), expected))
}

/// Returns the PHY's rate with this bit rate.
pub(super) fn find_rate(phy: &Phy, rate: BitRate, key: KeyPath) -> Result<Rate> {
    phy.rate(rate).ok_or_else(|| {
        let table = phy.rates().map(|r| phy.bit_rate(r)).collect();
        ScenarioError::at(key, Problem::NoSuchRate { rate, table })
    })
}
