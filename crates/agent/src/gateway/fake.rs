//! A data plane without a kernel, for tests: a mesh of one rule, and faults on request.

use std::collections::BTreeMap;

use fairmesh_linux::{
    ClassCounters, ClassId, Classifier, Deviation, Direction, Error, Features, Installed,
    InterfaceCounters, Layout, LeafKind, RateChange, RelayoutResult, Removed, SentCounters, Shaper,
    Side, Slot, Verification,
};
use fairmesh_units::BitRate;

/// Fault of the plane.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Broken {
    #[default]
    Nothing,
    /// Class counters do not change.
    Stuck,
    /// Samples contain no class.
    Missing,
    /// Counters jump by impossible amounts.
    Absurd,
    /// Counters fall with every sample.
    Backwards,
    /// Reading fails.
    Sample,
    /// Setting rates fails.
    Apply,
    /// Setting rates fails and so does lifting them.
    ApplyAndRelease,
    /// The interface is gone.
    Interface,
    /// Another program flushed the rule set; installing restores it.
    Rules,
    /// Another program flushes the rule set repeatedly.
    RulesAgain,
    /// The state of the rules cannot be read.
    Renew,
}

#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct FakeClass {
    pub rate: Option<BitRate>,
    /// Offered load, bit/s of frames.
    pub demand: f64,
    /// Bytes that wait in the queue.
    pub backlog: u64,
    pub bytes: u64,
    pub packets: u64,
}

/// A fake data plane with frames of 1514 bytes.
///
/// Downstream and upstream share a capacity, which flows take in the order of their slots, as near
/// nodes do in a mesh without control.
#[derive(Default, Debug)]
pub(crate) struct FakeShaper {
    pub classes: BTreeMap<Slot, FakeClass>,
    /// Last layout.
    pub layout: Option<Layout>,
    pub capacity: f64,
    /// Rate that a class with demand gets at least, bit/s: retransmissions of a starved home.
    pub floor: f64,
    /// True if every packet downstream causes one of 66 bytes upstream, which takes no capacity.
    pub answered: bool,
    pub broken: Broken,
    /// Bytes that the interfaces have sent.
    pub sent: [u64; 2],
    /// Link headers, bytes, unless Ethernet's.
    pub headers: Option<[u16; 2]>,
    pub installed: bool,
    /// True if upstream traffic is classified by marks from now on.
    pub marks: bool,
    pub installs: u32,
    pub relayouts: u32,
    pub releases: u32,
    pub removes: u32,
    pub rate_calls: u32,
    pub renewals: u32,
    pub looks: u64,
    /// Results of an audit.
    pub deviations: Vec<Deviation>,
    /// True if installing and changing the layout do not end.
    pub busy: bool,
}

const FRAME: u64 = 1514;

impl FakeShaper {
    pub fn slot(class: u16, direction: Direction) -> Slot {
        Slot { class: ClassId(class), direction }
    }

    pub fn rate(&self, class: u16, direction: Direction) -> Option<BitRate> {
        self.classes.get(&FakeShaper::slot(class, direction)).and_then(|c| c.rate)
    }

    /// True if no class is limited.
    pub fn free(&self) -> bool {
        self.classes.values().all(|c| c.rate.is_none())
    }

    /// Lets traffic flow for `seconds`.
    pub fn run(&mut self, seconds: f64) {
        let mut left = self.capacity;
        let mut answers = Vec::new();
        for (slot, class) in &mut self.classes {
            if slot.class == ClassId::ALL {
                continue;
            }
            let limit = class.rate.map_or(f64::INFINITY, |r| r.0 as f64);
            let rate = class.demand.min(limit).min(left.max(self.floor));
            left = (left - rate).max(0.0);
            let packets = (rate * seconds / 8.0 / FRAME as f64).round() as u64;
            class.packets += packets;
            class.bytes += packets * FRAME;
            self.sent[usize::from(slot.direction == Direction::Up)] += packets * FRAME;
            if self.answered && slot.direction == Direction::Down {
                answers.push((Slot { direction: Direction::Up, ..*slot }, packets));
            }
        }
        for (slot, packets) in answers {
            if let Some(class) = self.classes.get_mut(&slot) {
                class.packets += packets;
                class.bytes += packets * 66;
                self.sent[1] += packets * 66;
            }
        }
    }

    fn lay(&mut self, layout: &Layout) -> RelayoutResult {
        self.layout = Some(layout.clone());
        let wanted: Vec<Slot> = layout
            .subscribers
            .iter()
            .flat_map(|s| Direction::BOTH.map(|direction| Slot { class: s.class, direction }))
            .chain(Direction::BOTH.map(|direction| Slot { class: ClassId::ALL, direction }))
            .collect();
        let before = self.classes.len();
        self.classes.retain(|slot, _| wanted.contains(slot));
        let removed = before - self.classes.len();
        let kept = self.classes.len();
        for slot in wanted {
            self.classes.entry(slot).or_default();
        }
        RelayoutResult { added: self.classes.len() - kept, removed, changed: 0 }
    }

    fn gone() -> Error {
        Error::NoInterface("bat0".into())
    }

    fn refusal(what: &str) -> Error {
        Error::Kernel {
            what: what.into(),
            source: std::io::Error::from_raw_os_error(12),
            message: None,
        }
    }
}

