//! Parts of a plan that a host builds: accepted or refused by the same code everywhere.

use core::fmt;

use fairmesh_units::Bytes;

use crate::{Class, ClassPlan, Leaf, Limit, Offers, Plan, Point};

macro_rules! names {
    (
        $(#[$doc:meta])* $kind:ident {
            $( $(#[$vdoc:meta])* $variant:ident = $name:literal, )+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $kind { $( $(#[$vdoc])* $variant, )+ }

        impl $kind {
            /// Every kind.
            pub const ALL: &'static [$kind] = &[$($kind::$variant),+];
            /// Name in messages.
            pub const fn name(self) -> &'static str {
                match self { $($kind::$variant => $name),+ }
            }
        }
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

names! {
    /// A kind of [`Class`].
    ClassKind {
        /// [`Class::All`].
        All = "all traffic together",
        /// [`Class::Flow`].
        Flow = "each flow",
        /// [`Class::Link`].
        Link = "each neighbour",
    }
}

names! {
    /// A kind of [`Limit`].
    LimitKind {
        /// [`Limit::None`], until a rate is set.
        None = "no limit",
        /// [`Limit::Rate`], at the start or later.
        Rate = "a limit in bytes",
        /// [`Limit::Airtime`].
        Airtime = "a limit in airtime",
    }
}

names! {
    /// A kind of [`Leaf`].
    LeafKind {
        /// [`Leaf::DropTail`].
        DropTail = "one drop-tail queue",
        /// [`Leaf::Fair`].
        Fair = "a queue per flow, served in turn",
        /// [`Leaf::Red`].
        Red = "a RED queue",
        /// [`Leaf::Fred`].
        Fred = "a FRED queue",
    }
}

impl From<Class> for ClassKind {
    fn from(class: Class) -> Self {
        match class {
            Class::All => ClassKind::All,
            Class::Flow(_) => ClassKind::Flow,
            Class::Link(_) => ClassKind::Link,
        }
    }
}

impl From<Limit> for LimitKind {
    fn from(limit: Limit) -> Self {
        match limit {
            Limit::None => LimitKind::None,
            Limit::Rate(_) => LimitKind::Rate,
            Limit::Airtime(_) => LimitKind::Airtime,
        }
    }
}

impl From<Leaf> for LeafKind {
    fn from(leaf: Leaf) -> Self {
        match leaf {
            Leaf::DropTail { .. } => LeafKind::DropTail,
            Leaf::Fair { .. } => LeafKind::Fair,
            Leaf::Red { .. } => LeafKind::Red,
            Leaf::Fred { .. } => LeafKind::Fred,
        }
    }
}

impl Leaf {
    /// Returns the capacity in packets; for a queue per flow, the capacity of each.
    pub fn packets(self) -> u32 {
        match self {
            Leaf::DropTail { packets }
            | Leaf::Fair { packets }
            | Leaf::Red { packets, .. }
            | Leaf::Fred { packets } => packets,
        }
    }
}

impl Point {
    /// Returns the name used in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Point::Local => "sourced at the node",
            Point::Transit => "that crosses the node",
            Point::Interface => "in the radio's transmit queue",
        }
    }
}

/// Classes that a host builds at one point. Nothing is built at a point without an offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PointOffer {
    /// Point in the node.
    pub point: Point,
    /// Offers by kind of class, at most one for each kind.
    pub classes: &'static [ClassOffer],
}

/// Classes of one kind that a host builds. Every limit can be combined with every queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassOffer {
    /// Kind of the classes.
    pub kind: ClassKind,
    /// Limits that it enforces.
    pub limits: &'static [LimitKind],
    /// Queues in which packets can wait.
    pub leaves: &'static [LeafKind],
    /// Smallest and largest queue, in packets.
    pub packets: (u32, u32),
    /// Smallest and largest burst.
    ///
    /// A burst is at least as large as planned; a router that rounds up documents it in
    /// docs/control-hosts.md.
    pub burst: (Bytes, Bytes),
    /// True if all classes of this kind must have the same queue and burst.
    pub alike: bool,
}

/// A part of a plan that a host does not build.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnbuildablePart {
    /// No classes are built at this point.
    Point(Point),
    /// No classes of this kind are built at this point.
    Class(Point, ClassKind),
    /// Classes of this kind do not enforce this limit.
    Limit(Point, ClassKind, LimitKind),
    /// Classes of this kind do not have this queue.
    Leaf(Point, ClassKind, LeafKind),
    /// A queue too short or too long.
    Packets {
        /// Planned size.
        planned: u32,
        /// Smallest and largest size.
        offered: (u32, u32),
    },
    /// A burst too small or too large.
    Burst {
        /// Planned burst.
        planned: Bytes,
        /// Smallest and largest burst.
        offered: (Bytes, Bytes),
    },
    /// Classes differ in queue or burst although all must be alike.
    Unlike(Point, ClassKind),
}

