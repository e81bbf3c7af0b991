//! Choice between the data planes of a gateway.

use super::*;

/// Subscribers from which [`ShaperChoice::Auto`] may choose departure times.
///
/// From this number on HTB's classes are in groups, and their memory costs a fifth per packet.
const MIN_EDT_SUBSCRIBERS: usize = ClassId::GROUP as usize;

/// The data plane that a layout asks for: [`HtbShaper`] or [`EdtShaper`].
#[derive(Debug)]
pub struct GatewayShaper {
    htb: HtbShaper,
    edt: EdtShaper,
    kind: ShaperKind,
}

impl GatewayShaper {
    /// Opens the netlink sockets; changes nothing.
    ///
    /// # Errors
    /// Returns the system's refusal.
    pub fn open() -> Result<Self, Error> {
        Ok(GatewayShaper {
            htb: HtbShaper::open()?,
            edt: EdtShaper::open()?,
            kind: ShaperKind::Htb,
        })
    }

    /// Limits the time that calls on this thread wait for `nft`.
    pub fn limit_wait(&mut self, limit: std::time::Duration) {
        self.htb.limit_wait(limit);
    }

    /// Sets a callback for long operations: [`HtbShaper::on_progress`].
    pub fn on_progress(&mut self, report: impl FnMut() + Send + 'static) {
        self.htb.on_progress(report);
    }

    fn active(&mut self) -> &mut dyn Shaper {
        match self.kind {
            ShaperKind::Htb => &mut self.htb,
            ShaperKind::Edt => &mut self.edt,
        }
    }
}

/// Chooses the data plane of a layout, with a note for the operator.
///
/// `edt_works` tries the kernel.
fn choose(layout: &Layout, edt_works: impl FnOnce() -> bool) -> (ShaperKind, Option<String>) {
    let many = layout.subscribers.len() >= MIN_EDT_SUBSCRIBERS;
    match (layout.shaper, layout.leaf) {
        (ShaperChoice::Only(kind), _) => (kind, None),
        (ShaperChoice::Auto, LeafChoice::Only(LeafKind::Bfifo))
            if many && !layout.aggregate && edt_works() =>
        {
            (ShaperKind::Edt, None)
        }
        (ShaperChoice::Auto, LeafChoice::Best) if many && !layout.aggregate => {
            let homes = layout.subscribers.len();
            let note = format!(
                "{homes} subscribers: shaping.shaper = \"edt\" costs less per packet, with one FIFO for each subscriber"
            );
            (ShaperKind::Htb, Some(note))
        }
        (ShaperChoice::Auto, _) => (ShaperKind::Htb, None),
    }
}

impl Shaper for GatewayShaper {
    fn probe(&mut self) -> Result<Features, Error> {
        self.htb.probe()
    }

    fn install(&mut self, layout: &Layout) -> Result<Installed, Error> {
        let (kind, note) = choose(layout, EdtShaper::works);
        if kind != self.kind {
            // Its program ends with its state.
            self.edt.forget();
            self.kind = kind;
        }
        let mut installed = self.active().install(layout)?;
        installed.notes.extend(note);
        Ok(installed)
    }

    fn relayout(&mut self, layout: &Layout) -> Result<RelayoutResult, Error> {
        self.active().relayout(layout)
    }

    fn set_rates(&mut self, changes: &[RateChange]) -> Result<(), Error> {
        self.active().set_rates(changes)
    }

    fn sample(&mut self, out: &mut Vec<ClassCounters>) -> Result<(), Error> {
        self.active().sample(out)
    }

    fn interface(&mut self, which: Side) -> Result<InterfaceCounters, Error> {
        self.active().interface(which)
    }

    fn sent(&mut self, which: Side) -> Result<SentCounters, Error> {
        self.active().sent(which)
    }

    fn verify(&mut self) -> Result<Vec<Verification>, Error> {
        self.active().verify()
    }

    fn audit(&mut self) -> Result<Vec<Deviation>, Error> {
        self.active().audit()
    }

    fn classifiers(&self) -> Option<[Classifier; 2]> {
        match self.kind {
            ShaperKind::Htb => self.htb.classifiers(),
            ShaperKind::Edt => self.edt.classifiers(),
        }
    }

    fn renew(&mut self) -> Result<(), Error> {
        self.active().renew()
    }

    fn release(&mut self) -> Result<(), Error> {
        self.active().release()
    }

    fn remove(&mut self, layout: &Layout) -> Result<Removed, Error> {
        self.active().remove(layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(homes: u16, shaper: ShaperChoice, leaf: LeafChoice) -> Layout {
        let name = |n: &str| Interface::new(n).unwrap();
        let subscribers = (1..=homes).map(|class| Subscriber::new(class, [])).collect();
        Layout { subscribers, shaper, leaf, ..Layout::new(name("mesh0"), name("wan0")) }
    }

    #[test]
    fn many_homes_with_one_fifo_each_get_departure_times() {
        use ShaperChoice::{Auto, Only};
        let bfifo = LeafChoice::Only(LeafKind::Bfifo);
        let kind = |homes, choice, leaf, works| choose(&layout(homes, choice, leaf), || works).0;
        assert_eq!(kind(1024, Auto, bfifo, true), ShaperKind::Edt);
        assert_eq!(kind(1023, Auto, bfifo, true), ShaperKind::Htb);
        assert_eq!(kind(1024, Auto, bfifo, false), ShaperKind::Htb);
        assert_eq!(kind(1024, Auto, LeafChoice::Only(LeafKind::Cake), true), ShaperKind::Htb);
        assert_eq!(kind(1, Only(ShaperKind::Edt), LeafChoice::Best, false), ShaperKind::Edt);
        let together = Layout { aggregate: true, ..layout(2000, Auto, bfifo) };
        assert_eq!(choose(&together, || true).0, ShaperKind::Htb);
        let (best, note) = choose(&layout(2000, Auto, LeafChoice::Best), || true);
        assert_eq!(best, ShaperKind::Htb);
        assert!(note.unwrap().starts_with("2000 subscribers: shaping.shaper = \"edt\""));
    }

    #[test]
    fn departure_times_refuse_other_queues_and_a_limit_of_all_by_name() {
        let edt = ShaperChoice::Only(ShaperKind::Edt);
        let refusal = |l: Layout| EdtShaper::accepts(&l).unwrap_err().to_string();
        let cake = refusal(layout(1, edt, LeafChoice::Only(LeafKind::Cake)));
        assert_eq!(
            cake,
            "the shaper edt has no queues of kind cake; expected leaf `bfifo` or `best`, or the shaper htb"
        );
        let together = refusal(Layout { aggregate: true, ..layout(1, edt, LeafChoice::Best) });
        assert!(together.contains("no limit of all subscribers together"), "{together}");
    }
}
