//! What there is to know of a mechanism, and a mechanism as it was chosen.

use core::fmt;

use super::origin::Origin;
use super::parameter::{Chosen, Parameter, Variant};
use crate::{Control, Missing, Needs, Offers, Plan, Refusal, Setting, Site, StartError};

/// What the registry knows of a mechanism.
#[derive(Debug)]
pub struct Entry {
    /// Its name on the command line, in files and in results.
    pub name: &'static str,
    /// One line for listings.
    pub about: &'static str,
    /// Whose it is, without variants.
    pub origin: Origin,
    /// Variants that hang on with a plus.
    pub variants: &'static [Variant],
    /// Numbers that may be changed.
    pub parameters: &'static [Parameter],
    /// Where it runs and how it is built.
    pub runs: Runs,
}

/// Where a mechanism runs and how it is built.
pub enum Runs {
    /// At no node: the mesh is left as it is.
    Nowhere,
    /// At the nodes that its needs name.
    At {
        /// What it requires, one entry for each kind of node.
        needs: fn(&Chosen) -> Vec<Needs>,
        /// Builds it for one of those nodes, or says what is wrong with the setting.
        build: fn(&Chosen, Setting) -> Result<Instance, Refusal>,
    },
}

/// Without addresses of functions, which differ from process to process: what is printed of a scenario
/// names it.
impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Runs::Nowhere => "Nowhere",
            Runs::At { .. } => "At",
        })
    }
}

/// A mechanism running at one node.
#[derive(Debug)]
pub struct Instance {
    /// The state machine.
    pub control: Box<dyn Control>,
    /// The classes it wants from the start.
    pub plan: Plan,
}

/// A mechanism with its variants and numbers: looked up once ([`crate::lookup`]) and passed on as
/// a value. Printed it is its name as results have it.
#[derive(Clone, Debug)]
pub struct Mechanism {
    entry: &'static Entry,
    chosen: Chosen,
}

impl Mechanism {
    /// An entry, plain and with its default numbers; for one that is in no registry.
    pub fn of(entry: &'static Entry) -> Self {
        Mechanism { entry, chosen: Chosen::plain(entry.parameters) }
    }

    /// The absence of control: `fifo`.
    pub fn none() -> Self {
        Mechanism::of(&crate::fifo::ENTRY)
    }

    /// Whether it is the absence of control, which runs at no node of any mesh.
    pub fn is_none(&self) -> bool {
        matches!(self.entry.runs, Runs::Nowhere)
    }

    /// What was chosen, for the mechanism itself.
    pub(crate) fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    /// What the registry knows of it.
    pub fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// Adds a variant; false if it has none of that name, or has it already.
    pub(super) fn add(&mut self, variant: &str) -> bool {
        match self.entry.variants.iter().position(|v| v.name == variant) {
            Some(at) if !self.chosen.has(at) => {
                self.chosen.variants |= 1 << at;
                true
            }
            _ => false,
        }
    }

    /// The variants that it has, in the order of its entry: one spelling for one choice.
    pub fn variants(&self) -> impl Iterator<Item = &'static Variant> + '_ {
        let all = self.entry.variants.iter().enumerate();
        all.filter(|(at, _)| self.chosen.has(*at)).map(|(_, variant)| variant)
    }

    /// Whether it has a variant of this name.
    pub fn has(&self, variant: &str) -> bool {
        self.variants().any(|v| v.name == variant)
    }

    /// Whether anything in it is this project's and not published: one of its variants, or the
    /// mechanism itself, unless a variant takes it back to what is published.
    pub fn is_ours(&self) -> bool {
        let back = || self.variants().any(|v| !v.origin.is_ours());
        self.variants().any(|v| v.origin.is_ours()) || (self.entry.origin.is_ours() && !back())
    }

