//! Disciplines as plain data, checked before they are built.

use fairmesh_units::{BitRate, Bytes, Span};

use crate::{
    Cake, CakeSpec, ClassId, ClassRates, ClassSpec, Codel, CodelSpec, Discipline, DropTail,
    DualPi2, DualPi2Spec, Fair, FairSpec, FqCodel, FqCodelSpec, Fred, FredSpec, Htb, HtbSpec,
    Limit, MAX_BURST, Red, RedSpec, Release, Stations, StationsSpec, Threshold, ThresholdSpec, Wfq,
    WfqSpec,
};

/// A description of a discipline.
#[derive(Clone, PartialEq, Debug)]
pub enum DisciplineSpec {
    /// First in, first out.
    DropTail(Limit),
    /// Deficit round robin over per-flow buffers.
    Fair(FairSpec),
    /// Finish tags by weight over per-flow buffers.
    Wfq(WfqSpec),
    /// Random early detection.
    Red(RedSpec),
    /// Flow random early drop.
    Fred(FredSpec),
    /// Marks above a threshold of the average queue.
    Threshold(ThresholdSpec),
    /// First in, first out, under CoDel.
    Codel(Limit, CodelSpec),
    /// A queue per flow, CoDel in each.
    FqCodel(FqCodelSpec),
    /// A shaper, flows within hosts, COBALT.
    Cake(CakeSpec),
    /// An L4S queue and a classic queue, coupled.
    DualPi2(DualPi2Spec),
    /// A set of flows per neighbour, as in mac80211.
    Stations(StationsSpec),
    /// Token buckets in front of other disciplines, one or a tree of them.
    Htb(HtbSpec),
}

/// Reason for rejecting a description.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A buffer, quantum, number of buckets or packet time of zero.
    #[error("{what} must not be zero")]
    Zero {
        /// Name of the field.
        what: &'static str,
    },
    /// Thresholds not in the order 0 < min < max.
    #[error("thresholds must satisfy 0 < min < max, but min is {min} and max is {max}")]
    Thresholds {
        /// Lower threshold.
        min: f64,
        /// Upper threshold.
        max: f64,
    },
    /// A threshold that is zero, negative or infinite.
    #[error("the threshold must be above 0, but is {0}")]
    Threshold(f64),
    /// A flow's weight that is zero, negative, infinite or not a number.
    #[error("the weight must be above 0, but is {0}")]
    Weight(f64),
    /// CoDel's target is not below its interval.
    #[error("target must be below interval, but is {target} of {interval}")]
    Target {
        /// The target.
        target: Span,
        /// The interval.
        interval: Span,
    },
    /// An AQL limit for a lightly loaded card below that for a heavily loaded one.
    #[error("aql_low must not be above aql_high, but is {low} to {high}")]
    Pending {
        /// Limit while the card is heavily loaded.
        low: Span,
        /// Limit while the card is lightly loaded.
        high: Span,
    },
    /// A probability or weight outside (0, 1].
    #[error("{what} must lie in (0, 1], but is {value}")]
    Fraction {
        /// Name of the field.
        what: &'static str,
        /// Value of the field.
        value: f64,
    },
    /// A burst that exceeds every bucket.
    #[error("burst of {0} exceeds the largest possible, {MAX_BURST}")]
    Burst(Bytes),
    /// Two classes with one number.
    #[error("class {0} exists already")]
    DuplicateClass(ClassId),
    /// A class that does not exist.
    #[error("class {0} does not exist")]
    UnknownClass(ClassId),
    /// A parent that is a leaf.
    #[error("class {0} has a queue, so it cannot have child classes")]
    LeafParent(ClassId),
    /// Flows assigned to an inner class.
    #[error("class {0} has no queue, so flows cannot be sent to it")]
    InnerTarget(ClassId),
    /// A ceiling below the guaranteed rate.
    #[error("class {class}: ceil {ceil} is below rate {rate}")]
    CeilBelowRate {
        /// The class.
        class: ClassId,
        /// Guaranteed rate of the class.
        rate: BitRate,
        /// Ceiling of the class.
        ceil: BitRate,
    },
    /// A priority above 7.
    #[error("class {class}: priority {prio} is not one of 0 to 7")]
    Priority {
        /// The class.
        class: ClassId,
        /// Priority of the class.
        prio: u8,
    },
    /// More than seven inner classes above one another.
    #[error("class {0} is nested too deeply")]
    TooDeep(ClassId),
    /// A leaf that delays packets itself.
    #[error(
        "class {0}: a leaf must always be ready to send (drop-tail, fair, weighted fair, RED, FRED, CoDel or fq_codel)"
    )]
    LeafHoldsBack(ClassId),
}

