//! Events as tuples of `fairmesh.mechanism`.

use std::sync::Arc;

use fairmesh_lab::control::units::{BitRate, Span};
use fairmesh_lab::control::{Class, Event, Header, ReceivedFrame};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyTuple};

static EVENTS: PyOnceLock<Arc<Events>> = PyOnceLock::new();

macro_rules! classes {
    ($($field:ident = $name:literal,)+) => {
        /// The classes of the events, and the single event without values.
        #[derive(Debug)]
        pub(super) struct Events { $( $field: Py<PyAny>, )+ }

        impl Events {
            /// Returns the classes, imported once.
            pub fn get(py: Python<'_>) -> PyResult<Arc<Self>> {
                let read = || {
                    let module = py.import("fairmesh.mechanism")?;
                    Ok::<_, PyErr>(Arc::new(Events { $( $field: module.getattr($name)?.unbind(), )+ }))
                };
                EVENTS.get_or_try_init(py, read).cloned()
            }
        }
    };
}

classes! {
    deadline = "DEADLINE",
    flow = "Flow",
    link = "Link",
    counters = "Counters",
    flow_counters = "FlowCounters",
    flow_link = "FlowLink",
    path_signs = "PathSigns",
    station = "Station",
    channel = "Channel",
    queue = "QueueLength",
    sent = "Sent",
    received = "Received",
    overheard = "Overheard",
    message = "Message",
    restarted = "Restarted",
    feedback = "Feedback",
    round_trip = "RoundTrip",
    flow_seen = "FlowSeen",
    flow_gone = "FlowGone",
    allocation = "Allocation",
}

impl Events {
    /// Returns an event as an object.
    pub fn object<'py>(&self, py: Python<'py>, event: &Event<'_>) -> PyResult<Bound<'py, PyAny>> {
        let s = |span: Span| span.as_secs_f64();
        let bps = |rate: BitRate| rate.0 as f64;
        let header = |h: &Header| PyTuple::new(py, h.0);
        let packet = |class: &Py<PyAny>, h: &ReceivedFrame| {
            let values = (h.link.from.0, h.link.to.0, h.flow.0, h.ack, h.bytes, header(&h.header)?);
            class.bind(py).call1(values)
        };
        match event {
            Event::Deadline => Ok(self.deadline.bind(py).clone()),
            Event::Counters(c) => self.counters.bind(py).call1((
                self.class(py, c.class)?,
                c.bytes,
                c.packets,
                c.drops,
                c.overlimits,
                c.queued_packets,
                c.queued_bytes,
            )),
            Event::FlowCounters(c) => {
                self.flow_counters.bind(py).call1((c.flow.0, c.bytes, c.packets))
            }
            Event::FlowLink(l) => {
                let (from, to) = (l.link.from.0, l.link.to.0);
                self.flow_link.bind(py).call1((from, to, l.flow.0, l.ack, l.bytes, l.packets))
            }
            // A mechanism of Python asks for no sums and no messages in place of header fields, and simulated
            // neighbours do not change.
            Event::SentSum(_) | Event::FlowSum(_) | Event::Fields(_) | Event::Neighbours(_) => {
                Ok(py.None().into_bound(py))
            }
            Event::PathSigns(p) => self.path_signs.bind(py).call1((
                p.flow.0,
                p.awaited,
                p.repeated,
                p.round_trip.map(|r| s(r.median)),
                p.round_trip.map(|r| s(r.base)),
                p.round_trip.map_or(0, |r| r.count),
                p.oldest.map(s),
            )),
            Event::Station(t) => self.station.bind(py).call1((
                t.node.0,
                t.tx_bytes,
                t.tx_packets,
                t.tx_retries,
                t.tx_failed,
                s(t.tx_airtime),
                bps(t.tx_rate),
                t.rx_bytes,
                t.rx_packets,
                s(t.rx_airtime),
            )),
            Event::Channel(c) => {
                let values = (s(c.active), s(c.busy), s(c.receive), s(c.transmit));
                self.channel.bind(py).call1(values)
            }
            Event::Queue(q) => {
                self.queue.bind(py).call1((self.class(py, q.class)?, q.packets, q.bytes))
            }
            Event::Sent(t) => self.sent.bind(py).call1((
                t.to.map(|n| n.0),
                t.flow.map(|f| f.0),
                t.ack,
                t.bytes,
                s(t.airtime),
                t.attempts,
                bps(t.rate),
                t.delivered,
                t.ack_bits,
            )),
            Event::Received(h) => packet(&self.received, h),
            Event::Overheard(h) => packet(&self.overheard, h),
            Event::Message(m) => self.message.bind(py).call1((m.from.0, PyBytes::new(py, m.body))),
            Event::Restarted(node) => self.restarted.bind(py).call1((node.0,)),
            Event::Feedback(f) => self.feedback.bind(py).call1((
                f.flow.0,
                s(f.rtt),
                f.acked,
                f.lost,
                f.marked,
                header(&f.header)?,
            )),
            Event::RoundTrip(r) => self.round_trip.bind(py).call1((r.flow.0, s(r.rtt))),
            Event::FlowSeen(f) => {
                let fair = f.fair.map(bps);
                self.flow_seen.bind(py).call1((f.flow.0, f.weight, f.payload, f.packet, fair))
            }
            Event::FlowGone(flow) => self.flow_gone.bind(py).call1((flow.0,)),
            Event::Allocation(a) => self.allocation.bind(py).call1((a.flow.0, bps(a.rate))),
        }
    }

    fn class<'py>(&self, py: Python<'py>, class: Class) -> PyResult<Bound<'py, PyAny>> {
        match class {
            Class::All => Ok("all".into_pyobject(py)?.into_any()),
            Class::Flow(flow) => self.flow.bind(py).call1((flow.0,)),
            Class::Link(node) => self.link.bind(py).call1((node.0,)),
        }
    }
}
