//! Mechanisms by name.

use core::fmt;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use super::mechanism::list;
use crate::{Definition, Mechanism};

/// The mechanisms of this crate, in the order in which they are listed.
static STANDARD: LazyLock<Registry> = LazyLock::new(|| {
    let mut registry = Registry::empty();
    for definition in crate::standard_definitions() {
        let name = definition.name.clone();
        let definition = definition.with_revision(Definition::SHIPPED);
        registry.add(definition).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    registry
});

/// Keys of a scenario's `[control]` that are not parameters of a mechanism.
pub const RESERVED_KEYS: [&str; 5] = ["use", "gateway", "agents", "nodes", "fairness"];
/// Names of removed mechanisms, and their replacements.
const RENAMED_MECHANISMS: [(&str, &str); 1] = [("maxmin", "rtt")];
/// Largest number of variants of one definition.
pub const MAX_VARIANTS: usize = 64;

/// The mechanisms that a program knows, by name.
///
/// It is a value: code that reads the name of a control takes a registry as a parameter.
///
/// ```
/// use fairmesh_control::{Definition, Origin, Registry, Runs};
///
/// let mut registry = Registry::standard();
/// assert_eq!(registry.lookup("pfrc+bursts").unwrap().to_string(), "pfrc+bursts");
///
/// let own = Definition::new("own", "a mechanism of another crate", Origin::ours(""))
///     .with_revision("own 1.0");
/// registry.add(own.clone()).unwrap();
/// assert!(registry.lookup("own").is_ok());
/// assert_eq!(registry.add(own).unwrap_err().to_string(), "a control named \"own\" is already registered");
/// ```
#[derive(Clone, Debug)]
pub struct Registry {
    definitions: Vec<Arc<Definition>>,
}

impl Registry {
    /// All mechanisms of this crate.
    pub fn standard() -> Self {
        STANDARD.clone()
    }

    /// Only `fifo`, the absence of control, which a scenario without `[control]` uses.
    pub fn empty() -> Self {
        Registry { definitions: vec![Arc::clone(Mechanism::none().definition())] }
    }

    /// Adds a mechanism at the end of the list.
    ///
    /// # Errors
    /// A name that is taken, a missing revision, or options that cannot be distinguished or set.
    pub fn add(&mut self, definition: impl Into<Arc<Definition>>) -> Result<(), DefinitionError> {
        let definition = definition.into();
        if self.get(&definition.name).is_some() {
            return Err(DefinitionError::Duplicate { name: definition.name.clone().into_owned() });
        }
        check(&definition)?;
        self.definitions.push(definition);
        Ok(())
    }

    /// Returns the definition of this name, without variants.
    pub fn get(&self, name: &str) -> Option<&Arc<Definition>> {
        self.definitions.iter().find(|d| d.name == name)
    }

    /// Returns all definitions, in the order in which they were added.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.definitions.iter()
    }

    /// Finds a mechanism by its name, followed by variants, each after a plus.
    ///
    /// # Errors
    /// Returns an error if a name or variant that does not exist, with a list of those that do.
    pub fn lookup(&self, name: &str) -> Result<Mechanism, UnknownControl> {
        let mut parts = name.trim().split('+');
        let base = parts.next().unwrap_or_default();
        let Some(definition) = self.get(base) else {
            if let Some(new) = self.replacement(base, parts) {
                return Err(UnknownControl { given: name.to_owned(), of: None, known: vec![new] });
            }
            let known = self.all().map(|d| d.name.clone().into_owned()).collect();
            return Err(UnknownControl { given: base.to_owned(), of: None, known });
        };
        let mut mechanism = Mechanism::of(Arc::clone(definition));
        for part in parts {
            if !mechanism.add(part) {
                let name = &definition.name;
                let variants = definition.variants.iter().map(|v| format!("{name}+{}", v.name));
                let known = core::iter::once(name.clone().into_owned()).chain(variants).collect();
                let of = Some(Arc::clone(definition));
                return Err(UnknownControl { given: part.to_owned(), of, known });
            }
        }
        Ok(mechanism)
    }

    /// Returns the name and variants of the mechanism that replaces a removed one.
    fn replacement<'a>(&self, base: &str, parts: impl Iterator<Item = &'a str>) -> Option<String> {
        let (_, new) = RENAMED_MECHANISMS.iter().find(|(old, _)| *old == base)?;
        let definition = self.get(new)?;
        let has = |part: &&str| definition.variants.iter().any(|v| v.name == *part);
        Some(parts.filter(has).fold((*new).to_owned(), |name, part| name + "+" + part))
    }
}

