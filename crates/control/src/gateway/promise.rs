//! A subscriber's plan, and the check that the mesh can carry the sum of all guarantees.

use fairmesh_units::BitRate;

use crate::gateway::bounds::Bounds;
use crate::{FlowHere, Refusal, Value};

/// An accepted plan, in bit/s of IP bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Promise {
    pub weight: f64,
    pub guarantee: f64,
    /// Infinite if the plan has no ceiling.
    pub ceiling: f64,
    /// Sum of all guarantees, this one included.
    pub sum: u64,
}

impl Promise {
    /// Returns the plan of `here` if it fits beside guarantees of `others` bit/s.
    ///
    /// `crossed` is the code of the refusal of a ceiling below the guarantee. Guarantees are refused above the lower
    /// bound (Jamshaid 2010 §7.5.2); a plan without guarantee is never refused for this reason.
    pub fn of(
        here: &FlowHere,
        others: u64,
        bounds: &Bounds,
        crossed: &'static str,
    ) -> Result<Promise, Refusal> {
        let FlowHere { flow, weight, .. } = *here;
        if !(weight > 0.0 && weight.is_finite()) {
            return Err(Refusal::weight(flow, weight));
        }
        let guarantee = here.guarantee.unwrap_or(BitRate(0));
        if let Some(ceiling) = here.ceiling.filter(|c| *c < guarantee) {
            return Err(Refusal::new(
                crossed,
                "flow {}: a guarantee of {} above its ceiling of {}",
                &[Value::Flow(flow), Value::Rate(guarantee), Value::Rate(ceiling)],
            ));
        }
        let sum = others.saturating_add(guarantee.0);
        if guarantee.0 > 0 && sum as f64 > bounds.lower {
            let bound = BitRate(bounds.lower as u64);
            return Err(Refusal::guarantees(BitRate(sum), bound));
        }
        let ceiling = here.ceiling.map_or(f64::INFINITY, |c| c.0 as f64);
        Ok(Promise { weight, guarantee: guarantee.0 as f64, ceiling, sum })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Place;
    use fairmesh_units::FlowId;

    const BOUNDS: Bounds = Bounds { lower: 1000.0, lowest: 500.0, upper: 3000.0 };

    fn promise(change: impl Fn(&mut FlowHere), others: u64) -> Result<Promise, &'static str> {
        let mut here = FlowHere::new(FlowId(4), Place::Source, 1460, 1500);
        change(&mut here);
        Promise::of(&here, others, &BOUNDS, "test.ceiling").map_err(|r| r.code())
    }

    #[test]
    fn a_flow_without_a_plan_is_promised_nothing_and_always_taken() {
        let nothing = Promise { weight: 1.0, guarantee: 0.0, ceiling: f64::INFINITY, sum: 5000 };
        assert_eq!(promise(|_| (), 5000), Ok(nothing));
    }

    #[test]
    fn guarantees_fill_the_lower_bound_to_the_last_bit() {
        let with = |g| move |h: &mut FlowHere| h.guarantee = Some(BitRate(g));
        assert_eq!(promise(with(400), 600).map(|p| (p.guarantee, p.sum)), Ok((400.0, 1000)));
        assert_eq!(promise(with(401), 600), Err("any.guarantees"));
        assert_eq!(promise(with(u64::MAX), u64::MAX), Err("any.guarantees"));
    }

    #[test]
    fn a_ceiling_may_be_the_guarantee_but_not_less() {
        let plan = |c| {
            move |h: &mut FlowHere| {
                (h.guarantee, h.ceiling) = (Some(BitRate(300)), Some(BitRate(c)))
            }
        };
        assert_eq!(promise(plan(300), 0).map(|p| p.ceiling), Ok(300.0));
        assert_eq!(promise(plan(299), 0), Err("test.ceiling"));
    }

    #[test]
    fn weights_are_positive_numbers() {
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(promise(|h| h.weight = wrong, 0), Err("any.weight"), "{wrong}");
        }
        assert_eq!(promise(|h| h.weight = 2.5, 0).map(|p| p.weight), Ok(2.5));
    }
}
