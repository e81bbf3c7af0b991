//! Messages: a node's neighbours, and the values of a link without packets to carry them.

use fairmesh_units::NodeId;

use super::codec::{self, Malformed, OneHop, TwoHop};

const TOPOLOGY: u8 = 1;
const ONE_WAY: u8 = 2;
const UNDELIVERED: u8 = 3;

/// Content of a message.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Content {
    /// The sender's neighbours: with the receiver's own they give its links within two hops.
    Neighbours(Vec<NodeId>),
    /// Values that packets to `to` would carry.
    ///
    /// `undelivered` is true if there are such packets and they are not delivered; otherwise the
    /// sender has none, but receives from there.
    Link { to: NodeId, undelivered: bool, one: OneHop, two: TwoHop },
}

/// Encodes an id in two bytes; a mesh of more nodes has no such neighbour.
fn id(node: NodeId) -> [u8; 2] {
    u16::try_from(node.0).unwrap_or(u16::MAX).to_be_bytes()
}

pub(super) fn topology(neighbours: impl Iterator<Item = NodeId>) -> Vec<u8> {
    let mut bytes = vec![TOPOLOGY];
    // The count must fit a byte.
    neighbours.take(255).for_each(|n| bytes.extend(id(n)));
    bytes.insert(1, ((bytes.len() - 1) / 2) as u8);
    bytes
}

pub(super) fn link(
    to: NodeId,
    undelivered: bool,
    one: &OneHop,
    two: &TwoHop,
    dither: f64,
) -> [u8; 13] {
    let mut bytes = [if undelivered { UNDELIVERED } else { ONE_WAY }; 13];
    bytes[1..3].copy_from_slice(&id(to));
    bytes[3..].copy_from_slice(&codec::to_bytes(one, two, dither));
    bytes
}

pub(super) fn read(body: &[u8]) -> Result<Content, Malformed> {
    let node = |b: &[u8]| NodeId(u32::from(u16::from_be_bytes([b[0], b[1]])));
    match body {
        [TOPOLOGY, count, ids @ ..] if ids.len() == 2 * usize::from(*count) => {
            Ok(Content::Neighbours(ids.chunks_exact(2).map(node).collect()))
        }
        [kind @ (ONE_WAY | UNDELIVERED), a, b, values @ ..] => {
            let values: &[u8; 10] = values.try_into().map_err(|_| Malformed)?;
            let (one, two) = codec::from_bytes(values)?;
            Ok(Content::Link { to: node(&[*a, *b]), undelivered: *kind == UNDELIVERED, one, two })
        }
        _ => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_come_back() {
        let ids = [3, 700, 65_000].map(NodeId);
        let bytes = topology(ids.into_iter());
        assert_eq!(bytes, [1, 3, 0, 3, 2, 188, 253, 232]);
        assert_eq!(read(&bytes), Ok(Content::Neighbours(ids.to_vec())));
        let one =
            OneHop { weight: 1.0, largest: 4.0, used: 1.0, scaling: 1.0, ..OneHop::default() };
        let two = TwoHop { weight: 4.0, largest: 8.0, scaling: 1.0, ..TwoHop::default() };
        for undelivered in [false, true] {
            let bytes = link(NodeId(8), undelivered, &one, &two, 0.5);
            assert_eq!(read(&bytes), Ok(Content::Link { to: NodeId(8), undelivered, one, two }));
            assert_eq!(read(&bytes[..12]), Err(Malformed));
        }
        assert_eq!(read(&[]), Err(Malformed));
    }

    proptest! {
        #[test]
        fn nothing_breaks_it(body in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = read(&body);
        }
    }
}
