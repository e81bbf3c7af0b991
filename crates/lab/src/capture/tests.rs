use fairmesh_engine::observe::{
    AirAggregate, AirPacket, AirPayload, BlockAck, FrameKind, Subframe,
};
use fairmesh_transport::quic::Kind;
use fairmesh_transport::{Flags, Segment};
use fairmesh_units::{BitRate, FlowId, Span, Time};
use pcap_file::pcap::PcapReader;

use super::*;

fn packet(ip_bytes: u32, payload: AirPayload) -> AirPacket {
    AirPacket {
        flow: FlowId(0),
        source: NodeId(0),
        destination: NodeId(2),
        ip_bytes,
        ce: false,
        ect: true,
        ect1: false,
        payload,
    }
}

fn frame(kind: FrameKind, packet: Option<AirPacket>) -> AirFrame {
    let mpdu_bytes = match kind {
        FrameKind::Rts => 20,
        _ => packet.map_or(14, |p| p.ip_bytes + 36),
    };
    let (start, rate) = (Time::from_nanos(1_234_567_890), BitRate(11_000_000));
    let preamble = Span::from_micros(192);
    AirFrame {
        start,
        end: start + preamble + rate.time_for(mpdu_bytes.into()),
        kind,
        from: NodeId(0),
        to: Some(NodeId(1)),
        rate,
        channel_mhz: None,
        mpdu_bytes,
        duration_us: 258,
        retry: kind == FrameKind::Data,
        sequence: 7,
        aggregate: None,
        subframe: None,
        block_ack: None,
        qos: false,
        priority: 0,
        packet,
    }
}

fn ports() -> Vec<Ports> {
    vec![Ports { client: NodeId(0), client_port: 49_152, server_port: 5001 }]
}

fn captured(frames: &[AirFrame], only: Option<NodeId>) -> Vec<PcapPacket<'static>> {
    let mut c = Capture::new(Vec::new(), ports(), only).unwrap();
    frames.iter().for_each(|f| c.frame(f));
    let bytes = c.finish().unwrap();
    let mut reader = PcapReader::new(&bytes[..]).unwrap();
    assert_eq!(reader.header().datalink, DataLink::IEEE802_11_RADIOTAP);
    let mut out = vec![];
    while let Some(p) = reader.next_packet() {
        out.push(p.unwrap().into_owned());
    }
    out
}

fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let s: u64 = bytes
        .chunks(2)
        .map(|c| u64::from(c[0]) * 256 + c.get(1).map_or(0, |b| u64::from(*b)))
        .sum();
    (s % 0xffff) as u16
}

#[test]
fn control_frames_byte_for_byte() {
    let p = captured(&[frame(FrameKind::Ack, None), frame(FrameKind::Rts, None)], None);
    assert_eq!(p[0].timestamp, Duration::from_nanos(1_234_567_890));
    // Radiotap: version, length, present, TSFT 1234759 µs (behind 192 µs of preamble), flags, 11 Mbit/s, 2412 MHz, 2 GHz CCK.
    let radiotap = [
        0, 0, 24, 0, 15, 0, 0, 0, 0x47, 0xd7, 0x12, 0, 0, 0, 0, 0, 0x10, 22, 0x6c, 0x09, 0xa0, 0,
        0, 0,
    ];
    assert_eq!(p[0].data[..24], radiotap);
    assert_eq!(p[0].data[24..34], [0xd4, 0, 2, 1, 2, 0, 0, 0, 0, 2]);
    assert_eq!((p[0].data.len(), p[0].orig_len), (24 + 14, 24 + 14));
    assert_eq!(
        p[1].data[24..44],
        [0xb4, 0, 2, 1, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..]
            .iter()
            .copied()
            .chain(p[1].data[40..44].iter().copied())
            .collect::<Vec<_>>()[..]
    );
    // The CRC of a message followed by its own CRC is a constant.
    assert_eq!(crc32fast::hash(&p[1].data[24..]), 0x2144_df1c);
}

