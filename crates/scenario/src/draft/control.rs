//! `[control]`: the mechanism and its settings.

use core::fmt;
use std::collections::BTreeMap;

use fairmesh_control::{Definition, Fairness, Mechanism, RESERVED_KEYS, Registry};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value, json};

use crate::error::Problem;
use crate::name::Name;

/// `[control]`: the mechanism, the nodes that it runs on, and its settings.
///
/// `use` names the mechanism, `gateway` that of gateways, `agents` the nodes with an agent, `nodes`
/// the participating nodes. Every other key is a setting of the mechanism.
#[derive(Clone, PartialEq, Debug)]
pub struct ControlDraft {
    /// Name of the mechanism, with its variants: `pfrc`, `wcp+in-network`.
    pub name: String,
    /// Settings: the mechanism's parameters, in the units of its listing.
    pub settings: BTreeMap<String, f64>,
    /// Objective between flows, for mechanisms that have one.
    pub fairness: Option<Fairness>,
    /// Mechanism of gateways instead of `use`, with its variants.
    pub gateway: Option<String>,
    /// Nodes that run this project's agent, for mechanisms that need it.
    ///
    /// By default all wireless nodes except the gateway.
    pub agents: Option<Vec<Name>>,
    /// Participating nodes; by default the mechanism runs wherever it applies.
    pub nodes: Option<Vec<Name>>,
}

impl Default for ControlDraft {
    fn default() -> Self {
        ControlDraft {
            name: "fifo".to_owned(),
            settings: BTreeMap::new(),
            fairness: None,
            gateway: None,
            agents: None,
            nodes: None,
        }
    }
}

/// Looks up the mechanism of this name, given at this key.
fn named(
    key: &'static str,
    name: &str,
    registry: &Registry,
) -> Result<Mechanism, (&'static str, Problem)> {
    registry
        .lookup(name)
        .map_err(|e| (key, Problem::UnknownControl { name: name.to_owned(), known: e.known }))
}

impl ControlDraft {
    /// Looks up the mechanism of gateways; an error names the key.
    pub(crate) fn at_gateways(
        &self,
        registry: &Registry,
    ) -> Result<Option<Mechanism>, (&str, Problem)> {
        self.gateway.as_deref().map(|name| named("gateway", name, registry)).transpose()
    }

    /// Looks up the mechanism and sets its parameters; an error names the key.
    pub(crate) fn mechanism(&self, registry: &Registry) -> Result<Mechanism, (&str, Problem)> {
        let mut mechanism = named("use", &self.name, registry)?;
        if self.fairness.is_some() && self.settings.contains_key(Fairness::PARAMETER) {
            let problem =
                Problem::refused("`alpha_fairness` and `fairness` are both set", "one of them");
            return Err(("fairness", problem));
        }
        let fairness = self.fairness.map(|f| ("fairness", Fairness::PARAMETER, f.alpha()));
        let settings = self.settings.iter().map(|(key, value)| (&**key, &**key, *value));
        for (key, parameter, value) in settings.chain(fairness) {
            mechanism.set(parameter, value).map_err(|e| {
                let problem = match e.declared() {
                    Some(p) => Problem::range(value, p.range().to_string()),
                    None => {
                        let names = e.mechanism.parameters.iter().map(|p| &*p.name);
                        let reserved = RESERVED_KEYS.into_iter().filter(|k| *k != key);
                        Problem::UnknownKey {
                            known: reserved.chain(names).map(str::to_owned).collect(),
                        }
                    }
                };
                (key, problem)
            })?;
        }
        Ok(mechanism)
    }
}

