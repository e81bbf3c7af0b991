//! What there is to know of a mechanism, and a mechanism as it was chosen.

use core::fmt;

use crate::{Control, Missing, Needs, Offers, Plan, Refused, Setting, Site, StartError};

/// What the registry knows of a mechanism.
#[derive(Debug)]
pub struct Entry {
    /// Its name on the command line, in files and in results.
    pub name: &'static str,
    /// One line for listings.
    pub about: &'static str,
    /// Where it is published.
    pub paper: &'static str,
    /// Variants that hang on with a plus.
    pub variants: &'static [Variant],
    /// Numbers that may be changed.
    pub knobs: &'static [Knob],
    /// Where it runs and how it is built.
    pub runs: Runs,
}

/// Where a mechanism runs and how it is built.
#[derive(Debug)]
pub enum Runs {
    /// At no node: the mesh is left as it is.
    Nowhere,
    /// At the nodes that its needs name.
    At {
        /// What it requires, one entry for each kind of node.
        needs: fn(&Options) -> Vec<Needs>,
        /// Builds it for one of those nodes, or says what is wrong with the setting.
        build: fn(&Options, Setting) -> Result<Instance, Refused>,
    },
}

/// A variant of a mechanism.
#[derive(Debug)]
pub struct Variant {
    /// What follows the plus.
    pub name: &'static str,
    /// One line for listings.
    pub about: &'static str,
}

/// A number of a mechanism that may be changed.
#[derive(Debug)]
pub struct Knob {
    /// Its key in files.
    pub name: &'static str,
    /// One line for listings, unit included.
    pub about: &'static str,
    /// Its value unless changed.
    pub default: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

/// A knob in one line, for the table of an [`Entry`].
pub(crate) const fn knob(
    name: &'static str,
    about: &'static str,
    default: f64,
    min: f64,
    max: f64,
) -> Knob {
    Knob { name, about, default, min, max }
}

/// The chosen variants and numbers.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    variants: Vec<&'static str>,
    knobs: Vec<(&'static str, f64)>,
}

impl Options {
    /// Whether a variant was chosen.
    pub fn has(&self, variant: &str) -> bool {
        self.variants.contains(&variant)
    }

    /// A knob's value; 0 for one that the mechanism does not have.
    pub fn get(&self, knob: &str) -> f64 {
        debug_assert!(self.knobs.iter().any(|k| k.0 == knob), "no knob {knob}");
        self.knobs.iter().find(|k| k.0 == knob).map_or(0.0, |k| k.1)
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

/// A mechanism chosen by name, with its variants and numbers.
#[derive(Clone, Debug)]
pub struct Mechanism {
    entry: &'static Entry,
    options: Options,
}

impl Mechanism {
    /// A mechanism that is in no registry, plain and with its default numbers.
    pub fn of(entry: &'static Entry) -> Self {
        Mechanism::with_variants(entry, Vec::new())
    }

    /// With variants of its entry and its default numbers.
    pub(crate) fn with_variants(entry: &'static Entry, variants: Vec<&'static str>) -> Self {
        let knobs = entry.knobs.iter().map(|k| (k.name, k.default)).collect();
        Mechanism { entry, options: Options { variants, knobs } }
    }

    /// What the registry knows of it.
    pub fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// Changes a number.
    ///
    /// # Errors
    /// A knob that does not exist, or a value out of its range.
    pub fn set(&mut self, knob: &str, value: f64) -> Result<(), UnknownKnob> {
        let entry = self.entry;
        let refuse = || UnknownKnob { mechanism: entry, knob: knob.to_owned(), value };
        let spec = entry.knobs.iter().find(|k| k.name == knob).ok_or_else(refuse)?;
        if !(spec.min..=spec.max).contains(&value) {
            return Err(refuse());
        }
        for (name, current) in &mut self.options.knobs {
            if *name == knob {
                *current = value;
            }
        }
        Ok(())
    }

    /// What it requires, one entry for each kind of node at which it runs.
    pub fn all_needs(&self) -> Vec<Needs> {
        match self.entry.runs {
            Runs::Nowhere => Vec::new(),
            Runs::At { needs, .. } => needs(&self.options),
        }
    }

    /// What it requires at a node of this kind; `None` where it does not run.
    pub fn needs(&self, site: &Site) -> Option<Needs> {
        let Runs::At { needs, .. } = self.entry.runs else { return None };
        needs(&self.options).into_iter().filter(|n| n.runs_at(site)).reduce(Needs::and)
    }

    /// Starts it at a node; `None` where it does not run.
    ///
    /// # Errors
    /// Everything that it needs there and the host does not offer, or what it cannot accept in the
    /// setting.
    pub fn start(&self, setting: Setting, offers: &Offers) -> Result<Option<Instance>, StartError> {
        let Runs::At { build, .. } = self.entry.runs else { return Ok(None) };
        let Some(needs) = self.needs(&setting.site) else { return Ok(None) };
        Missing::check(&self.to_string(), &needs, offers)?;
        let refused = |why| StartError::Refused { mechanism: self.to_string(), why };
        build(&self.options, setting).map(Some).map_err(refused)
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.entry.name)?;
        self.options.variants.iter().try_for_each(|v| write!(f, "+{v}"))
    }
}

/// A number that a mechanism does not have, or does not allow.
#[derive(Clone, Debug)]
pub struct UnknownKnob {
    /// The mechanism.
    pub mechanism: &'static Entry,
    /// The knob's name as given.
    pub knob: String,
    /// The value as given.
    pub value: f64,
}

impl fmt::Display for UnknownKnob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnknownKnob { mechanism, knob, value } = self;
        match mechanism.knobs.iter().find(|k| k.name == knob) {
            Some(k) => {
                let Knob { min, max, .. } = k;
                write!(f, "{}: {knob} must lie in {min} to {max}, not {value}", mechanism.name)
            }
            None => {
                write!(f, "{} has no \"{knob}\"; it has: ", mechanism.name)?;
                list(f, mechanism.knobs.iter().map(|k| k.name))
            }
        }
    }
}
impl core::error::Error for UnknownKnob {}

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
