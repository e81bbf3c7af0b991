//! Counters and classes of homes' packets, by a program in both directions of an interface.
//!
//! A flow is all traffic of one address of a home in one direction. A router that forwards it and one that sends it
//! derive the same identity from the packet, so that mechanisms can speak of it. Where a flow enters the mesh, its data
//! can have a class of the queueing discipline, and marks.

use std::io;

use fairmesh_units::{Probability, Span};
use ipnet::IpNet;

use super::asm::{AsmError, Assembler, Helper, If, Instruction, Label, Op};
use super::asm::{Reg::*, Width::*};
use super::headers::{
    self, ETH_P_IP, ETH_P_IPV6, FRAME_OFFSET, IPV4_BYTES, IPV6_BYTES, read, wire,
};
use super::hook::{self, Attached, FilterName, HookDirection};
use super::marker::{scaled, until};
use super::program::{Map, Program, TestRun};
use super::rule::{self, CONTINUE, IP_OFFSET};
use crate::error::Error;
use crate::link;
use crate::mac::MacAddr;
use crate::netlink::Netlink;
use crate::shaper::{Interface, Removed};

/// Key: address of the neighbour, out, acknowledgement, home's identity, download, padding.
const KEY_BYTES: usize = 16;
/// Value: packets, bytes.
const VALUE_BYTES: usize = 16;
/// Key of a class: identity of the home, download, padding.
const HOME_KEY_BYTES: usize = 8;
/// Value of a class: priority, chance of a mark, end of its validity.
///
/// The chance is a multiple of 2^-32, the end in ns of `CLOCK_MONOTONIC`.
const HOME_VALUE_BYTES: usize = 24;
/// Most flows on links; the least recently used ones make room.
const MAX_LINK_FLOWS: u32 = 4096;
/// Longest TCP packet without data, in IP bytes: IPv6, and 40 bytes of options.
const MAX_ACK_BYTES: i32 = 100;

// `struct __sk_buff` of uapi/linux/bpf.h.
const SKB_LEN: i16 = 0;
const SKB_PKT_TYPE: i16 = 4;
const SKB_PRIORITY: i16 = 32;
const SKB_INGRESS_IFINDEX: i16 = 36;
const SKB_GSO_SEGS: i16 = 164;
/// `PACKET_HOST`: for this machine.
const PACKET_HOST: i32 = 0;
const PROTOCOL_TCP: i32 = 6;
/// ECN field of packets that may be marked (RFC 3168 §5).
const ECT0: i32 = 2;
/// `BPF_NOEXIST`.
const NOEXIST: i32 = 1;

// Places on the stack; that of the IP header is `rule::IP_OFFSET`.
const KEY_OFFSET: i16 = -80;
const ZEROS_OFFSET: i16 = -96;
const HOME_OFFSET: i16 = -104;

/// Counters of one home's packets in one direction on one link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowCount {
    /// The neighbour at the other end of the link.
    pub neighbour: MacAddr,
    /// True if this router sends the packets.
    pub out: bool,
    /// True for TCP packets without data, which belong to the flow in the other direction.
    pub ack: bool,
    /// Identity of the home: an IPv4 address, or the first 64 bits of an IPv6 address, folded.
    pub home: u32,
    /// True if the flow goes to the home.
    pub download: bool,
    /// Packets; one that the kernel merged from several counts as those.
    pub packets: u64,
    /// IP bytes.
    pub bytes: u64,
}

/// Returns the identity of a home with this address.
pub fn home(address: std::net::IpAddr) -> u32 {
    match address {
        std::net::IpAddr::V4(v4) => v4.to_bits(),
        std::net::IpAddr::V6(v6) => {
            let high = (v6.to_bits() >> 64) as u64;
            (high >> 32) as u32 ^ high as u32
        }
    }
}

