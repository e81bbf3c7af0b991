//! The message of a router to its radio neighbours: header, fields, truncated HMAC-SHA-256.
//!
//! | octets | |
//! |---|---|
//! | 0–1 | `fm` |
//! | 2 | version, 1 |
//! | 3 | kind: 1, to the neighbours; 2, a gateway's order to one router; 3, the response to it |
//! | 4–7 | tag of the mesh, derived from its key |
//! | 8–13 | Ethernet address of the sending interface |
//! | 14–17 | run: larger at every start of the sender |
//! | 18–21 | sequence: rises with every message of a run |
//! | 22… | fields: type, length of the value, value; an octet each before the value |
//! | last 12 | tag of all preceding octets |
//!
//! Integers are big-endian. A message has at most [`MAX_MESSAGE_BYTES`] octets, so that a vendor action frame can carry it.
//!
//! | field | value |
//! |---|---|
//! | 1 | role: 0 router, 1 gateway, 2 access point |
//! | 2 | name of the sender's mechanism, before its bodies |
//! | 3 | body of a message of that mechanism |
//! | 4 | address of the only receiver of the next body |
//! | 5 | number of the sender, by which mechanisms name it in the whole mesh: 2 octets |
//! | 6 | challenge of the router that gets orders: 8 octets |
//!
//! A receiver ignores fields of other types.

use fairmesh_linux::MacAddr;
use serde::{Deserialize, Serialize};

use crate::key::Key;

/// Longest message in octets.
pub const MAX_MESSAGE_BYTES: usize = 250;
/// Longest list of fields in octets.
pub const MAX_FIELDS_BYTES: usize = MAX_MESSAGE_BYTES - HEADER_BYTES - TAG_BYTES;

const MAGIC: &[u8; 2] = b"fm";
/// Version of the format.
pub const VERSION: u8 = 1;

/// Kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// To the neighbours; no router forwards it.
    OneHop = 1,
    /// A gateway's order to one router, over any number of hops.
    Order = 2,
    /// The response of that router, with its present challenge.
    Challenge = 3,
}

const HEADER_BYTES: usize = 22;
/// Octets of the truncated tag.
///
/// RFC 2104 §5 recommends half of the complete tag, which is 16 octets, and at least 10. A forger has one attempt per message and sees no result, and the receiver checks a bounded number per second.
const TAG_BYTES: usize = 12;

/// Longest name of a mechanism in a message.
const MAX_NAME_BYTES: usize = 32;

/// Reason why the bytes are not a valid message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// Invalid format.
    Malformed,
    /// Another version.
    Version,
    /// Another kind of message.
    Kind,
    /// A message of a mesh with another key.
    Mesh,
    /// Wrong tag: made without the key, or modified in transit.
    Tag,
}

/// Role of a router, as it announces it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The node forwards traffic.
    #[default]
    Router,
    /// The node joins the mesh to the Internet.
    Gateway,
    /// Wireless hosts attach to it.
    AccessPoint,
}

impl Role {
    /// All roles, in the order of their codes.
    pub const ALL: [Role; 3] = [Role::Router, Role::Gateway, Role::AccessPoint];

    /// Name in configurations and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Router => "router",
            Role::Gateway => "gateway",
            Role::AccessPoint => "access-point",
        }
    }
}

