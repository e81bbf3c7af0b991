//! Parser of a captured, untrusted packet: a TCP header, or the used part of a datagram.

use std::net::IpAddr;

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, LinkSlice, TcpSlice, TransportSlice};

use super::FirstHeader;
use super::filter::{PPP_IPV4, PPP_IPV6, PPPOE_SESSION, QUIC};
use crate::mac::MacAddr;
use crate::shaper::Direction;

/// TCP flags that mark the start and the end of a connection, and a valid `ack`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[allow(clippy::struct_excessive_bools)] // they are what RFC 9293 §3.1 has
pub struct Flags {
    /// The connection begins.
    pub syn: bool,
    /// The sender has no more data to send.
    pub fin: bool,
    /// The connection is reset.
    pub rst: bool,
    /// The `ack` field is valid.
    pub ack: bool,
}

/// Fields read from a TCP segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Direction: down if the packet left by the interface, up if it arrived there.
    ///
    /// The near end is the receiver of the former and the sender of the latter.
    pub direction: Direction,
    /// Address and port of the end behind the interface.
    pub near: (IpAddr, u16),
    /// Address and port of the other end.
    pub far: (IpAddr, u16),
    /// Ethernet address of the near end, or of its router.
    pub mac: Option<MacAddr>,
    /// Sequence number of the first byte.
    pub seq: u32,
    /// Sequence number of the byte that is expected next.
    pub ack: u32,
    /// Payload, in bytes.
    pub len: u32,
    /// TCP flags.
    pub flags: Flags,
    /// TSval and TSecr of the timestamp option (RFC 7323 §3.2).
    pub stamps: Option<[u32; 2]>,
    /// Highest sequence number that a selective acknowledgement covers, exclusive (RFC 2018 §3).
    pub selective: Option<u32>,
    /// Length of the IP packet, in bytes.
    pub bytes: u32,
}

/// Fields read from a UDP datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Direction, as in [`Header`].
    pub direction: Direction,
    /// Address and port of the end behind the interface.
    pub near: (IpAddr, u16),
    /// Address and port of the other end.
    pub far: (IpAddr, u16),
    /// Ethernet address of the near end, or of its router.
    pub mac: Option<MacAddr>,
    /// Spin bit of a QUIC packet with a short header (RFC 9000 §17.3.1); `None` for others.
    pub spin: Option<bool>,
}

/// A packet with a supported transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packet {
    /// A TCP segment.
    Tcp(Header),
    /// A datagram.
    Udp(Datagram),
}

impl Header {
    /// Reads the first bytes of a packet with `length` bytes on the interface.
    ///
    /// Returns `None` without a complete TCP header.
    pub fn read(
        packet: &[u8],
        begins: FirstHeader,
        direction: Direction,
        length: u32,
    ) -> Option<Header> {
        match Packet::read(packet, begins, direction, length)? {
            Packet::Tcp(header) => Some(header),
            Packet::Udp(_) => None,
        }
    }
}