    /// Its numbers as they are.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static Parameter, f64)> + '_ {
        self.entry.parameters.iter().zip(self.chosen.values.iter().copied())
    }

    /// The numbers that are not at their defaults.
    pub fn changed(&self) -> impl Iterator<Item = (&'static Parameter, f64)> + '_ {
        self.parameters().filter(|(p, value)| *value != p.default)
    }

    /// A number by its name in files; `None` if it has no such number.
    pub fn value(&self, parameter: &str) -> Option<f64> {
        self.parameters().find(|(p, _)| p.name == parameter).map(|(_, value)| value)
    }

    /// Changes a number.
    ///
    /// # Errors
    /// A parameter that does not exist, or a value that it may not have.
    pub fn set(&mut self, parameter: &str, value: f64) -> Result<(), ParameterError> {
        let at = self.entry.parameters.iter().position(|p| p.name == parameter);
        let declared = at.map(|at| &self.entry.parameters[at]);
        let refused = ParameterError {
            mechanism: self.entry,
            parameter: parameter.to_owned(),
            value,
            declared,
        };
        let place = at.zip(declared).filter(|(_, p)| p.allows(value)).ok_or(refused)?.0;
        self.chosen.values[place] = value;
        Ok(())
    }

    /// With the numbers of another one of the same entry; of another entry nothing is taken over.
    #[must_use]
    pub fn with_numbers_of(mut self, other: &Mechanism) -> Self {
        if self.entry.name == other.entry.name {
            self.chosen.values.clone_from(&other.chosen.values);
        }
        self
    }

    /// What it requires, one entry for each kind of node at which it runs.
    pub fn all_needs(&self) -> Vec<Needs> {
        match self.entry.runs {
            Runs::Nowhere => Vec::new(),
            Runs::At { needs, .. } => needs(&self.chosen),
        }
    }

    /// What it requires at a node of this kind; `None` where it does not run.
    pub fn needs(&self, site: &Site) -> Option<Needs> {
        let Runs::At { needs, .. } = self.entry.runs else { return None };
        needs(&self.chosen).into_iter().filter(|n| n.runs_at(site)).reduce(Needs::and)
    }

    /// Starts it at a node; `None` where it does not run.
    ///
    /// # Errors
    /// Everything that it needs there and the host does not offer, what it cannot accept in the
    /// setting, or the first thing of its plan that the host does not build.
    pub fn start(&self, setting: Setting, offers: &Offers) -> Result<Option<Instance>, StartError> {
        let Runs::At { build, .. } = self.entry.runs else { return Ok(None) };
        let Some(needs) = self.needs(&setting.site) else { return Ok(None) };
        let name = self.to_string();
        Missing::check(&name, &needs, offers)?;
        let refused = |why| StartError::Refused { mechanism: name.clone(), why };
        let instance = build(&self.chosen, setting).map_err(refused)?;
        offers.accepts(&name, &instance.plan)?;
        Ok(Some(instance))
    }
}

/// The same entry with the same variants and numbers.
impl PartialEq for Mechanism {
    fn eq(&self, other: &Self) -> bool {
        self.entry.name == other.entry.name && self.chosen == other.chosen
    }
}

#[cfg(feature = "conformance")]
impl Mechanism {
    /// Builds it where it runs, whatever the host offers.
    pub(crate) fn build(&self, setting: Setting) -> Result<Instance, Refusal> {
        match self.entry.runs {
            Runs::At { build, .. } => build(&self.chosen, setting),
            Runs::Nowhere => unreachable!("it needs nothing anywhere"),
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.entry.name)?;
        self.variants().try_for_each(|v| write!(f, "+{}", v.name))
    }
}

/// A number that a mechanism does not have, or does not allow.
#[derive(Clone, Debug)]
pub struct ParameterError {
    /// The mechanism.
    pub mechanism: &'static Entry,
    /// The parameter's name as given.
    pub parameter: String,
    /// The value as given.
    pub value: f64,
    /// What it is declared as; `None` where there is none of that name.
    pub declared: Option<&'static Parameter>,
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ParameterError { mechanism, parameter, value, declared } = self;
        match declared {
            Some(p) => {
                let must = if p.whole { "must be" } else { "must lie in" };
                write!(f, "{}: {parameter} {must} {}, not {value}", mechanism.name, p.range())
            }
            None => {
                write!(f, "{} has no \"{parameter}\"; it has: ", mechanism.name)?;
                list(f, mechanism.parameters.iter().map(|p| p.name))
            }
        }
    }
}
impl core::error::Error for ParameterError {}

/// Names after one another, for messages.
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
