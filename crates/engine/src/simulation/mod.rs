//! A run that its owner advances, inspects, cancels and finishes.

mod cancel;
mod inputs;
mod runs;
mod snapshot;

use std::sync::Arc;

use fairmesh_control::Mechanism;
use fairmesh_queueing::DisciplineSpec;
use fairmesh_scenario::Scenario;
use fairmesh_units::{FlowId, Span, Time};

use crate::error::EngineError;
use crate::host::{self, ControlAt, Controls};
use crate::observe::{NodeState, Observer};
use crate::record::RunRecord;
use crate::world::collect::record;
use crate::world::{RunOptions, World};

pub use cancel::CancelToken;
pub use inputs::{Inputs, needs_fair_rates};
pub use runs::{run, run_observed, run_observed_until, run_under};
pub use snapshot::{FlowSnapshot, QueueSnapshot, Snapshot};

/// Simulated time between two checks of the [`CancelToken`].
const CANCEL_CHECK: Span = Span::from_millis(20);

/// State of a simulation after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// The end of the scenario is ahead.
    Running,
    /// The end of the scenario was reached; further steps have no effect.
    Ended,
    /// The [`CancelToken`] was used; further steps have no effect.
    Cancelled,
}

/// One run of a scenario.
///
/// It owns all that it needs, so it can be stored and sent to other threads.
///
/// Steps of any size lead to the same record, to the last bit.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use fairmesh_engine::{Inputs, RunOptions, Simulation, Status};
/// use fairmesh_units::{Span, Time};
/// # let text = "duration = \"2 s\"\n[topology]\nlinks = [[0, 1]]\n[[flow]]\nfrom = 0\nto = 1\n";
/// # let scenario = fairmesh_scenario::draft_from_toml("pair.toml", text)?.build()?;
/// let inputs = Inputs::analytic(&scenario, None)?;
/// let mut simulation = Simulation::new(scenario.into(), &RunOptions::default(), inputs)?;
/// let mut until = Time::ZERO;
/// while simulation.advance(until) == Status::Running {
///     println!("{:.0} %", 100.0 * simulation.snapshot().progress());
///     until += Span::from_millis(500);
/// }
/// let record = simulation.finish()?;
/// assert!(record.flows[0].goodput_bps > 0.0);
/// # Ok(())
/// # }
/// ```
pub struct Simulation {
    world: Worlds,
    cancel: CancelToken,
    /// The control if it is not the scenario's own.
    control: Option<Mechanism>,
}

/// The world, compiled once per set of capabilities so that a run pays only for its own.
///
/// The capabilities: with or without an observer of frames (`WATCH`), with or without per-packet services for
/// controls and measures (`HOST`).
enum Worlds {
    Plain(Box<World<false, false>>),
    Hosting(Box<World<false, true>>),
    Watched(Box<World<true, false>>),
    WatchedHosting(Box<World<true, true>>),
}

/// Applies an expression to each kind of world.
macro_rules! each {
    ($worlds:expr, $world:ident => $work:expr) => {
        match $worlds {
            Worlds::Plain($world) => $work,
            Worlds::Hosting($world) => $work,
            Worlds::Watched($world) => $work,
            Worlds::WatchedHosting($world) => $work,
        }
    };
}

impl Simulation {
    /// Builds a simulation at time zero.
    ///
    /// # Errors
    /// See [`EngineError`]: a control that does not start, a queue that cannot be built, a path with a gap.
    pub fn new(
        scenario: Arc<Scenario>,
        options: &RunOptions,
        inputs: Inputs,
    ) -> Result<Self, EngineError> {
        if options.sample == Some(Span::ZERO) {
            return Err(EngineError::ZeroSample);
        }
        let Inputs { fair, control, observer, cancel } = inputs;
        let wanted = match &control {
            Some(mechanism) => Controls { mechanism, at_gateways: None },
            None => Controls::of(&scenario),
        };
        let controls = host::start(&scenario, wanted, fair.as_ref(), options.seed)?;
        let listens = controls.iter().any(ControlAt::needs_listeners);
        let hosts = listens || options.acknowledged || options.links || charges_received(&scenario);
        macro_rules! world {
            () => {
                Box::new(World::new(scenario, options, fair, controls, observer)?)
            };
        }
        let world = match (observer.is_some(), hosts) {
            (false, false) => Worlds::Plain(world!()),
            (false, true) => Worlds::Hosting(world!()),
            (true, false) => Worlds::Watched(world!()),
            (true, true) => Worlds::WatchedHosting(world!()),
        };
        Ok(Simulation { world, cancel, control })
    }