/// Places of the programs.
const INGRESS_FILTER: FilterName = FilterName {
    name: "fairmesh-count-in",
    on_ours: "fairmesh-count-in+clsact",
    prio: 0xfa2,
    what: "the program that counts flows",
    direction: HookDirection::In,
};
const EGRESS_FILTER: FilterName = FilterName {
    name: "fairmesh-count-out",
    on_ours: "fairmesh-count-out+clsact",
    direction: HookDirection::Out,
    ..INGRESS_FILTER
};

/// Programs that count the packets of homes, plain and in unicast frames of batman-adv.
///
/// Frames to groups are not counted. It needs Linux 5.6, `CAP_BPF` and `CAP_NET_ADMIN`.
#[derive(Debug)]
pub struct FlowMeter {
    counts: Map<KEY_BYTES, VALUE_BYTES>,
    classes: Map<HOME_KEY_BYTES, HOME_VALUE_BYTES>,
    programs: [(&'static FilterName, Program); 2],
    attached: Vec<Attached>,
}

impl FlowMeter {
    /// Most prefixes of homes.
    pub const MAX_PREFIXES: usize = 32;
    /// Most flows with a class.
    pub const MAX_CLASSES: u32 = 1024;

    /// Loads the programs; `homes` are the prefixes of addresses on the homes' side.
    ///
    /// Packets that came in by an interface of the mesh (by index) have no class.
    ///
    /// Of a packet between two homes, the sender of data is the home of the flow.
    ///
    /// # Errors
    /// [`Error::Missing`] if bpf(2) is refused or absent; [`Error::Verifier`] if the kernel refuses a program, for example
    /// with more than [`FlowMeter::MAX_PREFIXES`] prefixes.
    pub fn load(homes: &[IpNet], mesh: &[u32]) -> Result<Self, Error> {
        let counts = Map::create_lru(MAX_LINK_FLOWS)?;
        let classes = Map::create(FlowMeter::MAX_CLASSES)?;
        let load = |name: &'static FilterName| {
            let code = program(homes, mesh, name.direction, (counts.fd(), classes.fd()))
                .map_err(|e| Error::io("assembling the program")(io::Error::other(e)))?;
            Program::load("fairmesh_count", &code).map(|program| (name, program))
        };
        let programs = [load(&INGRESS_FILTER)?, load(&EGRESS_FILTER)?];
        Ok(FlowMeter { counts, classes, programs, attached: Vec::new() })
    }

    /// Counts at an interface too.
    ///
    /// The programs are detached when this value is dropped.
    ///
    /// # Errors
    /// The interface has no Ethernet header or does not exist, or the kernel's refusal.
    pub fn attach(&mut self, interface: &Interface) -> Result<(), Error> {
        let mut netlink = Netlink::open()?;
        let link = link::find(&mut netlink, interface.name())?;
        if link.header == 0 {
            return Err(Error::Missing {
                what: format!("an Ethernet header on {}", link.name),
                hint: "count on the interface below it".into(),
            });
        }
        for (name, program) in &self.programs {
            self.attached.push(Attached::put_by_best(&link, program, name)?);
        }
        Ok(())
    }

    /// Checks that all programs are still attached.
    ///
    /// # Errors
    /// [`Error::Gone`] if another program or the end of an interface has detached one.
    pub fn verify(&mut self) -> Result<(), Error> {
        self.attached.iter_mut().try_for_each(Attached::verify)
    }

    /// Reads the counters.
    ///
    /// They only rise; with thousands of flows, one that pauses begins again.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn read(&self) -> Result<Vec<FlowCount>, Error> {
        let all =
            self.counts.all(MAX_LINK_FLOWS).map_err(Error::io("reading counters of flows"))?;
        Ok(all.iter().map(|(key, value)| count(key, value)).collect())
    }