/// Checks that options can be written, distinguished and left at their defaults.
fn check(definition: &Definition) -> Result<(), DefinitionError> {
    let of = || definition.name.clone().into_owned();
    if !is_name(&definition.name, "-") {
        return Err(DefinitionError::Name { control: of(), name: of() });
    }
    if definition.revision.is_empty() {
        return Err(DefinitionError::NoRevision { control: of() });
    }
    if definition.variants.len() > MAX_VARIANTS {
        let number = definition.variants.len();
        return Err(DefinitionError::TooManyVariants { control: of(), number });
    }
    let variants = definition.variants.iter().map(|v| &v.name);
    let parameters = definition.parameters.iter().map(|p| &p.name);
    for names in [variants.collect::<Vec<_>>(), parameters.collect()] {
        let mut seen = BTreeSet::new();
        for name in names {
            let name = name.clone().into_owned();
            if !is_name(&name, "-_") {
                return Err(DefinitionError::Name { control: of(), name });
            }
            if !seen.insert(name.clone()) {
                return Err(DefinitionError::RepeatedOption { control: of(), option: name });
            }
        }
    }
    for p in &definition.parameters {
        if RESERVED_KEYS.contains(&&*p.name) {
            let parameter = p.name.clone().into_owned();
            return Err(DefinitionError::ReservedKey { control: of(), parameter });
        }
        if !p.allows(p.default) {
            let parameter = p.name.clone().into_owned();
            return Err(DefinitionError::Default { control: of(), parameter, default: p.default });
        }
    }
    Ok(())
}

/// True if a name consists of letters, digits and these marks, and starts with a letter.
fn is_name(name: &str, marks: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || marks.contains(c))
}

/// Reason for which a [`Registry`] rejects a [`Definition`].
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum DefinitionError {
    /// The name is taken.
    Duplicate {
        /// The name.
        name: String,
    },
    /// A name of the control or of an option that files and command lines cannot represent.
    Name {
        /// The control.
        control: String,
        /// The rejected name.
        name: String,
    },
    /// A mechanism of another crate without [`Definition::with_revision`].
    ///
    /// Results of two of its versions would have the same key.
    NoRevision {
        /// The control.
        control: String,
    },
    /// More than [`MAX_VARIANTS`] variants.
    TooManyVariants {
        /// The control.
        control: String,
        /// Number of its variants.
        number: usize,
    },
    /// Two variants or two parameters of the same name.
    RepeatedOption {
        /// The control.
        control: String,
        /// The repeated name.
        option: String,
    },
    /// A parameter with the name of a key of `[control]`.
    ReservedKey {
        /// The control.
        control: String,
        /// The parameter.
        parameter: String,
    },
    /// A default outside the parameter's own range.
    Default {
        /// The control.
        control: String,
        /// The parameter.
        parameter: String,
        /// Default value of the parameter.
        default: f64,
    },
}

impl fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DefinitionError::Duplicate { name } => {
                write!(f, "a control named \"{name}\" is already registered")
            }
            DefinitionError::Name { control, name } => write!(
                f,
                "control \"{control}\": \"{name}\" is not a name; expected a letter, then letters, \
                 digits and hyphens"
            ),
            DefinitionError::NoRevision { control } => write!(
                f,
                "control \"{control}\" has no revision; expected a text that changes with its \
                 results, such as the version of its crate"
            ),
            DefinitionError::TooManyVariants { control, number } => write!(
                f,
                "control \"{control}\": {number} variants; expected at most {MAX_VARIANTS}"
            ),
            DefinitionError::RepeatedOption { control, option } => {
                write!(f, "control \"{control}\": option \"{option}\" is declared twice")
            }
            DefinitionError::ReservedKey { control, parameter } => write!(
                f,
                "control \"{control}\": \"{parameter}\" is a key of `[control]`; \
                 expected another name for the parameter"
            ),
            DefinitionError::Default { control, parameter, default } => write!(
                f,
                "control \"{control}\": the default of \"{parameter}\", {default}, is outside of its \
                 range"
            ),
        }
    }
}
impl core::error::Error for DefinitionError {}

/// A name that no mechanism, or variant of the mechanism, has.
#[derive(Clone, Debug)]
pub struct UnknownControl {
    /// The rejected part of the name.
    pub given: String,
    /// Mechanism to which the variant should belong.
    pub of: Option<Arc<Definition>>,
    /// Valid names: all mechanisms, or one mechanism with each variant.
    pub known: Vec<String>,
}

impl fmt::Display for UnknownControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            None => {
                write!(f, "unknown control \"{}\"; known: ", self.given)?;
                list(f, self.known.iter().map(String::as_str))
            }
            Some(definition) => {
                let (given, name) = (&self.given, &definition.name);
                write!(f, "\"{given}\" is not a variant of {name}, or given twice; variants: ")?;
                list(f, definition.variants.iter().map(|v| &*v.name))
            }
        }
    }
}
impl core::error::Error for UnknownControl {}
