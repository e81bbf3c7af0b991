//! From utilisation to marking probability.

/// Shapes of the curve above ρ₀. All reach 1 at the same utilisation, ρ₀ + 1/α.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// §2.2.
    Linear,
    /// Of chapter 6's outlook: gentle at first.
    Convex,
    /// Of chapter 6's outlook: sharp at first.
    Concave,
}

/// The marking curve.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Curve {
    /// ρ₀.
    pub rho0: f64,
    alpha: f64,
    shape: Shape,
}

impl Curve {
    pub fn of(options: &super::Options) -> Self {
        let shape = match (options.convex, options.concave) {
            (true, false) => Shape::Convex,
            (false, true) => Shape::Concave,
            _ => Shape::Linear,
        };
        Curve { rho0: options.rho0, alpha: options.alpha, shape }
    }

    /// min{α (ρ − ρ₀), 1}, bent by the shape; no marks for a ρ that is no number.
    pub fn probability(&self, rho: f64) -> f64 {
        let load = self.alpha * (rho.min(1.0) - self.rho0);
        if load.is_nan() || load <= 0.0 {
            return 0.0;
        }
        let bent = match self.shape {
            Shape::Linear => load,
            Shape::Convex => load * load,
            Shape::Concave => load.sqrt(),
        };
        bent.min(1.0)
    }
}