impl fmt::Display for UnbuildablePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnbuildablePart::Point(point) => write!(f, "classes for traffic {}", point.name()),
            UnbuildablePart::Class(point, kind) => {
                write!(f, "a class for {kind}, of traffic {}", point.name())
            }
            UnbuildablePart::Limit(point, kind, limit) => {
                write!(f, "{limit} for {kind}, of traffic {}", point.name())
            }
            UnbuildablePart::Leaf(point, kind, leaf) => {
                write!(f, "{leaf} for {kind}, of traffic {}", point.name())
            }
            UnbuildablePart::Packets { planned, offered: (least, most) } => {
                write!(f, "a queue of {planned} packets; expected {least} to {most}")
            }
            UnbuildablePart::Burst { planned, offered: (least, most) } => {
                write!(f, "a burst of {planned}; expected {least} to {most}")
            }
            UnbuildablePart::Unlike(point, kind) => {
                write!(f, "different queues or bursts for {kind}, of traffic {}", point.name())
            }
        }
    }
}

/// A plan that a host does not build without changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unbuildable {
    /// The mechanism, variants included.
    pub mechanism: String,
    /// The host.
    pub host: &'static str,
    /// The first part that it does not build.
    pub lack: UnbuildablePart,
    /// Queues that it builds instead.
    pub instead: &'static [LeafKind],
}

impl fmt::Display for Unbuildable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unbuildable { mechanism, host, lack, instead } = self;
        write!(f, "{mechanism} cannot run on {host}: not possible: {lack}")?;
        for (i, leaf) in instead.iter().enumerate() {
            write!(f, "{}{leaf}", if i == 0 { "; expected " } else { " or " })?;
        }
        Ok(())
    }
}
impl core::error::Error for Unbuildable {}

impl Offers {
    /// Accepts a plan that the host builds without changes.
    ///
    /// # Errors
    /// The first part that it does not build.
    pub fn accepts(&self, mechanism: &str, plan: &Plan) -> Result<(), Unbuildable> {
        let refuse = |lack, instead| {
            let mechanism = mechanism.to_owned();
            Err(Unbuildable { mechanism, host: self.host, lack, instead })
        };
        if plan.is_none() {
            return Ok(());
        }
        let Some(offer) = self.plans.iter().find(|o| o.point == plan.point) else {
            return refuse(UnbuildablePart::Point(plan.point), &[]);
        };
        let all = || plan.classes.iter().chain(&plan.template);
        for class in all() {
            let kind = ClassKind::from(class.class);
            let Some(offer) = offer.classes.iter().find(|o| o.kind == kind) else {
                return refuse(UnbuildablePart::Class(plan.point, kind), &[]);
            };
            if let Some(lack) = offer.lacks(plan.point, class) {
                let leaf = matches!(lack, UnbuildablePart::Leaf(..));
                return refuse(lack, if leaf { offer.leaves } else { &[] });
            }
            let same = |c: &&ClassPlan| ClassKind::from(c.class) == kind;
            let differs = |c: &ClassPlan| c.leaf != class.leaf || c.burst != class.burst;
            if offer.alike && all().filter(same).any(differs) {
                return refuse(UnbuildablePart::Unlike(plan.point, kind), &[]);
            }
        }
        Ok(())
    }
}

impl ClassOffer {
    fn lacks(&self, point: Point, plan: &ClassPlan) -> Option<UnbuildablePart> {
        let (limit, leaf) = (LimitKind::from(plan.limit), LeafKind::from(plan.leaf));
        let (packets, burst) = (plan.leaf.packets(), plan.burst);
        if !self.limits.contains(&limit) {
            return Some(UnbuildablePart::Limit(point, self.kind, limit));
        }
        if !self.leaves.contains(&leaf) {
            return Some(UnbuildablePart::Leaf(point, self.kind, leaf));
        }
        if !(self.packets.0..=self.packets.1).contains(&packets) {
            return Some(UnbuildablePart::Packets { planned: packets, offered: self.packets });
        }
        if !(self.burst.0..=self.burst.1).contains(&burst) {
            return Some(UnbuildablePart::Burst { planned: burst, offered: self.burst });
        }
        None
    }
}

/// Offers of a host that builds every plan: the simulator's, and those of tests.
impl PointOffer {
    /// Every class with every limit and queue, at every point.
    ///
    /// Airtime limits exist in the radio's queue only, since the airtime of a packet is not known
    /// elsewhere.
    pub const EVERY: &'static [PointOffer] = &[
        PointOffer { point: Point::Local, classes: IN_BYTES },
        PointOffer { point: Point::Transit, classes: IN_BYTES },
        PointOffer { point: Point::Interface, classes: IN_AIRTIME },
    ];
}

