//! Messages with the values of packets, for nodes without packets to carry them.

use fairmesh_units::{FlowId, NodeId};

use super::codec::{self, Circles, Malformed, OuterValues, Values};

const CIRCLES: u8 = 1;
const PATH_LEVEL: u8 = 2;
const UNDELIVERED: u8 = 3;

/// Content of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    /// All values of a header.
    ///
    /// A node sets `undelivered` if its packets to that node are not delivered.
    Circles { levels: Circles, rates: Circles, outer: OuterValues, undelivered: Option<NodeId> },
    /// Code of the lowest level from here on, for a flow without acknowledgements.
    Way { flow: FlowId, level: u8 },
}

/// Encodes circles in ten bytes.
pub(super) fn circles(levels: Circles, rates: Circles, outer: OuterValues) -> [u8; 10] {
    let [a, b, c] = levels.0;
    let [d, e, f] = rates.0;
    [CIRCLES, a, b, c, d, e, f, outer.air, outer.level, outer.rate]
}

/// Encodes circles and a node in twelve bytes.
///
/// Ids are two bytes; a mesh of more nodes has no such neighbour.
pub(super) fn undelivered_body(
    levels: Circles,
    rates: Circles,
    outer: OuterValues,
    to: NodeId,
) -> [u8; 12] {
    let mut body = [UNDELIVERED; 12];
    body[1..10].copy_from_slice(&circles(levels, rates, outer)[1..]);
    body[10..].copy_from_slice(&u16::try_from(to.0).unwrap_or(u16::MAX).to_be_bytes());
    body
}

/// Encodes the level of a path in six bytes.
pub(super) fn way(flow: FlowId, level: u8) -> [u8; 6] {
    let [a, b, c, d] = flow.0.to_be_bytes();
    [PATH_LEVEL, a, b, c, d, level]
}

pub(super) fn read(body: &[u8]) -> Result<Content, Malformed> {
    match *body {
        [CIRCLES, ref values @ ..] if values.len() == 9 => read_values(values, None),
        [UNDELIVERED, ref values @ .., a, b] if values.len() == 9 => {
            read_values(values, Some(NodeId(u16::from_be_bytes([a, b]).into())))
        }
        [PATH_LEVEL, a, b, c, d, level] if level > 0 => {
            Ok(Content::Way { flow: FlowId(u32::from_be_bytes([a, b, c, d])), level })
        }
        _ => Err(Malformed),
    }
}

fn read_values(values: &[u8], undelivered: Option<NodeId>) -> Result<Content, Malformed> {
    let &[a, b, c, d, e, f, air, level, rate] = values else { return Err(Malformed) };
    let (levels, rates) = (Circles([a, b, c]), Circles([d, e, f]));
    // As strict as with headers.
    codec::read(codec::word(Values::Levels(levels)))?;
    codec::read(codec::word(Values::Rates(rates)))?;
    Ok(Content::Circles { levels, rates, outer: OuterValues { air, level, rate }, undelivered })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_come_back() {
        let (levels, rates) = (Circles([0, 9, 3]), Circles([1, 2, 2]));
        let outer = OuterValues { air: 7, level: 3, rate: 9 };
        let body = circles(levels, rates, outer);
        assert_eq!(read(&body), Ok(Content::Circles { levels, rates, outer, undelivered: None }));
        let to = Some(NodeId(700));
        let body12 = undelivered_body(levels, rates, outer, NodeId(700));
        assert_eq!(read(&body12), Ok(Content::Circles { levels, rates, outer, undelivered: to }));
        assert_eq!(read(&body12[..11]), Err(Malformed));
        assert_eq!(read(&body[..9]), Err(Malformed));
        assert_eq!(read(&circles(Circles([3, 9, 9]), rates, outer)), Err(Malformed));
        let flow = FlowId(70_000);
        assert_eq!(read(&way(flow, 8)), Ok(Content::Way { flow, level: 8 }));
        assert_eq!(read(&way(flow, 0)), Err(Malformed));
        assert_eq!(read(&[]), Err(Malformed));
    }

    proptest! {
        #[test]
        fn nothing_breaks_it(body in prop::collection::vec(any::<u8>(), 0..12)) {
            let _ = read(&body);
        }
    }
}
