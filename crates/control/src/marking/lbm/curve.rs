//! Marking probability from utilisation (§2.2).

/// The marking curve.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Curve {
    /// ρ₀.
    pub rho0: f64,
    alpha: f64,
}

impl Curve {
    pub fn of(options: &super::Options) -> Self {
        Curve { rho0: options.rho0, alpha: options.alpha }
    }

    /// Returns min{α (ρ − ρ₀), 1}; 0 for a ρ that is not a number.
    pub fn probability(&self, rho: f64) -> f64 {
        let load = self.alpha * (rho.min(1.0) - self.rho0);
        if load > 0.0 { load.min(1.0) } else { 0.0 }
    }
}