const BYTES: &[LimitKind] = &[LimitKind::None, LimitKind::Rate];

const fn every(kind: ClassKind, limits: &'static [LimitKind]) -> ClassOffer {
    ClassOffer {
        kind,
        limits,
        leaves: LeafKind::ALL,
        packets: (1, 1_000_000),
        burst: (Bytes(1), Bytes(1_000_000_000)),
        alike: false,
    }
}

const IN_BYTES: &[ClassOffer] =
    &[every(ClassKind::All, BYTES), every(ClassKind::Flow, BYTES), every(ClassKind::Link, BYTES)];

const IN_AIRTIME: &[ClassOffer] = &[
    every(ClassKind::All, LimitKind::ALL),
    every(ClassKind::Flow, LimitKind::ALL),
    every(ClassKind::Link, LimitKind::ALL),
];

#[cfg(test)]
mod tests {
    use fairmesh_units::{BitRate, FlowId, NodeId};

    use super::*;
    use crate::{AbilitySet, EventSet, KnowledgeSet, Share};

    /// One queue for each crossing flow, all alike.
    const NARROW: &[PointOffer] = &[PointOffer {
        point: Point::Transit,
        classes: &[ClassOffer {
            kind: ClassKind::Flow,
            limits: BYTES,
            leaves: &[LeafKind::DropTail, LeafKind::Fair],
            packets: (2, 100),
            burst: (Bytes(1), Bytes(9000)),
            alike: true,
        }],
    }];

    fn offers(plans: &'static [PointOffer]) -> Offers {
        let (events, abilities) = (EventSet::NONE, AbilitySet::NONE);
        Offers { host: "here", events, abilities, knowledge: KnowledgeSet::NONE, plans }
    }

    fn class(flow: u32) -> ClassPlan {
        ClassPlan {
            class: Class::Flow(FlowId(flow)),
            limit: Limit::None,
            burst: Bytes(1500),
            leaf: Leaf::DropTail { packets: 5 },
        }
    }

    fn answer(point: Point, classes: Vec<ClassPlan>, template: Option<ClassPlan>) -> String {
        let plan = Plan { point, classes, template };
        offers(PointOffer::EVERY).accepts("all", &plan).expect("somewhere everything is built");
        match offers(NARROW).accepts("it", &plan) {
            Ok(()) => "yes".into(),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn missing_features_are_refused_by_name() {
        let here = Point::Transit;
        assert_eq!(answer(here, vec![class(1), class(2)], Some(class(0))), "yes");
        let no = |what: &str| format!("it cannot run on here: not possible: {what}");
        assert_eq!(
            answer(Point::Local, vec![class(1)], None),
            no("classes for traffic sourced at the node")
        );
        let link = ClassPlan { class: Class::Link(NodeId(1)), ..class(0) };
        assert_eq!(
            answer(here, vec![class(1), link], None),
            no("a class for each neighbour, of traffic that crosses the node")
        );
        let leaf = |leaf| ClassPlan { leaf, ..class(1) };
        assert_eq!(
            answer(here, vec![], Some(leaf(Leaf::Red { packets: 50, ecn: true }))),
            no("a RED queue for each flow, of traffic that crosses the node; expected one \
                drop-tail queue or a queue per flow, served in turn")
        );
        assert_eq!(
            answer(here, vec![leaf(Leaf::Fair { packets: 1 })], None),
            no("a queue of 1 packets; expected 2 to 100")
        );
        let burst = ClassPlan { burst: Bytes(10_000), ..class(1) };
        assert!(answer(here, vec![burst], None).contains("not possible: a burst of "));
        let other = ClassPlan { limit: Limit::Rate(BitRate(1)), ..class(2) };
        assert_eq!(answer(here, vec![class(1), other], None), "yes", "limits differ, queues not");
        let other = ClassPlan { leaf: Leaf::DropTail { packets: 6 }, ..class(2) };
        assert_eq!(
            answer(here, vec![class(1), other], None),
            no("different queues or bursts for each flow, of traffic that crosses the node")
        );
        assert_eq!(answer(Point::Local, vec![], None), "yes", "nothing to build");
    }

    #[test]
    fn airtime_is_for_the_radio() {
        let airtime = ClassPlan { limit: Limit::Airtime(Share::new(0.5)), ..class(1) };
        let plan = |point| Plan { point, classes: vec![airtime], template: None };
        let everything = offers(PointOffer::EVERY);
        assert_eq!(everything.accepts("it", &plan(Point::Interface)), Ok(()));
        let refused = everything.accepts("it", &plan(Point::Local)).unwrap_err().to_string();
        assert!(
            refused.contains("a limit in airtime for each flow, of traffic sourced"),
            "{refused}"
        );
    }
}
