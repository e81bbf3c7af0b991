//! `access`, `dscp` and `[radio.edca]`: access categories.

use fairmesh_units::Span;
use fairmesh_wifi::Access;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text;

/// An access category.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AccessDraft {
    /// AC_BK, the lowest priority.
    Background,
    /// AC_BE.
    BestEffort,
    /// AC_VI.
    Video,
    /// AC_VO, the highest priority.
    Voice,
}

impl From<AccessDraft> for Access {
    fn from(draft: AccessDraft) -> Access {
        match draft {
            AccessDraft::Background => Access::Background,
            AccessDraft::BestEffort => Access::BestEffort,
            AccessDraft::Video => Access::Video,
            AccessDraft::Voice => Access::Voice,
        }
    }
}

/// A named DSCP code point.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[repr(u8)]
pub enum DscpDraft {
    /// Default forwarding.
    Df = 0,
    /// Lower effort (RFC 8622).
    Le = 1,
    /// Class selectors (RFC 2474).
    Cs1 = 8,
    /// See `Cs1`.
    Cs2 = 16,
    /// See `Cs1`.
    Cs3 = 24,
    /// See `Cs1`.
    Cs4 = 32,
    /// See `Cs1`.
    Cs5 = 40,
    /// See `Cs1`.
    Cs6 = 48,
    /// See `Cs1`.
    Cs7 = 56,
    /// Assured forwarding (RFC 2597).
    Af11 = 10,
    /// See `Af11`.
    Af12 = 12,
    /// See `Af11`.
    Af13 = 14,
    /// See `Af11`.
    Af21 = 18,
    /// See `Af11`.
    Af22 = 20,
    /// See `Af11`.
    Af23 = 22,
    /// See `Af11`.
    Af31 = 26,
    /// See `Af11`.
    Af32 = 28,
    /// See `Af11`.
    Af33 = 30,
    /// See `Af11`.
    Af41 = 34,
    /// See `Af11`.
    Af42 = 36,
    /// See `Af11`.
    Af43 = 38,
    /// Capacity-admitted traffic (RFC 5865).
    #[serde(rename = "VOICE-ADMIT")]
    VoiceAdmit = 44,
    /// Expedited forwarding (RFC 3246).
    Ef = 46,
}

/// `[radio.edca]`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EdcaDraft {
    /// Initial parameters; `802.11` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defaults: Option<EdcaDefaults>,
    /// AC_BK.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<CategoryDraft>,
    /// AC_BE.
    #[serde(rename = "best-effort", skip_serializing_if = "Option::is_none")]
    pub best_effort: Option<CategoryDraft>,
    /// AC_VI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub video: Option<CategoryDraft>,
    /// AC_VO.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voice: Option<CategoryDraft>,
}

impl EdcaDraft {
    /// Returns the settings of a category.
    pub(crate) fn of(&self, access: Access) -> Option<&CategoryDraft> {
        match access {
            Access::Background => self.background.as_ref(),
            Access::BestEffort => self.best_effort.as_ref(),
            Access::Video => self.video.as_ref(),
            Access::Voice => self.voice.as_ref(),
        }
    }
}

/// Source of default parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub enum EdcaDefaults {
    /// IEEE 802.11-2020.
    #[default]
    #[serde(rename = "802.11")]
    Standard,
    /// mac80211's defaults, as in a mesh.
    #[serde(rename = "linux")]
    Linux,
}

/// Contention parameters of a category.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CategoryDraft {
    /// Slots after SIFS before the countdown starts, 2 to 15.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aifsn: Option<u32>,
    /// Smallest contention window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cw_min: Option<u32>,
    /// Largest contention window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cw_max: Option<u32>,
    /// TXOP limit; `0 us`: one frame.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub txop: Option<Span>,
}