    /// Gives data of a flow that enters the mesh here a class and a chance of CE marks.
    ///
    /// `priority` (`SO_PRIORITY`) selects the class; only ECT(0) packets are marked.
    ///
    /// The chance is clamped to 0…1 and lapses after `keep`; the class stays until [`FlowMeter::release`].
    ///
    /// # Errors
    /// [`FlowMeter::MAX_CLASSES`] flows have one, or another refusal of the kernel.
    pub fn assign(
        &mut self,
        (home, download): (u32, bool),
        priority: u32,
        chance: Probability,
        keep: Span,
    ) -> Result<(), Error> {
        let failed = Error::io("giving a flow its class");
        let until = until(keep).map_err(Error::io("reading the clock"))?;
        let mut value = [0; HOME_VALUE_BYTES];
        value[..4].copy_from_slice(&priority.to_ne_bytes());
        value[8..16].copy_from_slice(&scaled(chance).to_ne_bytes());
        value[16..].copy_from_slice(&until.to_ne_bytes());
        self.classes.put(&home_key(home, download), &value).map_err(failed)
    }

    /// Takes a flow's class away.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn release(&mut self, (home, download): (u32, bool)) -> Result<(), Error> {
        self.classes.delete(&home_key(home, download)).map_err(Error::io("taking a class away"))
    }

    /// Runs a program on a frame, for tests ([`Program::test_run`]).
    ///
    /// # Errors
    /// As [`Program::test_run`].
    pub fn test_run(&self, out: bool, frame: &[u8]) -> Result<TestRun, Error> {
        self.programs[usize::from(out)].1.test_run(frame, 1)
    }

    /// Removes the filters that this or another process has left on an interface.
    ///
    /// # Errors
    /// The kernel's refusal. A missing interface is none.
    pub fn remove(interface: &Interface) -> Result<Removed, Error> {
        let mut netlink = Netlink::open()?;
        let link = match link::find(&mut netlink, interface.name()) {
            Err(Error::NoInterface(_)) => return Ok(Removed::default()),
            found => found?,
        };
        let mut removed = hook::remove(&mut netlink, &link, &INGRESS_FILTER)?;
        removed.add(hook::remove(&mut netlink, &link, &EGRESS_FILTER)?);
        Ok(removed)
    }
}

impl Drop for FlowMeter {
    fn drop(&mut self) {
        // Programs that stay count, and the next start removes them.
        self.attached.drain(..).for_each(|attached| _ = attached.detach());
    }
}

fn home_key(home: u32, download: bool) -> [u8; HOME_KEY_BYTES] {
    let [a, b, c, d] = home.to_be_bytes();
    [a, b, c, d, u8::from(download), 0, 0, 0]
}