/// One field of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field<'a> {
    /// Role of the sender.
    Role(Role),
    /// Mechanism of the bodies that follow.
    Mechanism(&'a str),
    /// A message of this mechanism, in its own encoding.
    Body(&'a [u8]),
    /// The only receiver of the next body.
    To(MacAddr),
    /// The sender's number in the mesh.
    Number(u16),
    /// A challenge of the router that gets orders.
    Challenge(u64),
}

const ROLE_FIELD: u8 = 1;
const MECHANISM_FIELD: u8 = 2;
const BODY_FIELD: u8 = 3;
const TO_FIELD: u8 = 4;
const NUMBER_FIELD: u8 = 5;
const CHALLENGE_FIELD: u8 = 6;

/// The fields of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Checks that every field is complete and has a value of its type.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (kind, value, after) = split(rest)?;
            if matches!(
                kind,
                ROLE_FIELD
                    | MECHANISM_FIELD
                    | BODY_FIELD
                    | TO_FIELD
                    | NUMBER_FIELD
                    | CHALLENGE_FIELD
            ) {
                known(kind, value)?;
            }
            rest = after;
        }
        Some(Fields(bytes))
    }

    /// The fields of known types, in order.
    pub fn iter(self) -> impl Iterator<Item = Field<'a>> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (kind, value, after) = split(rest)?;
            rest = after;
            Some(known(kind, value))
        })
        .flatten()
    }

    /// The announced role; the default if the message has none.
    pub fn role(self) -> Role {
        let role = |f| if let Field::Role(role) = f { Some(role) } else { None };
        self.iter().find_map(role).unwrap_or_default()
    }

    /// The announced number.
    pub fn number(self) -> Option<u16> {
        self.iter().find_map(|f| if let Field::Number(number) = f { Some(number) } else { None })
    }

    /// The challenge that an order repeats, or that a response announces.
    pub fn challenge(self) -> Option<u64> {
        self.iter().find_map(|f| if let Field::Challenge(c) = f { Some(c) } else { None })
    }

    /// The bodies for this mechanism at a receiver with these addresses.
    pub fn bodies(self, mechanism: &str, own: &[MacAddr]) -> impl Iterator<Item = &'a [u8]> {
        let (mut of, mut to) = ("", None);
        self.iter().filter_map(move |field| match field {
            Field::Mechanism(name) => {
                of = name;
                None
            }
            Field::To(mac) => {
                to = Some(mac);
                None
            }
            Field::Body(body) => {
                let here = to.take().is_none_or(|mac| own.contains(&mac));
                (here && of == mechanism).then_some(body)
            }
            Field::Role(_) | Field::Number(_) | Field::Challenge(_) => None,
        })
    }
}

fn split(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[kind, length], rest) = bytes.split_first_chunk()?;
    let (value, rest) = rest.split_at_checked(usize::from(length))?;
    Some((kind, value, rest))
}

fn known(kind: u8, value: &[u8]) -> Option<Field<'_>> {
    match (kind, value) {
        (ROLE_FIELD, [code]) => Role::ALL.get(usize::from(*code)).map(|role| Field::Role(*role)),
        (MECHANISM_FIELD, name)
            if (1..=MAX_NAME_BYTES).contains(&name.len()) && name.is_ascii() =>
        {
            std::str::from_utf8(name).ok().map(Field::Mechanism)
        }
        (BODY_FIELD, body) => Some(Field::Body(body)),
        (TO_FIELD, mac) => mac.try_into().ok().map(|mac| Field::To(MacAddr(mac))),
        (NUMBER_FIELD, number) => {
            number.try_into().ok().map(|n| Field::Number(u16::from_be_bytes(n)))
        }
        (CHALLENGE_FIELD, c) => c.try_into().ok().map(|c| Field::Challenge(u64::from_be_bytes(c))),
        _ => None,
    }
}

/// Fields of a message that is being composed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Draft(Vec<u8>);

impl Draft {
    /// A message without fields.
    pub fn new() -> Self {
        Draft::default()
    }

    /// Adds a field; returns false and adds nothing if it does not fit.
    #[must_use]
    pub fn push(&mut self, field: Field<'_>) -> bool {
        let (code, address, two, eight);
        let (kind, value): (u8, &[u8]) = match field {
            Field::Role(role) => {
                code = [role as u8];
                (ROLE_FIELD, &code)
            }
            Field::Mechanism(name) => (MECHANISM_FIELD, name.as_bytes()),
            Field::Body(body) => (BODY_FIELD, body),
            Field::To(mac) => {
                address = mac.0;
                (TO_FIELD, &address)
            }
            Field::Number(number) => {
                two = number.to_be_bytes();
                (NUMBER_FIELD, &two)
            }
            Field::Challenge(challenge) => {
                eight = challenge.to_be_bytes();
                (CHALLENGE_FIELD, &eight)
            }
        };
        let fits =
            self.0.len() + 2 + value.len() <= MAX_FIELDS_BYTES && known(kind, value).is_some();
        if fits {
            // At most MAX_FIELDS_BYTES, which is less than 256.
            self.0.extend_from_slice(&[kind, value.len() as u8]);
            self.0.extend_from_slice(value);
        }
        fits
    }

