//! Search for the highest level that fits.

use super::bound::Bound;
use super::fit::{FIRST_SEEDS, Fit, Trials};
use super::groups::Groups;
use super::meter::Halt;

/// Factor between the levels of the coarse scan.
const COARSE_FACTOR: f64 = 1.5;
/// Number of levels that are tried concurrently.
const CONCURRENT_LEVELS: i32 = 2;
/// Maximum shortfall of the worst flow in one run for a step to be tried, in tolerances.
///
/// A step that is not tried is lost; a step that fails costs a few runs.
const TRIED_SHORTFALL: f64 = 5.0;
/// Relative difference below which levels are equal.
pub(super) const LEVEL_RESOLUTION: f64 = 0.01;
/// Largest relative reduction of a level that does not fit with all seeds.
const MOST_DOWN: f64 = 0.16;
/// Time without a packet after which a flow counts as receiving nothing, in s.
const IDLE_INTERVAL_S: f64 = 10.0;
/// Fractions of the first estimate at which room is learned.
///
/// The air is far from saturated there.
pub(super) const LEARNING_LEVELS: [f64; 4] = [0.125, 0.03, 0.008, 0.002];
/// Fraction of its target above which a flow counts as received there.
const RECEIVED_TARGET_FRACTION: f64 = 0.5;

/// Returns the lowest level of the search.
pub(super) fn floor(trials: &Trials<'_>, groups: &Groups) -> f64 {
    let slopes = groups.slopes();
    let flows = trials.bench.steady.flows.iter().zip(&slopes).filter(|(_, s)| **s > 0.0);
    flows.map(|(f, s)| 8.0 * f.payload / IDLE_INTERVAL_S / s).fold(0.0, f64::max)
}

/// The highest level that was found to fit.
#[derive(Default)]
pub(super) struct RisenLevel {
    /// Level, bit/s by weight; the start of the rise if nothing above it fits.
    pub level: f64,
    pub fit: Option<Fit>,
    /// Flows that are short at the next level, the worst first.
    pub short: Vec<usize>,
}

/// Raises `risen` to the highest level above its own that fits.
///
/// At the level of `risen` everything fits. If the search ends early, `risen` is the level reached.
///
/// Fitting need not be monotonic: the timeouts of a starved flow can leave more to other flows than
/// its data would. The coarse scan therefore goes down from above the nodes' capacity and takes the
/// highest step that fits. Only the interval between that step and the next is bisected, with
/// [`FIRST_SEEDS`] seeds. The result is measured with all seeds, and lowered in growing steps until it
/// fits.
pub(super) fn rise(
    trials: &mut Trials<'_>,
    groups: &Groups,
    bound: &Bound,
    risen: &mut RisenLevel,
) -> Result<(), Halt> {
    let level = risen.level;
    (risen.fit, risen.short) = (None, Vec::new());
    let top = bound.top(&groups.targets(level), &groups.slopes()).max(level * COARSE_FACTOR);
    if level == 0.0 {
        calibrate(trials, groups, top)?;
    }
    let floor = floor(trials, groups);
    let mut above = f64::INFINITY;
    let mut next = look(trials, groups, top, level.max(floor), &mut above)?;
    let few = &trials.settings.search[..FIRST_SEEDS.min(trials.settings.search.len())];
    let mut seems = level;
    while let Some(at) = next {
        match trials.fits(&groups.targets(at), few, 1.0)? {
            Ok(fit) => {
                trials.learn(&fit);
                seems = at;
            }
            Err(short) => (risen.short, above) = (short, at),
        }
        let wide = above.is_finite() && above > seems * (1.0 + LEVEL_RESOLUTION);
        let between = if seems > 0.0 { (seems * above).sqrt() } else { above / COARSE_FACTOR };
        next = (wide && between >= floor).then_some(between);
    }
    let mut down = LEVEL_RESOLUTION;
    while seems > level && seems >= floor {
        match trials.fits(&groups.targets(seems), &trials.settings.search, 1.0)? {
            Ok(fit) => {
                trials.learn(&fit);
                (risen.fit, risen.level) = (Some(fit), seems);
                break;
            }
            Err(short) => {
                risen.short = short;
                seems *= 1.0 - down;
                down = (2.0 * down).min(MOST_DOWN);
            }
        }
    }
    Ok(())
}

/// Learns the room that flows need when the air is not full.
fn calibrate(trials: &mut Trials<'_>, groups: &Groups, top: f64) -> Result<(), Halt> {
    for part in LEARNING_LEVELS {
        let targets = groups.targets(top * part);
        let one = &trials.settings.search[..1];
        let received = trials.receive(std::slice::from_ref(&targets), &targets, one)?.remove(0);
        if trials.worst(&targets, &received, 1.0) >= RECEIVED_TARGET_FRACTION {
            trials.learn_from(&targets, &received.mean);
            break;
        }
    }
    Ok(())
}

/// Returns the highest of the steps down from `top` that seems to fit with one seed.
///
/// `above` becomes the lowest higher step that does not fit.
fn look(
    trials: &Trials<'_>,
    groups: &Groups,
    top: f64,
    least: f64,
    above: &mut f64,
) -> Result<Option<f64>, Halt> {
    let bar = 1.0 - TRIED_SHORTFALL * trials.settings.tolerance;
    let passes = |levels: &[f64]| -> Result<Vec<bool>, Halt> {
        let targets: Vec<Vec<f64>> = levels.iter().map(|&l| groups.targets(l)).collect();
        let received = trials.preview(&targets)?;
        let parts = targets.iter().zip(&received).map(|(t, r)| trials.worst(t, r, 1.0));
        Ok(parts.map(|part| part >= bar).collect())
    };
    let mut top = top;
    if passes(&[top])?[0] {
        // The estimate was too low, or all demands are met.
        while groups.targets(top) != groups.targets(top * COARSE_FACTOR)
            && passes(&[top * COARSE_FACTOR])?[0]
        {
            top *= COARSE_FACTOR;
        }
        if groups.targets(top) != groups.targets(top * COARSE_FACTOR) {
            *above = top * COARSE_FACTOR;
        }
        return Ok(Some(top));
    }
    *above = top;
    loop {
        let levels: Vec<f64> =
            (1..=CONCURRENT_LEVELS).map(|k| top * COARSE_FACTOR.powi(-k)).collect();
        for (&level, fits) in levels.iter().zip(passes(&levels)?) {
            if level <= least {
                // Between the step above and the level known to fit.
                let between = (*above * least).sqrt();
                return Ok((*above > least * (1.0 + LEVEL_RESOLUTION)).then_some(between));
            }
            if fits {
                return Ok(Some(level));
            }
            *above = level;
        }
        top *= COARSE_FACTOR.powi(-CONCURRENT_LEVELS);
    }
}