    /// Advances to `until`, or to the end of the scenario if that is earlier.
    ///
    /// All events before that instant have then been processed. The [`CancelToken`] is checked every 20 ms of simulated
    /// time, between events.
    pub fn advance(&mut self, until: Time) -> Status {
        let cancel = &self.cancel;
        each!(&mut self.world, world => loop {
            if cancel.is_cancelled() {
                return Status::Cancelled;
            }
            if world.ended {
                return Status::Ended;
            }
            if world.now >= until {
                return Status::Running;
            }
            world.advance(until.min(world.now + CANCEL_CHECK));
        })
    }

    /// Processes one event. Datagrams that a source sends ahead of the radio are included.
    pub fn step(&mut self) -> Status {
        if self.cancel.is_cancelled() {
            return Status::Cancelled;
        }
        each!(&mut self.world, world => {
            world.step();
            if world.ended { Status::Ended } else { Status::Running }
        })
    }

    /// Returns the instant up to which the simulation has run.
    pub fn now(&self) -> Time {
        each!(&self.world, world => world.now)
    }

    /// Returns the progress and current measures.
    pub fn snapshot(&self) -> Snapshot {
        each!(&self.world, world => snapshot::of(world))
    }

    /// Replaces the content of `states` by the state of each wireless node, in scenario order.
    pub fn node_states(&self, states: &mut Vec<NodeState>) {
        states.clear();
        each!(&self.world, world => states.extend(world.scenario.wireless().enumerate().map(
            |(n, node)| NodeState {
                node,
                mac: world.air.mac_state(node),
                queue_packets: world.net.waiting(n),
            },
        )));
    }

    /// Returns the congestion window of a flow's sender, in bytes.
    ///
    /// `None` without congestion control.
    pub fn congestion_window(&self, flow: FlowId) -> Option<u64> {
        each!(&self.world, world => world.net.flows[flow.index()].cwnd())
    }

    /// Advances to the end of the scenario and returns the record.
    ///
    /// # Errors
    /// [`EngineError::Cancelled`].
    pub fn finish(self) -> Result<RunRecord, EngineError> {
        self.finish_observed().map(|(record, _)| record)
    }

    /// Advances to the end of the scenario; returns the record and the observer of [`Inputs`].
    ///
    /// # Errors
    /// [`EngineError::Cancelled`].
    pub fn finish_observed(
        mut self,
    ) -> Result<(RunRecord, Option<Box<dyn Observer>>), EngineError> {
        if self.advance(Time::NEVER) == Status::Cancelled {
            return Err(EngineError::Cancelled);
        }
        let (mut record, observer) = each!(&mut self.world, world => {
            let end = world.end();
            (record(world, end), world.net.observer.take())
        });
        if let Some(control) = self.control {
            record.control = control.to_string();
            record.ours = control.is_ours();
        }
        Ok((record, observer))
    }
}

/// Returns true if any queue charges neighbours for the airtime of frames received from them.
fn charges_received(scenario: &Scenario) -> bool {
    let queues = scenario.nodes().iter().filter_map(|n| n.queue.as_ref()).chain([scenario.queue()]);
    let airtime =
        |d: &DisciplineSpec| matches!(d, DisciplineSpec::Stations(s) if s.airtime.is_some());
    queues.map(|q| &q.discipline).any(airtime)
}

/// Asserts that simulations can move between threads and outlive their inputs.
const _: () = {
    const fn movable<T: Send + 'static>() {}
    movable::<Simulation>();
};