    /// Octets of the complete message.
    pub fn size(&self) -> usize {
        HEADER_BYTES + self.0.len() + TAG_BYTES
    }
}

/// Key of a mesh with the tag derived from it.
#[derive(Clone, Debug)]
pub struct MeshKey {
    key: Key,
    mesh: [u8; 4],
}

impl MeshKey {
    /// Derives the tag of the mesh.
    pub fn new(key: Key) -> Self {
        let [a, b, c, d, ..] = key.tag(b"fairmesh mesh tag");
        MeshKey { key, mesh: [a, b, c, d] }
    }
}

/// Header and fields of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    /// Address of the sending interface.
    pub mac: MacAddr,
    /// Number of the sender's run.
    pub run: u32,
    /// Number of the message in this run.
    pub sequence: u32,
    /// Fields of the message.
    pub fields: Fields<'a>,
}

/// Returns the bytes of a message to the neighbours.
pub fn seal(key: &MeshKey, mac: MacAddr, run: u32, sequence: u32, draft: &Draft) -> Vec<u8> {
    seal_as(Kind::OneHop, key, mac, (run, sequence), draft)
}

/// Returns the bytes of a message of a kind.
pub fn seal_as(
    kind: Kind,
    key: &MeshKey,
    mac: MacAddr,
    (run, sequence): (u32, u32),
    draft: &Draft,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(draft.size());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[VERSION, kind as u8]);
    out.extend_from_slice(&key.mesh);
    out.extend_from_slice(&mac.0);
    out.extend_from_slice(&run.to_be_bytes());
    out.extend_from_slice(&sequence.to_be_bytes());
    out.extend_from_slice(&draft.0);
    let tag = key.key.tag(&out);
    out.extend_from_slice(&tag[..TAG_BYTES]);
    out
}

/// Reads the header of a message to the neighbours without checking its tag.
///
/// # Errors
/// See [`Unreadable`].
pub fn peek<'a>(key: &MeshKey, bytes: &'a [u8]) -> Result<Unverified<'a>, Unreadable> {
    peek_as(Kind::OneHop, key, bytes)
}

/// Reads the header of a message of a kind without checking its tag.
///
/// # Errors
/// See [`Unreadable`].
pub fn peek_as<'a>(
    kind: Kind,
    key: &MeshKey,
    bytes: &'a [u8],
) -> Result<Unverified<'a>, Unreadable> {
    if bytes.len() > MAX_MESSAGE_BYTES {
        return Err(Unreadable::Malformed);
    }
    let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(Unreadable::Malformed)?;
    if header[..2] != *MAGIC {
        return Err(Unreadable::Malformed);
    }
    // Other versions may differ in all following octets.
    if header[2] != VERSION {
        return Err(Unreadable::Version);
    }
    if header[3] != kind as u8 {
        return Err(Unreadable::Kind);
    }
    if header[4..8] != key.mesh {
        return Err(Unreadable::Mesh);
    }
    let fields = rest.len().checked_sub(TAG_BYTES).ok_or(Unreadable::Malformed)?;
    let mac = MacAddr([header[8], header[9], header[10], header[11], header[12], header[13]]);
    if !mac.is_unicast() {
        return Err(Unreadable::Malformed);
    }
    let long = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let fields = Fields::read(&rest[..fields]).ok_or(Unreadable::Malformed)?;
    Ok(Unverified { message: Message { mac, run: long(14), sequence: long(18), fields }, bytes })
}

/// A message with an unchecked tag.
#[derive(Clone, Copy, Debug)]
pub struct Unverified<'a> {
    message: Message<'a>,
    bytes: &'a [u8],
}

impl<'a> Unverified<'a> {
    /// Address that the message claims.
    pub fn claimed(&self) -> MacAddr {
        self.message.mac
    }

