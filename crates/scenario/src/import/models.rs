//! Radio capabilities of well-known routers.
//!
//! Source: the speed classes and streams of vendors' data sheets, as listed in OpenWrt's Table of Hardware
//! (openwrt.org/toh). A device with several revisions has the features that all of them have in common.
//! Amendment and spatial streams per band; `None` without a radio in the band.

use fairmesh_phy::Band;
use fairmesh_phy::mcs::Generation;

/// A radio: its generation and spatial streams.
pub(super) type Radio = Option<(Generation, u8)>;

/// A router model.
#[derive(Debug, PartialEq)]
pub(super) struct Model {
    /// Prefix of the model name, in lower case; a digit may not follow.
    name: &'static str,
    ghz2: Radio,
    ghz5: Radio,
}

impl Model {
    /// Returns its radio in a band.
    pub fn at(&self, band: Band) -> Radio {
        match band {
            Band::Ghz2 => self.ghz2,
            Band::Ghz5 => self.ghz5,
        }
    }

    /// Returns the model of this name in a map.
    pub fn find(name: &str) -> Option<&'static Model> {
        let name: Vec<String> = name.split_whitespace().map(str::to_lowercase).collect();
        let name = name.join(" ");
        let fits = |m: &&Model| {
            name.strip_prefix(m.name)
                .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        MODELS.iter().filter(fits).max_by_key(|m| m.name.len())
    }
}

const fn n(streams: u8) -> Radio {
    Some((Generation::Ht, streams))
}

const fn ac(streams: u8) -> Radio {
    Some((Generation::Vht, streams))
}

const fn ax(streams: u8) -> Radio {
    Some((Generation::He, streams))
}

const fn model(name: &'static str, ghz2: Radio, ghz5: Radio) -> Model {
    Model { name, ghz2, ghz5 }
}