impl Packet {
    /// Reads the first bytes of a packet with `length` bytes on the interface.
    ///
    /// Returns `None` if it is neither TCP nor UDP, or if the header is incomplete.
    pub fn read(
        packet: &[u8],
        begins: FirstHeader,
        direction: Direction,
        length: u32,
    ) -> Option<Packet> {
        let mut sliced = match begins {
            FirstHeader::Ethernet => LaxSlicedPacket::from_ethernet(packet).ok()?,
            FirstHeader::Ip => LaxSlicedPacket::from_ip(packet).ok()?,
        };
        let mac = match (&sliced.link, direction) {
            (Some(LinkSlice::Ethernet2(e)), Direction::Down) => Some(MacAddr(e.destination())),
            (Some(LinkSlice::Ethernet2(e)), Direction::Up) => Some(MacAddr(e.source())),
            _ => None,
        };
        if sliced.net.is_none()
            && let Some(inner) =
                sliced.ether_payload().and_then(|p| session(p.ether_type.0, p.payload))
        {
            sliced = LaxSlicedPacket::from_ip(inner).ok()?;
        }
        // The parser uses the version in the packet, the kernel and its filter the type of the frame.
        let mismatch = |kind: EtherType| match sliced.net {
            Some(LaxNetSlice::Ipv4(_)) => kind != EtherType::IPV4,
            Some(LaxNetSlice::Ipv6(_)) => kind != EtherType::IPV6,
            _ => false,
        };
        if sliced.ether_payload().is_some_and(|p| mismatch(p.ether_type)) {
            return None;
        }
        // Offset in the packet of a part of it.
        let place = |part: &[u8]| part.as_ptr() as usize - packet.as_ptr() as usize;
        let (from, to, starts, total) = match sliced.net.as_ref()? {
            LaxNetSlice::Ipv4(ip) => {
                let h = ip.header();
                let (from, to) = (h.source_addr().into(), h.destination_addr().into());
                (from, to, place(h.slice()), u32::from(h.total_len()))
            }
            LaxNetSlice::Ipv6(ip) => {
                let h = ip.header();
                let total = match h.payload_length() {
                    0 => 0,
                    payload => 40 + u32::from(payload),
                };
                (h.source_addr().into(), h.destination_addr().into(), place(h.slice()), total)
            }
            LaxNetSlice::Arp(_) => return None,
        };
        let ends = |source, destination| match direction {
            Direction::Down => ((to, destination), (from, source)),
            Direction::Up => ((from, source), (to, destination)),
        };
        let tcp = match &sliced.transport {
            Some(TransportSlice::Tcp(tcp)) => tcp,
            Some(TransportSlice::Udp(udp)) => {
                let (near, far) = ends(udp.source_port(), udp.destination_port());
                let quic = near.1 == QUIC || far.1 == QUIC;
                let spin = udp.payload().first().filter(|_| quic).and_then(|b| spin(*b));
                return Some(Packet::Udp(Datagram { direction, near, far, mac, spin }));
            }
            _ => return None,
        };
        let data = place(tcp.slice()) + tcp.header_slice().len();
        let there = length.saturating_sub(starts as u32);
        // Padding may follow a short packet. The length field is 0 in a packet of 64 KB and more that is still to be
        // segmented.
        let bytes = if total == 0 { there } else { total.min(there) };
        let len = bytes.saturating_sub((data - starts) as u32);
        let (near, far) = ends(tcp.source_port(), tcp.destination_port());
        let (seq, ack) = (tcp.sequence_number(), tcp.acknowledgment_number());
        let Options { stamps, selective } = Options::read(tcp.options(), ack);
        let flags = flags(tcp);
        let header =
            Header { direction, near, far, mac, seq, ack, len, flags, stamps, selective, bytes };
        Some(Packet::Tcp(header))
    }
}

/// TCP options with transmission times and received ranges.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Options {
    stamps: Option<[u32; 2]>,
    selective: Option<u32>,
}

impl Options {
    /// Reads the options and skips unknown ones (RFC 9293 §3.1: kind, length, data).
    ///
    /// `etherparse` stops at the first kind that it does not know, such as MPTCP's.
    fn read(mut rest: &[u8], ack: u32) -> Options {
        let mut found = Options::default();
        while let Some((&kind, after)) = rest.split_first() {
            match kind {
                0 => break,
                1 => rest = after,
                _ => {
                    let Some(&length) = after.first() else { break };
                    let Some((option, next)) = rest.split_at_checked(length.into()) else { break };
                    let Some(data) = option.get(2..) else { break };
                    found.take(kind, data, ack);
                    rest = next;
                }
            }
        }
        found
    }

    fn take(&mut self, kind: u8, data: &[u8], ack: u32) {
        let words = || data.as_chunks::<4>().0.iter().map(|w| u32::from_be_bytes(*w));
        match (kind, data.len()) {
            (8, 8) => {
                let mut words = words();
                self.stamps = words.next().zip(words.next()).map(|(value, echo)| [value, echo]);
            }
            (5, 8 | 16 | 24 | 32) => {
                // Sequence numbers wrap: takes the one farthest beyond the acknowledged byte.
                self.selective = words().skip(1).step_by(2).max_by_key(|end| end.wrapping_sub(ack));
            }
            _ => {}
        }
    }
}

/// Returns the spin bit of a QUIC packet's first byte, if its header is short.
///
/// A short header has header form 0 and fixed bit 1.
fn spin(first: u8) -> Option<bool> {
    (first & 0xc0 == 0x40).then_some(first & 0x20 != 0)
}

fn flags(tcp: &TcpSlice<'_>) -> Flags {
    Flags { syn: tcp.syn(), fin: tcp.fin(), rst: tcp.rst(), ack: tcp.ack() }
}

