//! Definition of a mechanism, as a registry stores it.

use core::fmt;
use std::borrow::Cow;
use std::sync::Arc;

use super::options::{OptionSet, Parameter, Variant};
use super::origin::Origin;
use crate::{Chosen, Control, Needs, Plan, Refusal, Setting};

/// A mechanism as a [`crate::Registry`] stores it: name, origin, options and constructor.
///
/// All text may be owned, so that a definition can use names that are known only at run time. `docs/control.md` shows
/// how to write one; `examples/own-mechanism` defines one in a separate crate.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Name on the command line, in files and in results.
    pub name: Cow<'static, str>,
    /// One line for listings.
    pub about: Cow<'static, str>,
    /// Origin of the mechanism without variants.
    pub origin: Origin,
    /// Variants that can be appended with a plus; at most [`crate::MAX_VARIANTS`].
    pub variants: Vec<Variant>,
    /// Parameters that may be changed.
    pub parameters: Vec<Parameter>,
    /// Nodes at which it runs, and its constructor.
    pub runs: Runs,
    /// Text that identifies its results, part of the key of every stored result.
    ///
    /// It must change whenever the mechanism decides differently: the package and version of its crate, or a hash of a
    /// script. Mechanisms of this crate have [`Definition::SHIPPED`].
    pub revision: Cow<'static, str>,
}

impl Definition {
    /// Revision of the mechanisms of this crate: the engine's revision identifies their results.
    ///
    /// No mechanism of another crate may have it.
    pub const SHIPPED: &str = "fairmesh";

    /// A mechanism without options that runs nowhere.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        about: impl Into<Cow<'static, str>>,
        origin: Origin,
    ) -> Self {
        Definition {
            name: name.into(),
            about: about.into(),
            origin,
            variants: Vec::new(),
            parameters: Vec::new(),
            runs: Runs::Nowhere,
            revision: Cow::Borrowed(""),
        }
    }

    /// Sets the text that identifies its results.
    ///
    /// For example `concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"))`.
    #[must_use]
    pub fn with_revision(self, revision: impl Into<Cow<'static, str>>) -> Self {
        Definition { revision: revision.into(), ..self }
    }

    /// Declares options with [`crate::options!`] and builds the mechanism from them.
    ///
    /// `needs` has one entry for each kind of node; `build` is called at each of those nodes.
    #[must_use]
    pub fn with_options<O: OptionSet>(
        self,
        needs: impl Fn(&O) -> Vec<Needs> + Send + Sync + 'static,
        build: impl Fn(&O, Setting) -> Result<Instance, Refusal> + Send + Sync + 'static,
    ) -> Self {
        Definition {
            variants: O::variants(),
            parameters: O::parameters(),
            runs: Runs::at(move |c| needs(&O::of(c)), move |c, s| build(&O::of(c), s)),
            ..self
        }
    }

    /// Declares the nodes and the constructor of the mechanism.
    ///
    /// Its options are given by their indices in `variants` and `parameters`.
    #[must_use]
    pub fn with_runs(self, runs: Runs) -> Self {
        Definition { runs, ..self }
    }

    /// Gives a parameter another description and default.
    ///
    /// # Panics
    /// If there is no parameter of that name.
    #[must_use]
    pub fn with_default(
        mut self,
        parameter: &str,
        about: impl Into<Cow<'static, str>>,
        default: f64,
    ) -> Self {
        let found = self.parameters.iter_mut().find(|p| p.name == parameter);
        let found = found.unwrap_or_else(|| panic!("no parameter called {parameter}"));
        (found.about, found.default) = (about.into(), default);
        self
    }
}

/// Returns the needs of a mechanism with these options.
///
/// There is one entry for each kind of node at which it runs.
pub type NeedsOf = Arc<dyn Fn(&Chosen) -> Vec<Needs> + Send + Sync>;
/// Builds a mechanism with these options for one node, or refuses the setting.
pub type Build = Arc<dyn Fn(&Chosen, Setting) -> Result<Instance, Refusal> + Send + Sync>;

/// Nodes at which a mechanism runs, and its constructor.
#[derive(Clone)]
pub enum Runs {
    /// Runs at no node: the mesh is left as it is.
    Nowhere,
    /// Runs at the nodes that its needs name.
    At {
        /// Returns its needs, one entry for each kind of node.
        needs: NeedsOf,
        /// Builds it for one of those nodes.
        build: Build,
    },
}

impl Runs {
    /// [`Runs::At`] from two functions.
    pub fn at(
        needs: impl Fn(&Chosen) -> Vec<Needs> + Send + Sync + 'static,
        build: impl Fn(&Chosen, Setting) -> Result<Instance, Refusal> + Send + Sync + 'static,
    ) -> Self {
        Runs::At { needs: Arc::new(needs), build: Arc::new(build) }
    }
}

/// Prints no addresses of functions.
///
/// They differ between processes, and the text of a scenario contains this one.
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
    /// Classes that it needs from the start.
    pub plan: Plan,
}