#[test]
fn tcp_headers_and_checksums() {
    let mut segment = Segment {
        seq: 1 << 33,
        ack: 77,
        len: 0,
        flags: Flags::ACK | Flags::ECE,
        ..Segment::default()
    };
    segment.sack.push(1460, 2920);
    let p = captured(&[frame(FrameKind::Data, Some(packet(52, AirPayload::Tcp(segment))))], None);
    let d = &p[0].data;
    assert_eq!(d.len(), 24 + 52 + 36, "short frames are whole");
    let mac = &d[24..];
    assert_eq!(mac[..2], [0x08, 0x08], "data, retry");
    assert_eq!(u16::from_le_bytes([mac[22], mac[23]]), 7 << 4);
    let ip = &mac[32..84];
    assert_eq!(ip[..4], [0x45, 0b10, 0, 52]);
    assert_eq!(ip[12..20], [10, 0, 0, 1, 10, 0, 0, 3]);
    assert_eq!(ones_complement_sum(&ip[..20]), 0, "IPv4 checksum");
    let tcp = &ip[20..];
    let pseudo = [&ip[12..20], &[0, 6, 0, 32]].concat();
    assert_eq!(ones_complement_sum(&[&pseudo[..], tcp].concat()), 0, "TCP checksum");
    assert_eq!(tcp[12] >> 4, 8);
    assert_eq!(tcp[13], 0x50, "ACK, ECE");
    assert_eq!(tcp[4..8], [0, 0, 0, 0], "sequence numbers wrap at 2^32");
    assert_eq!(tcp[20..32], [1, 1, 5, 10, 0, 0, 6, 1, 0, 0, 11, 181]);
    assert_eq!(crc32fast::hash(mac), 0x2144_df1c);
}

#[test]
fn long_frames_are_cut_and_marked_as_cut() {
    let p = captured(
        &[frame(FrameKind::Data, Some(packet(1528, AirPayload::Udp { sequence: 9 })))],
        None,
    );
    assert_eq!(p[0].data.len(), SNAPLEN as usize);
    assert_eq!(p[0].orig_len, 24 + 1528 + 36);
    let ip = &p[0].data[24 + 32..];
    let udp = [&ip[20..36], &[0; 1492][..]].concat();
    let pseudo = [&ip[12..20], &[0, 17], &1508u16.to_be_bytes()].concat();
    assert_eq!(ones_complement_sum(&[&pseudo[..], &udp].concat()), 0, "UDP checksum");
    assert_eq!(udp[15], 9);
}

#[test]
fn quic_is_udp_with_a_recognised_header() {
    let quic = |ip_bytes, kind| {
        let p = captured(
            &[frame(FrameKind::Data, Some(packet(ip_bytes, AirPayload::Quic { kind })))],
            None,
        );
        // Without the FCS; long frames are cut.
        p[0].data[24 + 32..].iter().copied().take(ip_bytes as usize).collect::<Vec<u8>>()
    };
    let short = quic(66, Kind::OneRtt { number: 0x1_0203 });
    assert_eq!((short[9], &short[24..26]), (17, &[0, 46][..]), "UDP, and its length");
    let pseudo = [&short[12..20], &[0, 17, 0, 46]].concat();
    assert_eq!(ones_complement_sum(&[&pseudo[..], &short[20..]].concat()), 0, "UDP checksum");
    // RFC 9000 §17.3: the fixed bit and a number of two bytes.
    assert_eq!((short[28], &short[37..39]), (0x41, &[2, 3][..]));
    let initial = quic(1228, Kind::Initial { attempt: 0 });
    // RFC 9000 §17.2: a long header of version 1.
    assert_eq!(initial[28..34], [0xc1, 0, 0, 0, 1, 8]);
}

#[test]
fn answers_come_from_the_server_port() {
    let mut answer = packet(40, AirPayload::Tcp(Segment::default()));
    (answer.source, answer.destination) = (NodeId(2), NodeId(0));
    let p = captured(&[frame(FrameKind::Data, Some(answer))], None);
    assert_eq!(p[0].data[24 + 32 + 20..][..4], [0x13, 0x89, 0xc0, 0x00]);
}

#[test]
fn a_capture_of_one_node_has_its_frames() {
    let mut broadcast = frame(FrameKind::Data, None);
    broadcast.to = None;
    broadcast.mpdu_bytes = 60;
    let frames = [frame(FrameKind::Ack, None), broadcast];
    let seen = |n| captured(&frames, Some(NodeId(n))).len();
    assert_eq!((seen(0), seen(1), seen(5)), (2, 2, 1));
}

#[test]
fn a_relay_has_each_packet_once() {
    // 0 → 1 → 2, seen at 1: received, received again, passed on.
    let data = |from: u32, to: u32, sequence: u16| {
        let mut f = frame(FrameKind::Data, Some(packet(52, AirPayload::Udp { sequence: 9 })));
        (f.from, f.to, f.sequence) = (NodeId(from), Some(NodeId(to)), sequence);
        f
    };
    let frames = [data(0, 1, 7), data(0, 1, 7), data(1, 2, 3), data(0, 1, 8)];
    let kept = |node| -> Vec<usize> {
        let packets = captured(&frames, node);
        assert!(packets.iter().all(|p| p.orig_len == 24 + 52 + 36), "all have their length");
        packets.iter().map(|p| p.data.len() - 24).collect()
    };
    assert_eq!(kept(Some(NodeId(1))), [88, 24, 24, 88]);
    assert_eq!(kept(Some(NodeId(0))), [88, 24, 88]);
    assert_eq!(kept(Some(NodeId(2))), [88]);
    assert_eq!(kept(None), [88; 4]);
}

