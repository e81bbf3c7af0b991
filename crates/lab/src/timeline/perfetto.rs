//! Perfetto's trace format.
//!
//! It has the few messages of `trace_packet.proto` and `track_event.proto` that a timeline needs.
//!
//! Field numbers are those of the schema. Times are nanoseconds since the start of the run.

use fairmesh_units::Time;
use prost::Message;

/// A trace: a list of packets.
#[derive(Clone, PartialEq, Message)]
pub struct Trace {
    /// Descriptors of tracks, then events.
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<TracePacket>,
}

/// A track's descriptor, or an event.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    /// Instant of the event, in ns.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// Writer of the packet; 1 here.
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    /// The event.
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    /// The descriptor.
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
}

/// Name and place of a track.
#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    /// Identifier, unique in the trace.
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    /// Name.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// Track that has this one below it.
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    /// Present if the track is a counter.
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
    /// Order of the tracks below this one: 3 is by `sibling_order_rank`.
    #[prost(int32, optional, tag = "11")]
    pub child_ordering: Option<i32>,
    /// Place among its siblings.
    #[prost(int32, optional, tag = "12")]
    pub sibling_order_rank: Option<i32>,
}

/// Unit of a counter.
#[derive(Clone, PartialEq, Message)]
pub struct CounterDescriptor {
    /// Name of the unit.
    #[prost(string, optional, tag = "6")]
    pub unit_name: Option<String>,
}

/// Start or end of a slice, or a value of a counter.
#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    /// Facts that are shown with a slice.
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    /// Kind of the event.
    #[prost(enumeration = "EventKind", optional, tag = "9")]
    pub r#type: Option<i32>,
    /// The track.
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    /// Name of a slice.
    #[prost(string, optional, tag = "23")]
    pub name: Option<String>,
    /// Value of a counter.
    #[prost(int64, optional, tag = "30")]
    pub counter_value: Option<i64>,
    /// Arrows that begin at, pass through or end at a slice.
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub flow_ids: Vec<u64>,
}

/// Kinds of events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum EventKind {
    /// None.
    Unspecified = 0,
    /// Start of a slice.
    SliceBegin = 1,
    /// End of a slice.
    SliceEnd = 2,
    /// A point in time.
    Instant = 3,
    /// A value of a counter.
    Counter = 4,
}

/// A named value; the format's other types of value are not used.
#[derive(Clone, PartialEq, Message)]
pub struct DebugAnnotation {
    /// Name.
    #[prost(string, optional, tag = "10")]
    pub name: Option<String>,
    /// Value, if it is an integer.
    #[prost(int64, optional, tag = "4")]
    pub int_value: Option<i64>,
    /// Value, if it is a text.
    #[prost(string, optional, tag = "6")]
    pub string_value: Option<String>,
}

impl DebugAnnotation {
    /// Builds an integer with a name.
    pub fn number(name: &str, value: i64) -> Self {
        DebugAnnotation { name: Some(name.into()), int_value: Some(value), string_value: None }
    }

    /// Builds a text with a name.
    pub fn text(name: &str, value: impl Into<String>) -> Self {
        let string_value = Some(value.into());
        DebugAnnotation { name: Some(name.into()), int_value: None, string_value }
    }
}

/// Identifier of a track.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Track(u64);

/// Builds a trace.
#[derive(Default)]
pub struct Writer {
    trace: Trace,
    tracks: u64,
}

impl Writer {
    /// Adds a track below another, or at the top.
    ///
    /// Siblings are shown in the order in which they are added.
    pub fn track(&mut self, name: &str, parent: Option<Track>) -> Track {
        self.describe(name, parent, None)
    }

    /// Adds a counter below a track.
    pub fn counter(&mut self, name: &str, unit: &str, parent: Track) -> Track {
        let counter = CounterDescriptor { unit_name: Some(unit.into()) };
        self.describe(name, Some(parent), Some(counter))
    }

    fn describe(
        &mut self,
        name: &str,
        parent: Option<Track>,
        counter: Option<CounterDescriptor>,
    ) -> Track {
        self.tracks += 1;
        let descriptor = TrackDescriptor {
            uuid: Some(self.tracks),
            name: Some(name.into()),
            parent_uuid: parent.map(|t| t.0),
            counter,
            child_ordering: Some(3),
            sibling_order_rank: Some(self.tracks as i32),
        };
        self.trace.packet.push(TracePacket {
            timestamp: None,
            trusted_packet_sequence_id: Some(1),
            track_event: None,
            track_descriptor: Some(descriptor),
        });
        Track(self.tracks)
    }

    fn event(&mut self, at: Time, event: TrackEvent) {
        self.trace.packet.push(TracePacket {
            timestamp: Some(at.as_nanos()),
            trusted_packet_sequence_id: Some(1),
            track_event: Some(event),
            track_descriptor: None,
        });
    }

    /// Adds a slice. Slices of one track do not overlap and are added in their order.
    pub fn slice(
        &mut self,
        track: Track,
        (start, end): (Time, Time),
        name: &str,
        annotations: Vec<DebugAnnotation>,
        arrows: Vec<u64>,
    ) {
        let event = |kind: EventKind| TrackEvent {
            r#type: Some(kind as i32),
            track_uuid: Some(track.0),
            ..TrackEvent::default()
        };
        let begin = TrackEvent {
            debug_annotations: annotations,
            name: Some(name.into()),
            flow_ids: arrows,
            ..event(EventKind::SliceBegin)
        };
        self.event(start, begin);
        self.event(end, event(EventKind::SliceEnd));
    }

    /// Adds a value of a counter.
    pub fn value(&mut self, counter: Track, at: Time, value: i64) {
        let event = TrackEvent {
            r#type: Some(EventKind::Counter as i32),
            track_uuid: Some(counter.0),
            counter_value: Some(value),
            ..TrackEvent::default()
        };
        self.event(at, event);
    }

    /// Returns the trace in its binary form.
    pub fn encode(&self) -> Vec<u8> {
        self.trace.encode_to_vec()
    }
}