pub(crate) fn nonzero(value: u64, what: &'static str) -> Result<(), SpecError> {
    if value == 0 { Err(SpecError::Zero { what }) } else { Ok(()) }
}

pub(crate) fn burst(burst: Bytes) -> Result<(), SpecError> {
    nonzero(burst.0, "burst")?;
    if burst > MAX_BURST { Err(SpecError::Burst(burst)) } else { Ok(()) }
}

fn codel(spec: &CodelSpec) -> Result<(), SpecError> {
    nonzero(spec.target.as_nanos(), "target")?;
    nonzero(spec.interval.as_nanos(), "interval")?;
    if spec.target >= spec.interval {
        return Err(SpecError::Target { target: spec.target, interval: spec.interval });
    }
    Ok(())
}

fn limit(limit: Limit) -> Result<(), SpecError> {
    if limit.is_zero() { Err(SpecError::Zero { what: "buffer" }) } else { Ok(()) }
}

fn thresholds(min: f64, max: f64) -> Result<(), SpecError> {
    // NaN fails, too.
    if min > 0.0 && min < max && max.is_finite() {
        Ok(())
    } else {
        Err(SpecError::Thresholds { min, max })
    }
}

fn fraction(value: f64, what: &'static str) -> Result<(), SpecError> {
    if value > 0.0 && value <= 1.0 { Ok(()) } else { Err(SpecError::Fraction { what, value }) }
}

impl DisciplineSpec {
    /// Returns a drop-tail queue of this many packets.
    pub fn drop_tail(packets: u32) -> Self {
        DisciplineSpec::DropTail(Limit::Packets(packets))
    }

    /// Returns a token bucket in front of `inner`, as Linux `tbf`.
    ///
    /// It is a tree with one class, number 1.
    pub fn shaped(rate: BitRate, burst: Bytes, inner: DisciplineSpec) -> Self {
        let rates = ClassRates { rate, ceil: rate, burst, cburst: burst };
        let only = ClassSpec::leaf(1, None, rates, inner);
        DisciplineSpec::Htb(HtbSpec {
            default: Some(only.id),
            classes: vec![only],
            release: Release::Whole,
            ..HtbSpec::default()
        })
    }

    /// True if it cannot be a leaf of a class tree.
    ///
    /// A leaf must release a packet whenever it has one.
    pub(crate) fn holds_back(&self) -> bool {
        use DisciplineSpec::{Cake, DualPi2, Htb, Stations};
        matches!(self, Htb(_) | Cake(_) | DualPi2(_) | Stations(_))
    }