impl Shaper for FakeShaper {
    fn probe(&mut self) -> Result<Features, Error> {
        Err(FakeShaper::refusal("probe"))
    }

    fn install(&mut self, layout: &Layout) -> Result<Installed, Error> {
        if self.broken == Broken::Interface {
            return Err(FakeShaper::gone());
        }
        if self.busy {
            return Err(Error::Busy { program: "nft", seconds: 1 });
        }
        if self.broken == Broken::Rules {
            self.broken = Broken::Nothing;
        }
        let adopted = !self.classes.is_empty();
        self.lay(layout);
        self.classes.values_mut().for_each(|c| c.rate = None);
        self.installed = true;
        self.installs += 1;
        Ok(Installed {
            shaper: fairmesh_linux::ShaperKind::Htb,
            leaf: LeafKind::Pfifo,
            classifier: [Classifier::Priority; 2],
            adopted,
            swept: 0,
            headers: self.headers.unwrap_or([14; 2]),
            replaced: Vec::new(),
            notes: Vec::new(),
        })
    }

    fn relayout(&mut self, layout: &Layout) -> Result<RelayoutResult, Error> {
        if self.broken == Broken::Interface {
            return Err(FakeShaper::gone());
        }
        if self.busy {
            return Err(Error::Busy { program: "nft", seconds: 1 });
        }
        self.relayouts += 1;
        Ok(self.lay(layout))
    }

    fn set_rates(&mut self, changes: &[RateChange]) -> Result<(), Error> {
        self.rate_calls += 1;
        match self.broken {
            Broken::Interface => return Err(FakeShaper::gone()),
            Broken::Apply | Broken::ApplyAndRelease => {
                return Err(FakeShaper::refusal("set rates"));
            }
            _ => {}
        }
        for change in changes {
            assert_ne!(change.rate, Some(BitRate(0)), "a class is never stopped");
            self.classes.get_mut(&change.slot).expect("a class that is there").rate = change.rate;
        }
        Ok(())
    }

    fn sample(&mut self, out: &mut Vec<ClassCounters>) -> Result<(), Error> {
        out.clear();
        self.looks += 1;
        match self.broken {
            Broken::Interface => return Err(FakeShaper::gone()),
            Broken::Sample => return Err(FakeShaper::refusal("dump classes")),
            Broken::Missing => return Ok(()),
            _ => {}
        }
        for (slot, class) in self.classes.iter().filter(|(s, _)| s.class != ClassId::ALL) {
            let (bytes, packets) = match self.broken {
                // Far enough apart that both move by 2^50 or fall.
                Broken::Absurd => (self.looks << 50, self.looks << 40),
                Broken::Backwards => {
                    let n = 1_000_000_u64.saturating_sub(self.looks);
                    (n * FRAME, n)
                }
                Broken::Stuck => (77, 1),
                _ => (class.bytes, class.packets),
            };
            out.push(ClassCounters {
                slot: *slot,
                bytes,
                packets,
                drops: 0,
                overlimits: 0,
                backlog_packets: 0,
                backlog_bytes: class.backlog,
            });
        }
        Ok(())
    }

    fn interface(&mut self, _: Side) -> Result<InterfaceCounters, Error> {
        Err(FakeShaper::refusal("not asked for"))
    }

    fn sent(&mut self, which: Side) -> Result<SentCounters, Error> {
        if self.broken == Broken::Interface {
            return Err(FakeShaper::gone());
        }
        let bytes = self.sent[usize::from(which == Side::Wired)];
        Ok(SentCounters { bytes, unmapped: 0, bypass: 0 })
    }

    fn verify(&mut self) -> Result<Vec<Verification>, Error> {
        Ok(Vec::new())
    }

    fn audit(&mut self) -> Result<Vec<Deviation>, Error> {
        Ok(self.deviations.clone())
    }

    fn classifiers(&self) -> Option<[Classifier; 2]> {
        let by = if self.marks { Classifier::MarkBpf } else { Classifier::Priority };
        self.installed.then_some([Classifier::Priority, by])
    }

    fn renew(&mut self) -> Result<(), Error> {
        self.renewals += 1;
        match self.broken {
            Broken::Interface => Err(FakeShaper::gone()),
            Broken::Rules | Broken::RulesAgain => {
                Err(Error::RulesGone { table: "fairmesh".into() })
            }
            Broken::Renew => Err(FakeShaper::refusal("renew")),
            _ => Ok(()),
        }
    }

    fn release(&mut self) -> Result<(), Error> {
        self.releases += 1;
        if self.broken == Broken::Interface {
            // Classes are removed with their interface.
            self.classes.values_mut().for_each(|c| (c.rate, c.bytes, c.packets) = (None, 0, 0));
            return Err(FakeShaper::gone());
        }
        if self.broken == Broken::ApplyAndRelease {
            return Err(FakeShaper::refusal("release"));
        }
        self.classes.values_mut().for_each(|c| c.rate = None);
        Ok(())
    }

    fn remove(&mut self, _: &Layout) -> Result<Removed, Error> {
        self.removes += 1;
        self.classes.clear();
        self.installed = false;
        Ok(Removed::default())
    }
}
