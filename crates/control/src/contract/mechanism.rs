//! A selected mechanism: its definition, variants and parameters.

use core::fmt;
use std::sync::{Arc, LazyLock};

use super::definition::{Build, Definition, Instance, Runs};
use super::options::{Chosen, Parameter, Variant};
use crate::{Delivery, Missing, Needs, Offers, Setting, Site, StartError};

/// The absence of control, shared by all registries.
static FIFO: LazyLock<Arc<Definition>> =
    LazyLock::new(|| Arc::new(crate::fifo::definition().with_revision(Definition::SHIPPED)));

/// A mechanism with its variants and parameters.
///
/// It is looked up once ([`crate::Registry::lookup`]) and passed on as a value. It prints as its name in results.
#[derive(Clone, Debug)]
pub struct Mechanism {
    definition: Arc<Definition>,
    chosen: Chosen,
}

impl Mechanism {
    /// A definition without variants and with its default parameters, registered or not.
    pub fn of(definition: impl Into<Arc<Definition>>) -> Self {
        let definition = definition.into();
        let chosen = Chosen::plain(&definition.parameters);
        Mechanism { definition, chosen }
    }

    /// The absence of control: `fifo`.
    pub fn none() -> Self {
        Mechanism::of(Arc::clone(&FIFO))
    }

    /// True if it is the absence of control, which runs at no node of any mesh.
    pub fn is_none(&self) -> bool {
        matches!(self.definition.runs, Runs::Nowhere)
    }

    /// Returns the selected options, for the mechanism itself.
    pub(crate) fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    /// Returns the definition of the mechanism.
    pub fn definition(&self) -> &Arc<Definition> {
        &self.definition
    }

    /// Adds a variant; returns false if it does not exist or is already present.
    pub(super) fn add(&mut self, variant: &str) -> bool {
        match self.definition.variants.iter().position(|v| v.name == variant) {
            Some(at) if !self.chosen.has(at) => {
                self.chosen.variants |= 1 << at;
                true
            }
            _ => false,
        }
    }

    /// Returns the selected variants in the order of the definition.
    ///
    /// A selection therefore has only one spelling.
    pub fn variants(&self) -> impl Iterator<Item = &Variant> {
        let all = self.definition.variants.iter().enumerate();
        all.filter(|(at, _)| self.chosen.has(*at)).map(|(_, variant)| variant)
    }

    /// True if it has a variant of this name.
    pub fn has(&self, variant: &str) -> bool {
        self.variants().any(|v| v.name == variant)
    }

    /// True if the mechanism itself, or one of its variants, is not published.
    pub fn is_ours(&self) -> bool {
        self.definition.origin.is_ours() || self.variants().any(|v| v.origin.is_ours())
    }

    /// Returns its parameters with their present values.
    pub fn parameters(&self) -> impl Iterator<Item = (&Parameter, f64)> {
        self.definition.parameters.iter().zip(self.chosen.values.iter().copied())
    }

    /// Returns the parameters that differ from their defaults.
    pub fn changed(&self) -> impl Iterator<Item = (&Parameter, f64)> {
        self.parameters().filter(|(p, value)| *value != p.default)
    }

    /// Returns the value of a parameter by its name in files; `None` if it does not exist.
    pub fn value(&self, parameter: &str) -> Option<f64> {
        self.parameters().find(|(p, _)| p.name == parameter).map(|(_, value)| value)
    }

    /// Changes a parameter.
    ///
    /// # Errors
    /// A parameter that does not exist, or a value outside its range.
    pub fn set(&mut self, parameter: &str, value: f64) -> Result<(), ParameterError> {
        let at = self.definition.parameters.iter().position(|p| p.name == parameter);
        let declared = at.map(|at| &self.definition.parameters[at]);
        let allowed = at.zip(declared).filter(|(_, p)| p.allows(value));
        let refused = || ParameterError {
            mechanism: Arc::clone(&self.definition),
            parameter: parameter.to_owned(),
            value,
        };
        let (place, _) = allowed.ok_or_else(refused)?;
        self.chosen.values[place] = value;
        Ok(())
    }

    /// Takes over the parameters of another mechanism of the same name; of another name, none.
    #[must_use]
    pub fn with_numbers_of(mut self, other: &Mechanism) -> Self {
        if self.definition.name == other.definition.name {
            self.chosen.values.clone_from(&other.chosen.values);
        }
        self
    }

