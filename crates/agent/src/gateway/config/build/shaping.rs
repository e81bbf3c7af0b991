//! `[mesh]`, `[wired]` and `[shaping]`: interfaces, table and queues.

use fairmesh_document::{KeyPath, Located, Problem};
use fairmesh_linux::{Bypass, Layout, LayoutError, LeafChoice, LeafKind, ShaperChoice, ShaperKind};
use fairmesh_units::Span;

use crate::gateway::config::draft::{self, Draft};
use crate::gateway::config::refuse::{Result, fail, refused};

/// Longest time that a full queue delays a packet at its limit.
const MAX_QUEUE_DELAY: Span = Span::from_millis(100);

pub(super) fn layout(draft: &Draft) -> Result<Layout> {
    let side = |given: &Option<draft::Side>, table: &str| match given {
        Some(side) => Ok(side.interface.clone()),
        None => refused(
            KeyPath::root(),
            format!("[{table}] is missing"),
            format!("[{table}] with interface = \"…\""),
        ),
    };
    let mut layout = Layout::new(side(&draft.mesh, "mesh")?, side(&draft.wired, "wired")?);
    let shaping = &draft.shaping;
    layout.leaf = match shaping.leaf {
        None | Some(draft::Leaf::Best | draft::Leaf::Control) => LeafChoice::Best,
        Some(draft::Leaf::FqCodel) => LeafChoice::Only(LeafKind::FqCodel),
        Some(draft::Leaf::Cake) => LeafChoice::Only(LeafKind::Cake),
        Some(draft::Leaf::Sfq) => LeafChoice::Only(LeafKind::Sfq),
        Some(draft::Leaf::Bfifo) => LeafChoice::Only(LeafKind::Bfifo),
    };
    layout.shaper = match shaping.shaper {
        draft::ShaperName::Auto => ShaperChoice::Auto,
        draft::ShaperName::Htb => ShaperChoice::Only(ShaperKind::Htb),
        draft::ShaperName::Edt => ShaperChoice::Only(ShaperKind::Edt),
    };
    if let Some(table) = &shaping.table {
        layout.table.clone_from(table);
    }
    if let Some(handle) = shaping.handle {
        layout.handle = u16::try_from(handle).or_else(|_| {
            fail(KeyPath::from("shaping.handle"), Problem::range(handle, "256 to 32767"))
        })?;
    }
    let delay = shaping.delay.unwrap_or(MAX_QUEUE_DELAY);
    if delay != Span::ZERO && !(Span::from_millis(10)..=Span::from_secs(10)).contains(&delay) {
        let expected = "10 ms to 10 s, or 0 s for queues of one length";
        return fail(KeyPath::from("shaping.delay"), Problem::range(delay, expected));
    }
    layout.delay_ms = (delay.as_nanos() / 1_000_000) as u32;
    if let Some(queue) = shaping.queue {
        layout.queue = u32::try_from(queue).or_else(|_| {
            fail(KeyPath::from("shaping.queue"), Problem::range(queue, "2 to 10000"))
        })?;
    }
    let standard = Bypass::default();
    layout.bypass = Bypass {
        udp: shaping.bypass_udp.clone().unwrap_or(standard.udp),
        tcp: shaping.bypass_tcp.clone().unwrap_or(standard.tcp),
    };
    layout.check().map_err(|e| {
        let key = match e {
            LayoutError::SameInterface(_) => "wired.interface",
            LayoutError::TableName(_) => "shaping.table",
            LayoutError::Handle(_) => "shaping.handle",
            LayoutError::Queue(_) => "shaping.queue",
            LayoutError::Shaper(_) => "shaping.leaf",
            _ => "shaping",
        };
        Located::at(KeyPath::from(key), Problem::refused(e.problem(), e.expected()))
    })?;
    Ok(layout)
}

/// True if the control decides on the queues in subscribers' classes.
///
/// The operator's choice takes precedence over the control's; a contradiction is refused.
pub(super) fn queues_by_control(draft: &Draft) -> Result<bool> {
    let asked = draft.control.parameters.contains_key("queue");
    match draft.shaping.leaf {
        None => Ok(asked),
        Some(draft::Leaf::Control) if draft.shaping.queue.is_some() => refused(
            KeyPath::from("shaping.queue"),
            "shaping.leaf = \"control\" leaves the queues to the control",
            "none, or control.queue instead",
        ),
        Some(draft::Leaf::Control) if draft.shaping.delay.is_some() => refused(
            KeyPath::from("shaping.delay"),
            "shaping.leaf = \"control\" leaves the queues to the control",
            "none, or another leaf",
        ),
        Some(draft::Leaf::Control) => Ok(true),
        Some(_) if asked => refused(
            KeyPath::from("control.queue"),
            "shaping.leaf sets the queue already",
            "none, or leaf = \"control\"",
        ),
        Some(_) => Ok(false),
    }
}