const MODELS: &[Model] = &[
    model("avm fritz!box 4020", n(3), None),
    model("avm fritz!box 4040", n(2), ac(2)),
    model("avm fritz!box 7520", n(2), ac(2)),
    model("avm fritz!box 7530", n(2), ac(2)),
    model("avm fritz!repeater 1200", n(2), ac(2)),
    model("avm fritz!wlan repeater 1750e", n(3), ac(3)),
    model("avm fritz!wlan repeater 450e", n(3), None),
    model("cudy wr1300", n(2), ac(2)),
    model("cudy wr3000", ax(2), ax(2)),
    model("cudy x6", ax(2), ax(2)),
    model("d-link dir-825 rev b1", n(2), n(2)),
    model("d-link dir-860l b1", n(2), ac(2)),
    model("d-link dir-860l rev b1", n(2), ac(2)),
    model("gl.inet gl-ar150", n(1), None),
    model("gl.inet gl-ar300m", n(2), None),
    model("gl.inet gl-ar750", n(2), ac(1)),
    model("gl.inet gl-b1300", n(2), ac(2)),
    model("gl.inet gl-mt1300", n(2), ac(2)),
    model("gl.inet gl-mt300n", n(2), None),
    model("gl.inet gl-mt6000", ax(4), ax(4)),
    model("linksys wrt1200ac", n(2), ac(2)),
    model("linksys wrt3200acm", n(3), ac(3)),
    model("mikrotik hap ac2", n(2), ac(2)),
    model("netgear r6220", n(2), ac(2)),
    model("tp-link archer a7", n(3), ac(3)),
    model("tp-link archer c20", n(2), ac(1)),
    model("tp-link archer c25", n(3), ac(1)),
    model("tp-link archer c2600", n(4), ac(4)),
    model("tp-link archer c5", n(2), ac(2)),
    model("tp-link archer c50", n(2), ac(2)),
    model("tp-link archer c6", n(2), ac(2)),
    model("tp-link archer c60", n(3), ac(2)),
    model("tp-link archer c7", n(3), ac(3)),
    model("tp-link cpe210", n(2), None),
    model("tp-link cpe220", n(2), None),
    model("tp-link cpe510", None, n(2)),
    model("tp-link cpe520", None, n(2)),
    model("tp-link cpe710", None, ac(2)),
    model("tp-link eap225", n(2), ac(2)),
    model("tp-link eap615", ax(2), ax(2)),
    model("tp-link re450", n(3), ac(3)),
    model("tp-link tl-mr3020", n(1), None),
    model("tp-link tl-mr3420", n(2), None),
    model("tp-link tl-wa850re", n(2), None),
    model("tp-link tl-wa901n", n(2), None),
    model("tp-link tl-wdr3500", n(2), n(2)),
    model("tp-link tl-wdr3600", n(2), n(2)),
    model("tp-link tl-wdr4300", n(2), n(3)),
    model("tp-link tl-wdr4900", n(3), n(3)),
    model("tp-link tl-wr1043n", n(2), None),
    model("tp-link tl-wr740n", n(1), None),
    model("tp-link tl-wr741n", n(1), None),
    model("tp-link tl-wr841n", n(2), None),
    model("tp-link tl-wr842n", n(2), None),
    model("tp-link tl-wr940n", n(2), None),
    model("tp-link wbs210", n(2), None),
    model("tp-link wbs510", None, n(2)),
    model("ubiquiti bullet m2", n(1), None),
    model("ubiquiti bullet m5", None, n(1)),
    model("ubiquiti litebeam ac", None, ac(2)),
    model("ubiquiti nanobeam m5", None, n(2)),
    model("ubiquiti nanostation loco m2", n(2), None),
    model("ubiquiti nanostation loco m5", None, n(2)),
    model("ubiquiti nanostation m2", n(2), None),
    model("ubiquiti nanostation m5", None, n(2)),
    model("ubiquiti picostation m2", n(1), None),
    model("ubiquiti rocket m2", n(2), None),
    model("ubiquiti rocket m5", None, n(2)),
    model("ubiquiti unifi 6 lite", n(2), ax(2)),
    model("ubiquiti unifi 6 lr", n(4), ax(4)),
    model("ubiquiti unifi ac lite", n(2), ac(2)),
    model("ubiquiti unifi ac lr", n(3), ac(2)),
    model("ubiquiti unifi ac mesh", n(2), ac(2)),
    model("ubiquiti unifi ac pro", n(3), ac(3)),
    model("ubiquiti unifi ap", n(2), None),
    model("ubiquiti unifi ap pro", n(3), n(2)),
    model("ubiquiti unifi-ac-lite", n(2), ac(2)),
    model("ubiquiti unifi-ac-mesh", n(2), ac(2)),
    model("ubiquiti unifi-ac-pro", n(3), ac(3)),
    model("xiaomi mi router 4a gigabit", n(2), ac(2)),
    model("zyxel nbg6616", n(2), ac(2)),
    model("zyxel nbg6617", n(2), ac(2)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_found_by_how_their_names_begin() {
        let at5 = |name: &str| Model::find(name).map(|m| m.at(Band::Ghz5));
        assert_eq!(at5("TP-Link Archer C7 v2"), Some(ac(3)));
        assert_eq!(at5("TP-LINK  archer c25 v1"), Some(ac(1)), "not the C2600");
        assert_eq!(at5("TP-Link Archer C6 v2 (EU/RU/JP)"), Some(ac(2)));
        assert_eq!(at5("TP-Link TL-WR841N/ND v9"), Some(None));
        assert_eq!(at5("Ubiquiti UniFi 6 Lite"), Some(ax(2)));
        assert_eq!(at5("TP-Link Archer C99"), None);
        assert_eq!(at5("TP-LINK"), None);
    }

    /// Names are unique in lower case, and their radios exist.
    #[test]
    fn the_table_is_sound() {
        for pair in MODELS.windows(2) {
            assert!(pair[0].name < pair[1].name, "{} before {}", pair[1].name, pair[0].name);
        }
        for m in MODELS {
            assert_eq!(m.name, m.name.to_lowercase());
            assert_eq!(Model::find(m.name), Some(m));
            assert!(m.ghz2.is_some() || m.ghz5.is_some(), "{}", m.name);
            assert!(
                m.ghz2.is_none_or(|r| r.0 != Generation::Vht),
                "{}: 802.11ac has no 2.4 GHz",
                m.name
            );
        }
    }
}