    /// Checks the tag, in constant time.
    ///
    /// # Errors
    /// [`Unreadable::Tag`].
    pub fn verify(self, key: &MeshKey) -> Result<Message<'a>, Unreadable> {
        let (tagged, tag) = self.bytes.split_at(self.bytes.len() - TAG_BYTES);
        if key.key.verifies(tagged, tag) { Ok(self.message) } else { Err(Unreadable::Tag) }
    }
}

/// Reads a message and checks its tag.
///
/// # Errors
/// See [`Unreadable`].
pub fn open<'a>(key: &MeshKey, bytes: &'a [u8]) -> Result<Message<'a>, Unreadable> {
    peek(key, bytes)?.verify(key)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);

    fn key(octet: u8) -> MeshKey {
        MeshKey::new(Key::new([octet; 32]))
    }

    fn draft(fields: &[Field<'_>]) -> Draft {
        let mut draft = Draft::new();
        assert!(fields.iter().all(|f| draft.push(*f)));
        draft
    }

    fn message() -> Vec<u8> {
        let fields = [Field::Role(Role::Gateway), Field::Mechanism("gap"), Field::Body(&[0x53])];
        seal(&key(1), MAC, 5, 6, &draft(&fields))
    }

    /// Replaces the tag, as an owner of the key could.
    fn with_tag(mut bytes: Vec<u8>) -> Vec<u8> {
        let end = bytes.len() - TAG_BYTES;
        let tag = key(1).key.tag(&bytes[..end]);
        bytes[end..].copy_from_slice(&tag[..TAG_BYTES]);
        bytes
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let bytes = message();
        let hex = |b: &[u8]| b.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let mesh = hex(&Key::new([1; 32]).tag(b"fairmesh mesh tag")[..4]);
        let expected = format!("666d0101{mesh}0200000000070000000500000006010101020367617003 0153");
        assert_eq!(hex(&bytes[..bytes.len() - TAG_BYTES]), expected.replace(' ', ""));
        assert_eq!((draft(&[]).size(), MAX_FIELDS_BYTES), (34, 216));
        let all = vec![9; MAX_FIELDS_BYTES - 2];
        assert_eq!(seal(&key(1), MAC, 1, 1, &draft(&[Field::Body(&all)])).len(), MAX_MESSAGE_BYTES);
    }

    #[test]
    fn fields_are_read_as_written_and_unknown_ones_ignored() {
        let bytes = message();
        let read = open(&key(1), &bytes).unwrap();
        assert_eq!((read.mac, read.run, read.sequence), (MAC, 5, 6));
        assert_eq!(read.fields.role(), Role::Gateway);
        assert_eq!(read.fields.bodies("gap", &[MAC]).collect::<Vec<_>>(), [[0x53]]);
        assert_eq!(read.fields.bodies("cna", &[MAC]).count(), 0);
        let mut later = bytes[..bytes.len() - TAG_BYTES].to_vec();
        later.extend_from_slice(&[99, 2, 1, 2, 3, 1, 4]);
        later.extend_from_slice(&[0; TAG_BYTES]);
        let later = with_tag(later);
        let read = open(&key(1), &later).unwrap();
        assert_eq!(read.fields.bodies("gap", &[MAC]).collect::<Vec<_>>(), [[0x53], [4]]);
    }

    #[test]
    fn a_body_for_one_receiver_is_for_no_other() {
        let to = MacAddr([2, 0, 0, 0, 0, 9]);
        let fields = [Field::Mechanism("x"), Field::To(to), Field::Body(&[1]), Field::Body(&[2])];
        let bytes = seal(&key(1), MAC, 1, 1, &draft(&fields));
        let read = open(&key(1), &bytes).unwrap();
        assert_eq!(read.fields.bodies("x", &[to]).collect::<Vec<_>>(), [[1], [2]]);
        assert_eq!(read.fields.bodies("x", &[MAC]).collect::<Vec<_>>(), [[2]]);
    }

    #[test]
    fn another_version_kind_mesh_or_tag_is_named() {
        let with = |at: usize, octet: u8| {
            let mut bytes = message();
            bytes[at] = octet;
            // With the right tag, so that only this octet is wrong.
            open(&key(1), &with_tag(bytes)).unwrap_err()
        };
        assert_eq!(with(0, b'x'), Unreadable::Malformed);
        for version in [0, 2, 255] {
            assert_eq!(with(2, version), Unreadable::Version);
        }
        assert_eq!(with(3, 2), Unreadable::Kind);
        assert_eq!(with(8, 3), Unreadable::Malformed, "a group address");
        assert_eq!(with(24, 3), Unreadable::Malformed, "a role that does not exist");
        assert_eq!(with(23, 200), Unreadable::Malformed, "longer than the message");
        assert_eq!(open(&key(2), &message()), Err(Unreadable::Mesh));
        let mut forged = message();
        forged[15] ^= 1;
        assert_eq!(open(&key(1), &forged), Err(Unreadable::Tag));
    }

    #[test]
    fn fields_that_do_not_fit_are_not_added() {
        let mut full = draft(&[Field::Body(&[0; MAX_FIELDS_BYTES - 5])]);
        let before = full.clone();
        assert!(!full.push(Field::Body(&[1, 2])));
        assert!(!full.push(Field::Mechanism("")) && !full.push(Field::Mechanism("né")));
        assert_eq!(full, before);
        assert!(full.push(Field::Role(Role::Router)));
        assert_eq!(full.size(), MAX_MESSAGE_BYTES);
    }

    fn body() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..180)
    }

    proptest! {
        #[test]
        fn every_message_is_read_as_written(body in body(), run: u32, sequence: u32, mac: [u8; 6]) {
            let mac = MacAddr([mac[0] & 0xfe, mac[1], mac[2], mac[3], mac[4], mac[5]]);
            let bytes = seal(&key(1), mac, run, sequence, &draft(&[Field::Mechanism("x"), Field::Body(&body)]));
            prop_assert!(bytes.len() <= MAX_MESSAGE_BYTES);
            let read = open(&key(1), &bytes).unwrap();
            prop_assert_eq!((read.mac, read.run, read.sequence), (mac, run, sequence));
            prop_assert_eq!(read.fields.bodies("x", &[MAC]).collect::<Vec<_>>(), [&body[..]]);
        }

        #[test]
        fn a_changed_octet_is_refused(body in body(), at: usize, by in 1u8..) {
            let mut bytes = seal(&key(1), MAC, 1, 1, &draft(&[Field::Body(&body)]));
            let at = at % bytes.len();
            bytes[at] ^= by;
            prop_assert!(open(&key(1), &bytes).is_err());
        }

        #[test]
        fn a_shorter_or_longer_message_is_refused(body in body(), cut: usize, more in prop::collection::vec(any::<u8>(), 1..300)) {
            let bytes = seal(&key(1), MAC, 1, 1, &draft(&[Field::Body(&body)]));
            prop_assert!(open(&key(1), &bytes[..cut % bytes.len()]).is_err());
            prop_assert!(open(&key(1), &[&bytes[..], &more].concat()).is_err());
        }

        #[test]
        fn another_key_is_refused(body in body(), mesh: bool) {
            let mut bytes = seal(&key(2), MAC, 1, 1, &draft(&[Field::Body(&body)]));
            if mesh {
                // The attacker has seen the tag of the mesh.
                bytes[4..8].copy_from_slice(&key(1).mesh);
            }
            prop_assert!(open(&key(1), &bytes).is_err());
        }

        /// With a right tag, so that the reader of fields sees every text.
        #[test]
        fn nothing_makes_the_reader_fail(bytes in prop::collection::vec(any::<u8>(), 0..260), head: bool) {
            let mut bytes = bytes;
            if head && bytes.len() >= HEADER_BYTES + TAG_BYTES {
                bytes[..4].copy_from_slice(b"fm\x01\x01");
                bytes[4..8].copy_from_slice(&key(1).mesh);
                bytes = with_tag(bytes);
            }
            if let Ok(read) = open(&key(1), &bytes) {
                let size: usize = read.fields.bodies("gap", &[MAC]).map(<[u8]>::len).sum();
                prop_assert!(size <= MAX_FIELDS_BYTES);
            }
        }
    }
}