fn count(key: &[u8; KEY_BYTES], value: &[u8; VALUE_BYTES]) -> FlowCount {
    let [a, b, c, d, e, f, out, ack, h0, h1, h2, h3, download, ..] = *key;
    let word = |at: usize| value[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
    FlowCount {
        neighbour: MacAddr([a, b, c, d, e, f]),
        out: out != 0,
        ack: ack != 0,
        home: u32::from_be_bytes([h0, h1, h2, h3]),
        download: download != 0,
        packets: word(0),
        bytes: word(8),
    }
}

/// Returns the program of one direction.
///
/// Registers: those of [`headers::find_ip`], then `R8` 1 for a TCP packet without data, `R9` the IP bytes.
fn program(
    homes: &[IpNet],
    mesh: &[u32],
    direction: HookDirection,
    (counts, classes): (i32, i32),
) -> Result<Vec<Instruction>, AsmError> {
    let mut a = Assembler::new();
    let (out, v4, found, add) = (a.label(), a.label(), a.label(), a.label());
    headers::find_ip(&mut a, out);
    a.load(Byte, R0, R10, FRAME_OFFSET);
    a.jump_if(R0, If::AnyBit, 1, out);
    if direction == HookDirection::In {
        a.load(Word, R0, R6, SKB_PKT_TYPE);
        a.jump_if(R0, If::Differs, PACKET_HOST, out);
    }
    for word in 0..2 {
        a.store(Double, R10, KEY_OFFSET + 8 * word, 0);
        a.store(Double, R10, ZEROS_OFFSET + 8 * word, 0);
    }
    let neighbour = if direction == HookDirection::In { FRAME_OFFSET + 6 } else { FRAME_OFFSET };
    for half in 0..3 {
        a.load(Half, R1, R10, neighbour + 2 * half);
        a.store(Half, R10, KEY_OFFSET + 2 * half, R1);
    }
    a.store(Byte, R10, KEY_OFFSET + 6, i32::from(direction == HookDirection::Out));
    a.jump_if(R8, If::Equal, wire(ETH_P_IP), v4);
    a.jump_if(R8, If::Differs, wire(ETH_P_IPV6), out);
    read(&mut a, 0, IP_OFFSET, IPV6_BYTES, out);
    without_data(&mut a, IP_OFFSET + 6, out);
    ends(
        &mut a,
        homes.iter().filter(|p| p.addr().is_ipv6()),
        (IP_OFFSET + 8, IP_OFFSET + 24),
        found,
        out,
    );
    a.bind(v4);
    read(&mut a, 0, IP_OFFSET, IPV4_BYTES, out);
    without_data(&mut a, IP_OFFSET + 9, out);
    ends(
        &mut a,
        homes.iter().filter(|p| p.addr().is_ipv4()),
        (IP_OFFSET + 12, IP_OFFSET + 16),
        found,
        out,
    );
    a.bind(found);
    a.store(Word, R10, KEY_OFFSET + 8, R3);
    a.store(Byte, R10, KEY_OFFSET + 7, R8);
    find(&mut a, counts);
    a.jump_if(R0, If::Differs, 0, add);
    a.map(R1, counts);
    a.set(R2, R10);
    a.op(Op::Add, R2, i32::from(KEY_OFFSET));
    a.set(R3, R10);
    a.op(Op::Add, R3, i32::from(ZEROS_OFFSET));
    a.set(R4, NOEXIST);
    a.call(Helper::MapUpdate);
    find(&mut a, counts);
    a.jump_if(R0, If::Equal, 0, out);
    a.bind(add);
    let several = a.label();
    a.load(Word, R1, R6, SKB_GSO_SEGS);
    a.jump_if(R1, If::Differs, 0, several);
    a.set(R1, 1);
    a.bind(several);
    a.atomic_add(R0, 0, R1);
    a.atomic_add(R0, 8, R9);
    if direction == HookDirection::Out {
        classify(&mut a, mesh, classes, out);
    }
    a.bind(out);
    a.set(R0, CONTINUE);
    a.exit();
    a.finish()
}

/// Gives data of a flow that enters the mesh here its class, and marks it by chance.
fn classify(a: &mut Assembler, mesh: &[u32], classes: i32, out: Label) {
    a.jump_if(R8, If::Differs, 0, out);
    a.load(Word, R1, R6, SKB_INGRESS_IFINDEX);
    for index in mesh {
        a.jump_if(R1, If::Equal, *index as i32, out);
    }
    a.load(Word, R1, R10, KEY_OFFSET + 8);
    a.store(Word, R10, HOME_OFFSET, R1);
    a.load(Word, R1, R10, KEY_OFFSET + 12);
    a.store(Word, R10, HOME_OFFSET + 4, R1);
    a.map(R1, classes);
    a.set(R2, R10);
    a.op(Op::Add, R2, i32::from(HOME_OFFSET));
    a.call(Helper::MapLookup);
    a.jump_if(R0, If::Equal, 0, out);
    a.set(R9, R0);
    a.load(Word, R1, R9, 0);
    a.store(Word, R6, SKB_PRIORITY, R1);
    let (v6, ecn) = (a.label(), a.label());
    a.load(Byte, R1, R10, IP_OFFSET + 1);
    a.load(Byte, R0, R10, IP_OFFSET);
    a.op(Op::ShiftRight, R0, 4);
    a.jump_if(R0, If::Equal, 6, v6);
    a.jump(ecn);
    a.bind(v6);
    a.op(Op::ShiftRight, R1, 4);
    a.bind(ecn);
    a.op(Op::And, R1, 3);
    a.jump_if(R1, If::Differs, ECT0, out);
    a.call(Helper::KtimeGetNs);
    a.load(Double, R1, R9, 16);
    a.jump_if(R0, If::NotLess, R1, out);
    a.call(Helper::PrandomU32);
    a.load(Double, R1, R9, 8);
    a.jump_if(R0, If::NotLess, R1, out);
    rule::mark(a, out);
}

/// Looks the key up; `R0` is the address of its value, or 0.
fn find(a: &mut Assembler, counts: i32) {
    a.map(R1, counts);
    a.set(R2, R10);
    a.op(Op::Add, R2, i32::from(KEY_OFFSET));
    a.call(Helper::MapLookup);
}

/// Sets `R9` to the IP bytes, and `R8` to 1 for a TCP packet without data, by its length.
fn without_data(a: &mut Assembler, protocol: i16, out: Label) {
    let data = a.label();
    a.load(Word, R9, R6, SKB_LEN);
    a.jump_if(R9, If::Less, R7, out);
    a.op(Op::Sub, R9, R7);
    a.set(R8, 0);
    a.load(Byte, R0, R10, protocol);
    a.jump_if(R0, If::Differs, PROTOCOL_TCP, data);
    a.jump_if(R9, If::NotLess, MAX_ACK_BYTES + 1, data);
    a.set(R8, 1);
    a.bind(data);
}

/// Finds the home of a packet: its identity as on the wire in `R3`, the direction in the key.
///
/// Data belongs to its sender if that is a home, otherwise to its receiver; acknowledgements the other way round.
fn ends<'a>(
    a: &mut Assembler,
    homes: impl Iterator<Item = &'a IpNet> + Clone,
    (source, destination): (i16, i16),
    found: Label,
    out: Label,
) {
    let (acks, up, down) = (a.label(), a.label(), a.label());
    a.jump_if(R8, If::Differs, 0, acks);
    inside(a, homes.clone(), source, up);
    inside(a, homes.clone(), destination, down);
    a.jump(out);
    a.bind(acks);
    inside(a, homes.clone(), destination, up);
    inside(a, homes, source, down);
    a.jump(out);
    a.bind(down);
    a.store(Byte, R10, KEY_OFFSET + 12, 1);
    a.bind(up);
    a.jump(found);
}