/// Returns the IP packet in the frame of a PPPoE session.
///
/// RFC 2516 §4: version and type 1, code 0.
fn session(kind: u16, payload: &[u8]) -> Option<&[u8]> {
    let (&[version, code, _, _, _, _, a, b], inner) = payload.split_first_chunk()?;
    let protocol = u16::from_be_bytes([a, b]);
    let begins = match protocol {
        PPP_IPV4 => 4,
        PPP_IPV6 => 6,
        _ => return None,
    };
    let fits = kind == PPPOE_SESSION && version == 0x11 && code == 0;
    (fits && inner.first().is_some_and(|b| b >> 4 == begins)).then_some(inner)
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;
    use proptest::prelude::*;

    use super::super::filter::{program, run};
    use super::*;

    const HOME: [u8; 4] = [10, 0, 0, 7];
    const SERVER: [u8; 4] = [192, 0, 2, 1];

    fn built(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    /// Returns an upload's segment with `payload` bytes of data.
    fn ethernet(payload: usize) -> Vec<u8> {
        built(|out| {
            let tcp = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 7], [2, 0, 0, 0, 0, 1])
                .ipv4(HOME, SERVER, 64)
                .tcp(40000, 443, 1000, 65535)
                .ack(77);
            tcp.write(out, &vec![9; payload]).unwrap();
        })
    }

    fn v6() -> Vec<u8> {
        let (from, to) = ([0xfd; 16], [0x20; 16]);
        built(|out| {
            let tcp = PacketBuilder::ipv6(from, to, 64).tcp(40000, 443, 1000, 65535).syn();
            tcp.write(out, &[]).unwrap();
        })
    }

    /// Returns the frame with `kind` between the addresses and IP, in place of IP's type.
    fn behind(kind: &[u8], ip: &[u8]) -> Vec<u8> {
        [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 7][..], kind, ip].concat()
    }

    fn read(packet: &[u8]) -> Option<Header> {
        let read = Header::read(packet, FirstHeader::Ethernet, Direction::Up, packet.len() as u32);
        if read.is_some() {
            assert!(
                run(&program(FirstHeader::Ethernet, false), packet) > 0,
                "the filter keeps it away"
            );
        }
        read
    }

    #[test]
    fn a_segment_is_read_both_ways() {
        let packet = ethernet(500);
        let up = read(&packet).unwrap();
        assert_eq!((up.near, up.far), ((HOME.into(), 40000), (SERVER.into(), 443)));
        assert_eq!((up.seq, up.ack, up.len, up.bytes), (1000, 77, 500, 540));
        assert_eq!(up.mac, Some(MacAddr([2, 0, 0, 0, 0, 7])));
        assert!(up.flags.ack && !up.flags.syn && !up.flags.fin && !up.flags.rst);
        let down = Header::read(&packet, FirstHeader::Ethernet, Direction::Down, 554).unwrap();
        assert_eq!(
            (down.near, down.mac),
            ((SERVER.into(), 443), Some(MacAddr([2, 0, 0, 0, 0, 1])))
        );
        // Of the bytes that the kernel cut off only the length is known.
        let cut = Header::read(&packet[..54], FirstHeader::Ethernet, Direction::Up, 554).unwrap();
        assert_eq!(cut, up);
        // Padding does not count, and a packet without an Ethernet header gives the same result.
        let filled = [&ethernet(0)[..], &[0; 6]].concat();
        assert_eq!(read(&filled).unwrap().len, 0);
        let bare = Header::read(&packet[14..], FirstHeader::Ip, Direction::Up, 540).unwrap();
        assert_eq!(bare, Header { mac: None, ..up });
        assert!(run(&program(FirstHeader::Ip, false), &packet[14..]) > 0);
    }

    #[test]
    fn tags_sessions_and_extension_headers_are_passed_over() {
        let (ip4, ip6) = (&ethernet(100)[14..], v6());
        let plain = read(&behind(&[0x08, 0], ip4)).unwrap();
        let tag = [0x81, 0, 0, 5, 0x08, 0];
        let tags = [0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x08, 0];
        let session = [0x88, 0x64, 0x11, 0, 0, 1, 0, 142, 0, 0x21];
        for kind in [&tag[..], &tags, &session] {
            assert_eq!(read(&behind(kind, ip4)), Some(plain), "{kind:x?}");
        }
        let six = read(&behind(&[0x86, 0xdd], &ip6)).unwrap();
        assert_eq!((six.len, six.bytes, six.flags.syn), (0, 60, true));
        assert_eq!(read(&behind(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 62, 0, 0x57], &ip6)), Some(six));
        // Hop-by-hop options, then destination options, of eight bytes each.
        let mut more = ip6.clone();
        more[6] = 0;
        more[4..6].copy_from_slice(&36u16.to_be_bytes());
        more.splice(40..40, [60, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0]);
        assert_eq!(read(&behind(&[0x86, 0xdd], &more)), Some(Header { bytes: 76, ..six }));
        assert!(Header::read(&more, FirstHeader::Ip, Direction::Up, 76).is_some());
    }

    #[test]
    fn timestamps_and_selective_acknowledgements_are_read_among_other_options() {
        use etherparse::TcpOptionElement::{Noop, SelectiveAcknowledgement, Timestamp};
        let packet = built(|out| {
            let tcp = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 7], [2, 0, 0, 0, 0, 1])
                .ipv4(HOME, SERVER, 64)
                .tcp(40000, 443, 1000, 65535)
                .ack(u32::MAX - 10)
                .options(&[
                    Noop,
                    Noop,
                    Timestamp(0x0102_0304, 77),
                    SelectiveAcknowledgement((u32::MAX, 500), [Some((900, 1900)), None, None]),
                ]);
            tcp.unwrap().write(out, &[]).unwrap();
        });
        let found = read(&packet).unwrap();
        assert_eq!((found.stamps, found.selective), (Some([0x0102_0304, 77]), Some(1900)));
        assert_eq!(read(&ethernet(0)).map(|h| (h.stamps, h.selective)), Some((None, None)));
        // An unknown kind is skipped; a length of 0, 1 or beyond the end ends the list.
        let stamps = [8, 10, 0, 0, 0, 5, 0, 0, 0, 6];
        let with = |before: &[u8]| Options::read(&[before, &stamps].concat(), 0).stamps;
        assert_eq!(with(&[30, 4, 1, 2]), Some([5, 6]));
        assert_eq!(with(&[1, 1]), Some([5, 6]));
        for bad in [&[30, 0][..], &[30, 1], &[30, 99], &[0]] {
            assert_eq!(with(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_truncated_header_is_not_read() {
        let packet = ethernet(100);
        assert!((0..54).all(|n| read(&packet[..n]).is_none()));
        let udp = built(|out| {
            let udp = PacketBuilder::ethernet2([2; 6], [2; 6]).ipv4(HOME, SERVER, 64).udp(53, 53);
            udp.write(out, &[0; 40]).unwrap();
        });
        assert!(read(&udp).is_none() && run(&program(FirstHeader::Ethernet, false), &udp) == 0);
        // A later fragment has no header, whatever its first bytes are.
        let mut fragment = packet;
        fragment[20..22].copy_from_slice(&100u16.to_be_bytes());
        assert!(
            read(&fragment).is_none()
                && run(&program(FirstHeader::Ethernet, false), &fragment) == 0
        );
    }

    #[test]
    fn of_datagrams_quics_spin_bit_is_read() {
        let udp = |ports: (u16, u16), payload: &[u8], v6: bool| {
            built(|out| {
                let ip = PacketBuilder::ethernet2([2; 6], [2; 6]);
                let ip = if v6 { ip.ipv6([1; 16], [2; 16], 9) } else { ip.ipv4(HOME, SERVER, 64) };
                ip.udp(ports.0, ports.1).write(out, payload).unwrap();
            })
        };
        for v6 in [false, true] {
            for (ports, first, spin) in [
                ((40_000, 443), 0x40, Some(false)),
                ((40_000, 443), 0x60, Some(true)),
                ((443, 40_000), 0x7f, Some(true)),
                // A long header, no QUIC at all, another port.
                ((40_000, 443), 0xc0, None),
                ((40_000, 443), 0x20, None),
                ((40_000, 5000), 0x60, None),
            ] {
                let packet = udp(ports, &[first, 1, 2, 3], v6);
                let read = Packet::read(&packet, FirstHeader::Ethernet, Direction::Up, 60);
                let Some(Packet::Udp(read)) = read else { panic!("{read:?}") };
                assert_eq!((read.spin, read.near.1, read.far.1), (spin, ports.0, ports.1));
                assert!(run(&program(FirstHeader::Ethernet, true), &packet) > 0, "sampled or QUIC");
                assert_eq!(
                    run(&program(FirstHeader::Ethernet, false), &packet),
                    0,
                    "not asked for"
                );
            }
            let empty = udp((40_000, 443), &[], v6);
            let read = Packet::read(&empty, FirstHeader::Ethernet, Direction::Up, 60);
            assert!(matches!(read, Some(Packet::Udp(Datagram { spin: None, .. }))), "{read:?}");
        }
        let mut fragment = udp((40_000, 443), &[0x40; 50], false);
        fragment[20..22].copy_from_slice(&100u16.to_be_bytes());
        assert_eq!(run(&program(FirstHeader::Ethernet, true), &fragment), 0);
    }

    /// A frame with the type of the other IP version is rejected: to the kernel it is damaged.
    #[test]
    fn a_frame_with_a_wrong_type_is_rejected() {
        let (v4, v6) = (&ethernet(60)[14..], &v6()[..]);
        let pppoe = |protocol| [0x88, 0x64, 0x11, 0, 0, 1, 0, 142, 0, protocol];
        for (kind, packet, right) in [
            (&[0x08, 0][..], v4, true),
            (&[0x08, 0], v6, false),
            (&[0x86, 0xdd], v6, true),
            (&[0x86, 0xdd], v4, false),
            (&[0x81, 0, 0, 5, 0x08, 0], v6, false),
            (&pppoe(0x21), v4, true),
            (&pppoe(0x21), v6, false),
            (&pppoe(0x57), v6, true),
            (&pppoe(0x57), v4, false),
        ] {
            let frame = behind(kind, packet);
            let read =
                Header::read(&frame, FirstHeader::Ethernet, Direction::Up, frame.len() as u32);
            assert_eq!(read.is_some(), right, "{kind:x?}");
            assert_eq!(run(&program(FirstHeader::Ethernet, false), &frame) > 0, right, "{kind:x?}");
        }
    }

    /// A packet of 64 KB and more that is still to be segmented has length 0 in its header.
    #[test]
    fn a_packet_above_64_kb_has_the_length_of_the_interface() {
        let mut packet = v6();
        packet[4..6].copy_from_slice(&[0, 0]);
        let read = Header::read(&packet, FirstHeader::Ip, Direction::Down, 100_060).unwrap();
        assert_eq!((read.len, read.bytes), (100_000, 100_060));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        /// Any bytes are safe: no panic, and no data beyond the packet.
        ///
        /// There is no packet that the filter rejects, and the program never runs off its end.
        #[test]
        fn any_bytes_are_a_header_or_nothing(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            kind in 0usize..10,
            at in 0usize..80,
            length: u32,
        ) {
            let kinds: [&[u8]; 6] = [
                &[0x08, 0],
                &[0x86, 0xdd],
                &[0x81, 0, 0, 5, 0x08, 0],
                &[0x88, 0x64, 0x11, 0, 0, 1, 0, 142, 0, 0x21],
                &[0x81, 0, 0, 5, 0x88, 0xa8, 0, 6, 0x86, 0xdd],
                &[],
            ];
            let mut packet = match kind {
                6 => ethernet(60),
                7 => behind(&[0x86, 0xdd], &v6()),
                8 => behind(kinds[at % 6], &v6()),
                9 => behind(kinds[at % 6], &ethernet(60)[14..]),
                _ => behind(kinds[kind], &bytes),
            };
            if kind >= 6 && let Some(&b) = bytes.first() {
                let at = at % packet.len();
                packet[at] = b;
            }
            for begins in [FirstHeader::Ethernet, FirstHeader::Ip] {
                for packet in [&packet[..], packet.get(14..).unwrap_or(&[])] {
                    let through = run(&program(begins, false), packet);
                    let read = Header::read(packet, begins, Direction::Up, length);
                    prop_assert!(read.is_none() || through > 0, "{packet:x?}");
                    let with_udp = run(&program(begins, true), packet);
                    let any = Packet::read(packet, begins, Direction::Up, length);
                    prop_assert!(any.is_none() || with_udp > 0, "{packet:x?}");
                    prop_assert!(read.is_none_or(|h| h.len <= h.bytes && h.bytes <= length));
                }
            }
        }
    }
}