    /// Returns its needs, one entry for each kind of node at which it runs.
    pub fn all_needs(&self) -> Vec<Needs> {
        match &self.definition.runs {
            Runs::Nowhere => Vec::new(),
            Runs::At { needs, .. } => needs(&self.chosen),
        }
    }

    /// Returns its needs at a node of this kind; `None` if it does not run there.
    pub fn needs(&self, site: &Site) -> Option<Needs> {
        let Runs::At { needs, .. } = &self.definition.runs else { return None };
        needs(&self.chosen).into_iter().filter(|n| n.runs_at(site)).reduce(Needs::and)
    }

    /// Starts it at a node; returns `None` if it does not run there.
    ///
    /// # Errors
    /// All needs that the host does not offer, a setting that it cannot accept, or the first part of its plan that the
    /// host does not build.
    pub fn start(&self, setting: Setting, offers: &Offers) -> Result<Option<Instance>, StartError> {
        let Runs::At { build, .. } = &self.definition.runs else { return Ok(None) };
        let Some(needs) = self.needs(&setting.site) else { return Ok(None) };
        let name = self.to_string();
        Missing::check(&name, &needs, offers)?;
        let refused = |why| StartError::Refused { mechanism: name.clone(), why };
        let instance = self.assemble(build, needs.delivery, setting).map_err(refused)?;
        offers.accepts(&name, &instance.plan)?;
        Ok(Some(instance))
    }

    /// Builds the state machine, behind the code for sums and messages if it needs that.
    fn assemble(
        &self,
        build: &Build,
        delivery: Delivery,
        setting: Setting,
    ) -> Result<Instance, crate::Refusal> {
        let (node, stream) = (setting.node, setting.stream.clone());
        let instance = build(&self.chosen, setting)?;
        Ok(crate::host::delivery::install(instance, delivery, node, stream))
    }
}

/// Compares name, revision, variants and parameters, as the keys of results do.
impl PartialEq for Mechanism {
    fn eq(&self, other: &Self) -> bool {
        self.definition.name == other.definition.name
            && self.definition.revision == other.definition.revision
            && self.chosen == other.chosen
    }
}

#[cfg(feature = "conformance")]
impl Mechanism {
    /// Builds it if it runs at this node, whatever the host offers.
    pub(crate) fn build(&self, setting: Setting) -> Result<Instance, crate::Refusal> {
        let delivery = self.needs(&setting.site).unwrap_or_default().delivery;
        match &self.definition.runs {
            Runs::At { build, .. } => self.assemble(build, delivery, setting),
            Runs::Nowhere => unreachable!("it needs nothing anywhere"),
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.definition.name)?;
        self.variants().try_for_each(|v| write!(f, "+{}", v.name))
    }
}

/// A parameter that a mechanism does not have, or a value that it does not allow.
#[derive(Clone, Debug)]
pub struct ParameterError {
    /// The mechanism.
    pub mechanism: Arc<Definition>,
    /// Name of the parameter as given.
    pub parameter: String,
    /// Value as given.
    pub value: f64,
}

impl ParameterError {
    /// Returns its declaration; `None` if there is no parameter of that name.
    pub fn declared(&self) -> Option<&Parameter> {
        self.mechanism.parameters.iter().find(|p| p.name == self.parameter)
    }
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ParameterError { mechanism, parameter, value } = self;
        match self.declared() {
            Some(p) => {
                let must = if p.whole { "must be" } else { "must lie in" };
                write!(f, "{}: {parameter} {must} {}, not {value}", mechanism.name, p.range())
            }
            None => {
                write!(f, "{} has no \"{parameter}\"; it has: ", mechanism.name)?;
                list(f, mechanism.parameters.iter().map(|p| &*p.name))
            }
        }
    }
}
impl core::error::Error for ParameterError {}

/// Joins names for messages.
pub(crate) fn list<'a>(
    f: &mut fmt::Formatter<'_>,
    mut names: impl Iterator<Item = &'a str>,
) -> fmt::Result {
    match names.next() {
        None => f.write_str("none")?,
        Some(first) => f.write_str(first)?,
    }
    names.try_for_each(|n| write!(f, ", {n}"))
}
