//! Our rules of nftables as installed, and their comparison with those in the kernel.

use super::{Classifier, Layout, Place};
use crate::error::Error;
use crate::netlink::Netlink;
use crate::nft::{self, Maps, Rules};
use crate::tc::Handle;

use super::ids;

/// Rules in force.
#[derive(Debug)]
pub(super) struct RulesInForce {
    /// True if frames can be classified by Ethernet address on egress.
    egress_hook: bool,
    /// Placement of the classes that the rules give.
    place: Place,
    /// The kernel's indexes of the interfaces.
    indexes: [u32; 2],
    /// Addresses of the subscribers.
    maps: Maps,
    /// Rules in our tables.
    set: nft::alive::RuleSet,
    /// Generation of the rule set after our last change.
    ///
    /// `None` if other programs may have changed it too.
    generation: Option<u32>,
    /// Rules of other programs that write our classes into packets, as of that generation.
    pub foreign: Vec<nft::foreign::ForeignRule>,
}

impl RulesInForce {
    /// Installs our tables.
    ///
    /// # Errors
    /// `nft` refuses them.
    pub fn install(
        netfilter: &mut Netlink,
        layout: &Layout,
        classifier: [Classifier; 2],
        place: Place,
        indexes: [u32; 2],
    ) -> Result<Self, Error> {
        let egress_hook = crate::probe::egress_hook();
        let maps = Maps::of(&layout.subscribers);
        let mut rules = RulesInForce {
            egress_hook,
            place,
            indexes,
            maps,
            set: Default::default(),
            generation: None,
            foreign: Vec::new(),
        };
        rules.put(netfilter, layout, classifier)?;
        Ok(rules)
    }

    /// Writes all rules again, for a classifier.
    ///
    /// The counters of the rules restart.
    ///
    /// # Errors
    /// `nft` refuses them; the earlier ones stay in force.
    pub fn put(
        &mut self,
        netfilter: &mut Netlink,
        layout: &Layout,
        classifier: [Classifier; 2],
    ) -> Result<(), Error> {
        nft::run::apply(&self.of(layout, &self.maps, classifier).install())?;
        self.count(netfilter, layout)
    }

    /// Changes the rules to those of a new layout. Returns true if their counters restart.
    ///
    /// # Errors
    /// `nft` refuses them; the earlier ones stay in force.
    pub fn change(
        &mut self,
        netfilter: &mut Netlink,
        (old, new): (&Layout, &Layout),
        classifier: [Classifier; 2],
    ) -> Result<bool, Error> {
        let mut maps = Maps::of(&new.subscribers);
        maps.keep(&self.maps);
        let rules = self.of(new, &maps, classifier);
        let restart = old.unmapped != new.unmapped;
        let script = if restart { rules.install() } else { rules.change(&self.maps) };
        nft::run::apply(&script)?;
        self.maps = maps;
        self.count(netfilter, new)?;
        Ok(restart)
    }

    /// Returns the placement of the classes.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Renews the limits.
    ///
    /// # Errors
    /// The kernel's refusal, [`libc::ENOENT`] without our tables.
    pub fn keep(&self, netfilter: &mut Netlink, table: &str) -> Result<(), Error> {
        nft::alive::renew(
            netfilter,
            self.families(),
            table,
            &self.indexes,
            nft::CLASSIFIER_LIFETIME,
        )
    }

    /// Renews the limits and compares the rules with those in the kernel.
    ///
    /// # Errors
    /// [`Error::RulesGone`], the kernel's refusal.
    pub fn renew(
        &mut self,
        netfilter: &mut Netlink,
        layout: &Layout,
        classifier: [Classifier; 2],
    ) -> Result<(), Error> {
        let families = self.families();
        let table = &layout.table;
        let gone = || Error::RulesGone { table: table.clone() };
        let before = nft::alive::generation(netfilter)?;
        match self.keep(netfilter, table) {
            Err(e) if e.errno() == Some(libc::ENOENT) => return Err(gone()),
            other => other?,
        }
        if nft::alive::rules(netfilter, families, table)? != self.set {
            return Err(gone());
        }
        if self.generation != before {
            // Another program has changed something. Rules are compared at every call, elements only now: there may be
            // tens of thousands.
            for &family in families {
                if nft::alive::dormant(netfilter, family, table)? {
                    return Err(gone());
                }
            }
            if !self.of(layout, &self.maps, classifier).hold(netfilter)? {
                return Err(gone());
            }
            let place = self.place;
            self.foreign = nft::foreign::find(netfilter, table, |class| place.owns(class))?;
        }
        let after = nft::alive::generation(netfilter)?;
        // Changes made meanwhile are checked at the next call.
        self.generation = after.filter(|g| before.is_some_and(|b| b.wrapping_add(1) == *g));
        Ok(())
    }

    /// Records the identity of the rules when they are in place.
    fn count(&mut self, netfilter: &mut Netlink, layout: &Layout) -> Result<(), Error> {
        self.set = nft::alive::rules(netfilter, self.families(), &layout.table)?;
        self.generation = None;
        Ok(())
    }

    fn families(&self) -> &'static [u8] {
        Rules::table_families(self.egress_hook, &self.maps)
    }

    fn of<'a>(&self, layout: &'a Layout, maps: &'a Maps, classifier: [Classifier; 2]) -> Rules<'a> {
        Rules {
            layout,
            maps,
            classifier,
            egress_hook: self.egress_hook,
            bypass: Handle::new(layout.handle, ids::BYPASS),
            place: self.place,
            indexes: self.indexes,
        }
    }
}
