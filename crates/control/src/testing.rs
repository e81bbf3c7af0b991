//! Helpers shared by the unit tests of mechanisms.

use fairmesh_units::{BitRate, FlowId, NodeId, Stream, Time};

use crate::{
    Action, Actions, Class, Event, FlowHere, Instance, Mechanism, Neighbour, Offers, Place,
    Registry, Setting, Site, StartError, UnknownControl,
};

/// A flow that crosses the gateway, in packets of 1500 bytes with 1460 of data.
pub(crate) fn flow(id: u32) -> FlowHere {
    FlowHere::new(FlowId(id), Place::Forwarder, 1460, 1500)
}

/// A gateway with two neighbours on links with 900 kbit/s: bounds of 300 and 900.
pub(crate) fn gateway(flows: &[u32]) -> Setting {
    let link = |n| Neighbour::new(NodeId(n), BitRate(1_000_000), BitRate(900_000));
    let site = Site::new().with_gateway(true).with_hops(Some(0));
    Setting::new(NodeId(0), site, Stream::new(1, "control/gateway"))
        .with_flows(flows.iter().map(|f| flow(*f)))
        .with_neighbours([1, 2].map(link))
}

/// Returns a mechanism of this crate by name.
pub(crate) fn lookup(name: &str) -> Result<Mechanism, UnknownControl> {
    Registry::standard().lookup(name)
}

pub(crate) fn start_with(
    name: &str,
    setting: Setting,
    parameters: &[(&str, f64)],
) -> Result<Instance, StartError> {
    let offers = Offers::everything("test");
    let mut mechanism = lookup(name).unwrap();
    for (parameter, value) in parameters {
        mechanism.set(parameter, *value).unwrap();
    }
    mechanism.start(setting, &offers).map(Option::unwrap)
}

pub(crate) fn start(name: &str, setting: Setting) -> Instance {
    start_with(name, setting, &[]).unwrap()
}

/// Returns all actions that an event causes.
pub(crate) fn actions(instance: &mut Instance, now: Time, event: Event<'_>) -> Actions {
    let mut actions = Actions::new();
    instance.control.on(now, &event, &mut actions);
    actions
}

/// Returns the limits among the actions.
pub(crate) fn limits_of(actions: &Actions) -> Vec<(Class, u64)> {
    let limit = |a: &Action| match a {
        Action::SetRate { class, rate } => Some((*class, rate.unwrap().0)),
        _ => None,
    };
    actions.iter().filter_map(limit).collect()
}

pub(crate) fn limits(instance: &mut Instance, now: Time, event: Event<'_>) -> Vec<(Class, u64)> {
    limits_of(&actions(instance, now, event))
}

/// Returns the reasons among the actions, as text.
pub(crate) fn reasons_of(actions: &Actions) -> Vec<String> {
    let reason = |a: &Action| match a {
        Action::Because(reason) => Some(reason.to_string()),
        _ => None,
    };
    actions.iter().filter_map(reason).collect()
}