    /// Builds the discipline, empty and with full buckets.
    ///
    /// # Errors
    /// Returns the first field found to be invalid.
    pub fn build(&self) -> Result<Discipline, SpecError> {
        Ok(match self {
            DisciplineSpec::DropTail(l) => {
                limit(*l)?;
                Discipline::DropTail(DropTail::new(*l))
            }
            DisciplineSpec::Fair(s) => {
                limit(s.per_flow)?;
                nonzero(u64::from(s.total.unwrap_or(1)), "total")?;
                for quantum in s.quanta.iter().chain([&s.quantum]) {
                    nonzero(u64::from(*quantum), "quantum")?;
                }
                nonzero(u64::from(s.buckets), "buckets")?;
                Discipline::Fair(Fair::new(s.clone()))
            }
            DisciplineSpec::Wfq(s) => {
                limit(s.per_flow)?;
                nonzero(u64::from(s.buckets), "buckets")?;
                let bad = |w: &&f64| !(**w > 0.0 && w.is_finite());
                if let Some(weight) = s.weights.iter().find(bad) {
                    return Err(SpecError::Weight(*weight));
                }
                Discipline::Wfq(Box::new(Wfq::new(s.clone())))
            }
            DisciplineSpec::Red(s) => {
                limit(s.limit)?;
                thresholds(s.min, s.max)?;
                fraction(s.max_p, "max_p")?;
                fraction(s.weight, "weight")?;
                nonzero(s.packet_time.as_nanos(), "packet time")?;
                Discipline::Red(Box::new(Red::new(s.clone())))
            }
            DisciplineSpec::Fred(s) => {
                nonzero(u64::from(s.limit), "buffer")?;
                thresholds(s.min, s.max)?;
                fraction(s.max_p, "max_p")?;
                fraction(s.weight, "weight")?;
                nonzero(u64::from(s.max_q), "max_q")?;
                nonzero(u64::from(s.buckets), "buckets")?;
                nonzero(s.packet_time.as_nanos(), "packet time")?;
                Discipline::Fred(Box::new(Fred::new(s.clone())))
            }
            DisciplineSpec::Threshold(s) => {
                limit(s.limit)?;
                if !(s.threshold > 0.0 && s.threshold.is_finite()) {
                    return Err(SpecError::Threshold(s.threshold));
                }
                fraction(s.weight, "weight")?;
                nonzero(s.packet_time.as_nanos(), "packet time")?;
                Discipline::Threshold(Box::new(Threshold::new(s.clone())))
            }
            DisciplineSpec::Codel(l, s) => {
                limit(*l)?;
                codel(s)?;
                Discipline::Codel(Box::new(Codel::new(*l, *s)))
            }
            DisciplineSpec::FqCodel(s) => {
                nonzero(u64::from(s.packets), "buffer")?;
                nonzero(s.memory, "memory")?;
                nonzero(u64::from(s.flows), "flows")?;
                nonzero(u64::from(s.quantum), "quantum")?;
                nonzero(u64::from(s.drop_batch), "drop_batch")?;
                codel(&s.codel)?;
                Discipline::FqCodel(Box::new(FqCodel::new(*s)))
            }
            DisciplineSpec::Cake(s) => {
                nonzero(u64::from(s.flows), "flows")?;
                nonzero(s.memory.map_or(1, |b| b.0), "memory")?;
                nonzero(s.rate.map_or(1, |r| r.0), "rate")?;
                codel(&CodelSpec {
                    target: s.target,
                    interval: s.interval,
                    ..CodelSpec::default()
                })?;
                Discipline::Cake(Box::new(Cake::new(*s)))
            }
            DisciplineSpec::DualPi2(s) => {
                limit(s.limit)?;
                nonzero(s.target.as_nanos(), "target")?;
                nonzero(s.update.as_nanos(), "update")?;
                fraction(s.classic_share, "classic_share")?;
                // The classic queue's losses are divided by k squared.
                if !(s.coupling >= 1.0 && s.coupling.is_finite()) {
                    return Err(SpecError::Fraction {
                        what: "1 / coupling",
                        value: 1.0 / s.coupling,
                    });
                }
                for (gain, what) in [(s.alpha, "alpha"), (s.beta, "beta")] {
                    if !(gain >= 0.0 && gain.is_finite()) {
                        return Err(SpecError::Fraction { what, value: gain });
                    }
                }
                Discipline::DualPi2(Box::new(DualPi2::new(*s)))
            }
            DisciplineSpec::Stations(s) => {
                nonzero(u64::from(s.packets), "buffer")?;
                nonzero(s.memory, "memory")?;
                nonzero(u64::from(s.flows), "flows")?;
                nonzero(u64::from(s.quantum), "quantum")?;
                codel(&s.codel)?;
                if let Some(quantum) = s.airtime {
                    nonzero(quantum.as_nanos(), "airtime")?;
                }
                if let Some(slow) = &s.slow {
                    codel(&CodelSpec { target: slow.target, interval: slow.interval, ..s.codel })?;
                }
                if let Some(aql) = &s.aql {
                    nonzero(aql.low.as_nanos(), "aql_low")?;
                    if aql.low > aql.high {
                        return Err(SpecError::Pending { low: aql.low, high: aql.high });
                    }
                }
                Discipline::Stations(Box::new(Stations::new(*s)))
            }
            DisciplineSpec::Htb(s) => Discipline::Htb(Box::new(Htb::new(s)?)),
        })
    }
}