/// Jumps if the address is in one of the prefixes, with its identity in `R3`.
fn inside<'a>(a: &mut Assembler, homes: impl Iterator<Item = &'a IpNet>, address: i16, hit: Label) {
    let mut v6 = false;
    a.load(Word, R3, R10, address);
    for prefix in homes {
        let (network, mask): (Vec<u8>, Vec<u8>) = match prefix {
            IpNet::V4(p) => (p.network().octets().to_vec(), p.netmask().octets().to_vec()),
            IpNet::V6(p) => (p.network().octets().to_vec(), p.netmask().octets().to_vec()),
        };
        if !v6 && network.len() == 16 {
            v6 = true;
            a.load(Word, R1, R10, address + 4);
            a.op(Op::Xor, R3, R1);
        }
        let miss = a.label();
        for (at, (network, mask)) in network.chunks_exact(4).zip(mask.chunks_exact(4)).enumerate() {
            let word = |b: &[u8]| i32::from_ne_bytes([b[0], b[1], b[2], b[3]]);
            if word(mask) == 0 {
                continue;
            }
            a.load(Word, R1, R10, address + 4 * at as i16);
            a.op(Op::And, R1, word(mask));
            // Numbers are extended with their sign, loaded words with zeros.
            a.set(R2, word(network));
            a.op(Op::ShiftLeft, R2, 32);
            a.op(Op::ShiftRight, R2, 32);
            a.jump_if(R1, If::Differs, R2, miss);
        }
        a.jump(hit);
        a.bind(miss);
    }
}
