//! Curves of links and of foreign energy.

use fairmesh_control::Class;
use fairmesh_scenario::Scenario;
use fairmesh_units::{NodeId, Time};
use fairmesh_wifi::ChannelTime;

use crate::airs::Airs;
use crate::net::{LinkMeter, LinkMeters, Net};
use crate::record::{LinkSeries, Series};

/// Counter values at the last sample of the curves.
pub(super) struct LinkCurves {
    packets: Vec<(u64, u64)>,
    channel: Vec<ChannelTime>,
}

impl LinkCurves {
    /// Prepares the curves of all links, and the counters behind them.
    pub fn begin<const WATCH: bool, const HOST: bool>(
        scenario: &Scenario,
        air: &Airs,
        net: &mut Net<WATCH, HOST>,
        series: &mut Series,
    ) -> Self {
        let meters = LinkMeters::of(scenario, air);
        let name = |n: NodeId| scenario.nodes()[n.index()].name.clone();
        let curves = |m: &LinkMeter| LinkSeries {
            from: name(m.from),
            to: name(m.to),
            ..LinkSeries::default()
        };
        series.links = meters.0.iter().map(curves).collect();
        let packets = vec![(0, 0); meters.0.len()];
        net.links = Some(meters);
        let nodes = scenario.wireless();
        let channel: Vec<ChannelTime> = nodes.map(|n| air.channel_time(Time::ZERO, n)).collect();
        series.foreign = vec![Vec::new(); channel.len()];
        LinkCurves { packets, channel }
    }

    pub fn sample<const WATCH: bool, const HOST: bool>(
        &mut self,
        at: Time,
        air: &Airs,
        net: &Net<WATCH, HOST>,
        series: &mut Series,
    ) {
        let Some(meters) = &net.links else { return };
        let curves = series.links.iter_mut().zip(&meters.0).zip(&mut self.packets);
        for ((curve, meter), before) in curves {
            let now = (meter.packets, meter.frames);
            let last = std::mem::replace(before, now);
            curve.packets.push(now.0 - last.0);
            curve.frames.push(now.1 - last.1);
            let classes = net.interfaces[meter.from.index()].classes.as_ref();
            let limit = classes.and_then(|c| c.airtime_of(Class::Link(meter.to)));
            curve.airtime.push(limit.unwrap_or(0.0));
        }
        for (n, (curve, before)) in series.foreign.iter_mut().zip(&mut self.channel).enumerate() {
            let now = air.channel_time(at, NodeId(n as u32));
            let last = std::mem::replace(before, now);
            let ran = |t: fn(&ChannelTime) -> fairmesh_units::Span| {
                t(&now).as_secs_f64() - t(&last).as_secs_f64()
            };
            // A frame in progress may be counted on one side only.
            let foreign = (ran(|t| t.busy) - ran(|t| t.receive)) / ran(|t| t.active);
            curve.push(foreign.max(0.0));
        }
    }
}