#[test]
fn a_full_disk_is_reported_at_the_end() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, b: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(b.len()).ok_or_else(|| io::Error::other("disk full"))?;
            Ok(b.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut c = Capture::new(Full(60), ports(), None).unwrap();
    (0..3).for_each(|_| c.frame(&frame(FrameKind::Ack, None)));
    assert!(c.finish().err().unwrap().to_string().contains("disk full"));
}

#[test]
fn an_mpdu_names_its_aggregate_and_a_block_ack_has_its_bitmap() {
    let datagram = packet(1498, AirPayload::Udp { sequence: 9 });
    let mut mpdu = frame(FrameKind::Data, Some(datagram));
    mpdu.qos = true;
    mpdu.mpdu_bytes = 1536;
    mpdu.aggregate = Some(AirAggregate { reference: 0x0102_0304, index: 1, count: 2 });
    let mut answer = frame(FrameKind::BlockAck, None);
    (answer.mpdu_bytes, answer.retry) = (32, false);
    answer.block_ack = Some(BlockAck { first: 7, bitmap: [0b101, 0, 0, 0] });
    let mut long = answer;
    long.mpdu_bytes = 56;
    let p = captured(&[mpdu, answer, long], None);
    // Radiotap: 32 bytes, A-MPDU status present; the last of its A-MPDU.
    let d = &p[0].data;
    assert_eq!(d[..8], [0, 0, 32, 0, 15, 0, 0x10, 0]);
    assert_eq!(d[24..32], [4, 3, 2, 1, 0x0c, 0, 0, 0]);
    // TSFT is the start of the frame.
    assert_eq!(d[8..12], 1_234_567_u32.to_le_bytes());
    assert_eq!(d[32..34], [0x88, 0x08], "QoS data, retry");
    // QoS Control, then LLC.
    assert_eq!(d[56..60], [0, 0, 0xaa, 0xaa]);
    assert_eq!(p[0].orig_len, 32 + 1536);
    let body = &p[1].data[24..];
    assert_eq!((body.len(), body[0]), (32, 0x94));
    assert_eq!(body[16..28], [4, 0, 7 << 4, 0, 0b101, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(crc32fast::hash(body), 0x2144_df1c);
    let body = &p[2].data[24..];
    assert_eq!((body.len(), body[18]), (56, 7 << 4 | 4));
}

#[test]
fn an_amsdu_is_one_frame_with_a_subframe_for_each_packet() {
    let of = |index: u16, bytes: u32| {
        let mut f = frame(FrameKind::Data, Some(packet(bytes, AirPayload::Udp { sequence: 9 })));
        f.subframe = Some(Subframe { index, count: 3 });
        // 14 + 8 + 41 is padded by one byte, 14 + 8 + 1000 by two.
        (f.qos, f.retry, f.mpdu_bytes) = (true, false, 26 + 64 + 1024 + 14 + 8 + 60 + 4);
        f
    };
    let p = captured(&[of(0, 41), of(1, 1000), of(2, 60)], None);
    let [p] = &p[..] else { panic!("one frame") };
    assert_eq!(p.data.len(), p.orig_len as usize, "whole, however long");
    let mac = &p.data[24..];
    assert_eq!(mac.len(), 26 + 64 + 1024 + 14 + 8 + 60 + 4);
    assert_eq!(mac[24..26], [0x80, 0], "QoS Control: A-MSDU present");
    let mut at = 26;
    for bytes in [41, 1000, 60_usize] {
        // Destination, source, length, LLC.
        assert_eq!(mac[at..at + 6], frame::address(NodeId(1)));
        assert_eq!(mac[at + 6..at + 12], frame::address(NodeId(0)));
        assert_eq!(mac[at + 12..at + 14], (bytes as u16 + 8).to_be_bytes());
        assert_eq!(mac[at + 14..at + 17], [0xaa, 0xaa, 3]);
        assert_eq!(mac[at + 22..at + 26], [&[0x45, 2][..], &(bytes as u16).to_be_bytes()].concat());
        at = 26 + (at - 26 + 14 + 8 + bytes).next_multiple_of(4);
    }
    assert_eq!(crc32fast::hash(mac), 0x2144_df1c);
    // Of a packet not stored whole, as forwarded or retransmitted, the header.
    let mut again = [of(0, 41), of(1, 1000), of(2, 60)];
    again.iter_mut().for_each(|f| f.retry = true);
    let both = [[of(0, 41), of(1, 1000), of(2, 60)], again].concat();
    let p = captured(&both, Some(NodeId(1)));
    assert_eq!((p.len(), p[1].data.len()), (2, 24 + 26));
}