impl Serialize for ControlDraft {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let given = [
            self.fairness.is_some(),
            self.gateway.is_some(),
            self.agents.is_some(),
            self.nodes.is_some(),
        ];
        let given = given.into_iter().filter(|g| *g).count();
        let mut map = s.serialize_map(Some(1 + given + self.settings.len()))?;
        map.serialize_entry("use", &self.name)?;
        if let Some(fairness) = &self.fairness {
            map.serialize_entry("fairness", fairness)?;
        }
        if let Some(gateway) = &self.gateway {
            map.serialize_entry("gateway", gateway)?;
        }
        if let Some(agents) = &self.agents {
            map.serialize_entry("agents", agents)?;
        }
        if let Some(nodes) = &self.nodes {
            map.serialize_entry("nodes", nodes)?;
        }
        for (key, value) in &self.settings {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

// Manual implementation: serde's `flatten` loses the position of an invalid value.
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
                    } else if key == "fairness" {
                        draft.fairness = Some(map.next_value()?);
                    } else if key == "gateway" {
                        draft.gateway = Some(map.next_value()?);
                    } else if key == "agents" {
                        draft.agents = Some(map.next_value()?);
                    } else if key == "nodes" {
                        draft.nodes = Some(map.next_value()?);
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
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let gateway = json!({
            "type": "string",
            "description": "The control that gateways have in place of it, with its variants.",
        });
        let mut agents = generator.subschema_for::<Vec<Name>>().to_value();
        agents["description"] = json!("Nodes that run this project's agent; without it all do.");
        let mut nodes = generator.subschema_for::<Vec<Name>>().to_value();
        nodes["description"] = json!("Nodes that take part; without it all do.");
        json_schema!({
            "type": "object",
            "description": "`use` names the mechanism, every other key is a parameter of it.",
            "properties": {
                "use": { "type": "string", "default": "fifo" },
                "gateway": gateway,
                "agents": agents,
                "nodes": nodes,
            },
        })
    }
}

/// Restricts the schema of `[control]` to the mechanisms of a registry.
///
/// It has one branch for each, with its parameters and no other key.
pub(crate) fn restrict(schema: &mut Value, registry: &Registry) {
    let keys = schema["properties"].as_object().cloned().unwrap_or_default();
    let branches: Vec<Value> = registry.all().map(|d| branch(d, &keys)).collect();
    schema["properties"] = json!({ "use": keys["use"] });
    schema["oneOf"] = branches.into();
}

/// Returns the keys of a table that uses this mechanism, with any of its variants:
/// `keys` and its parameters.
fn branch(definition: &Definition, keys: &serde_json::Map<String, Value>) -> Value {
    let variants: Vec<&str> = definition.variants.iter().map(|v| &*v.name).collect();
    let pattern = match variants.is_empty() {
        true => format!("^{}$", definition.name),
        false => format!("^{}(\\+({}))*$", definition.name, variants.join("|")),
    };
    let name = json!({ "type": "string", "pattern": pattern, "description": definition.about });
    let mut properties = keys.clone();
    properties.insert("use".to_owned(), name);
    for p in &definition.parameters {
        let unit = if p.unit.is_empty() { String::new() } else { format!(", {}", p.unit) };
        let described = json!({
            "type": if p.whole { "integer" } else { "number" },
            "description": format!("{}{unit}", p.about),
            "default": p.default,
            "minimum": p.min,
            "maximum": p.max,
        });
        properties.insert(p.name.to_string(), described);
    }
    if let Some(alpha) = definition.parameters.iter().find(|p| p.name == Fairness::PARAMETER) {
        let number = json!({ "type": "number", "minimum": alpha.min, "maximum": alpha.max });
        let table = json!({
            "type": "object",
            "properties": { "alpha": number },
            "required": ["alpha"],
            "additionalProperties": false,
        });
        let names = json!({ "enum": ["max-min", "proportional"] });
        let fairness = json!({
            "description": "Objective between flows, in place of the parameter `alpha_fairness`.",
            "oneOf": [names, table],
        });
        properties.insert("fairness".to_owned(), fairness);
    }
    // Without `use` the mechanism is fifo.
    let required = if definition.name == "fifo" { json!([]) } else { json!(["use"]) };
    json!({
        "title": definition.name,
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}
