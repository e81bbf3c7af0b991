//! `[control]`: the mechanism and its settings.

use core::fmt;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::error::Problem;

/// `[control]`: `use` names the mechanism, every other key is a setting of it.
#[derive(Clone, PartialEq, Debug)]
pub struct ControlDraft {
    /// Name of the mechanism, with its variants: `pfrc`, `wcp+in-network`.
    pub name: String,
    /// Settings: the mechanism's knobs, in the units that its listing gives.
    pub settings: BTreeMap<String, f64>,
}

impl Default for ControlDraft {
    fn default() -> Self {
        ControlDraft { name: "fifo".to_owned(), settings: BTreeMap::new() }
    }
}

impl ControlDraft {
    /// Checks the name and the settings against what exists; the error names the wrong key.
    pub(crate) fn check(&self) -> Result<(), (&str, Problem)> {
        let mut mechanism = fairmesh_control::lookup(&self.name).map_err(|e| {
            let known = match e.of {
                None => fairmesh_control::all().map(|e| e.name.to_owned()).collect(),
                Some(entry) => {
                    let variants =
                        entry.variants.iter().map(|v| format!("{}+{}", entry.name, v.name));
                    std::iter::once(entry.name.to_owned()).chain(variants).collect()
                }
            };
            ("use", Problem::UnknownControl { name: self.name.clone(), known })
        })?;
        for (key, &value) in &self.settings {
            let knobs = mechanism.entry().knobs;
            let Some(knob) = knobs.iter().find(|k| k.name == key) else {
                let known = std::iter::once("use").chain(knobs.iter().map(|k| k.name));
                let known = known.map(str::to_owned).collect();
                return Err((key, Problem::UnknownKey { known }));
            };
            mechanism.set(key, value).map_err(|_| {
                (key.as_str(), Problem::range(value, format!("{} to {}", knob.min, knob.max)))
            })?;
        }
        Ok(())
    }
}

impl Serialize for ControlDraft {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(1 + self.settings.len()))?;
        map.serialize_entry("use", &self.name)?;
        for (key, value) in &self.settings {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

// By hand: serde's `flatten` would lose the place of a wrong value.
impl<'de> Deserialize<'de> for ControlDraft {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = ControlDraft;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table with `use = \"name of a control\"`")
            }
            fn visit_map<A: de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<ControlDraft, A::Error> {
                let mut draft = ControlDraft::default();
                while let Some(key) = map.next_key::<String>()? {
                    if key == "use" {
                        draft.name = map.next_value()?;
                    } else {
                        draft.settings.insert(key, map.next_value()?);
                    }
                }
                Ok(draft)
            }
        }
        d.deserialize_map(Visitor)
    }
}

impl JsonSchema for ControlDraft {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Control".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "`use` names the mechanism, every other key is a setting of it.",
            "properties": { "use": { "type": "string", "default": "fifo" } },
            "additionalProperties": { "type": "number" },
        })
    }
}
