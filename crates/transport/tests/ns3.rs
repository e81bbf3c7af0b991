//! Comparison with ns-3.37, segment by segment.
//!
//! `ns3/*.txt` are traces of ns-3.37 (NewReno without SACK, classic recovery, the guessed "Reno
//! SACK" marks cleared on leaving recovery) on a point-to-point link with a drop-tail queue, a list
//! of segments lost in each direction, and the settings of `TcpConfig::ns3`. The same link here
//! must produce the same segments at the same microsecond.

mod support;

use fairmesh_transport::{Flags, Segment, TcpConfig};
use fairmesh_units::{BitRate, Span, Time};
use support::{Arrival, CLIENT, Network, SERVER, World};

/// ns-3's point-to-point link.
///
/// It has two bytes of PPP, a queue that does not count the frame in service, and a receiver that loses
/// frames by their number.
struct PointToPoint {
    rate: BitRate,
    delay: Span,
    queue: usize,
    lost: [Vec<u64>; 2],
    count: [u64; 2],
    free: [Time; 2],
    service_starts: [Vec<Time>; 2],
}

impl Network for PointToPoint {
    fn carry(&mut self, from: usize, now: Time, seg: &Segment, out: &mut Vec<Arrival>) {
        // A frame that enters service now still occupies the queue: ns-3 handles the arrival first.
        self.service_starts[from].retain(|&t| t >= now);
        if self.service_starts[from].len() >= self.queue {
            return;
        }
        // PPP, and on a SYN the padded window-scale option.
        let extra = if seg.flags.has(Flags::SYN) { 6 } else { 2 };
        let start = self.free[from].max(now);
        self.free[from] = start + self.rate.time_for(u64::from(seg.ip_bytes() + extra));
        if start > now {
            self.service_starts[from].push(start);
        }
        self.count[from] += 1;
        if !self.lost[from].contains(&(self.count[from] - 1)) {
            out.push(Arrival { at: self.free[from] + self.delay, ce: false });
        }
    }
}

/// Reads the settings in the second line and the trace below it.
fn compare(text: &str) {
    let mut cfg = TcpConfig::ns3();
    let mut net = PointToPoint {
        rate: BitRate(0),
        delay: Span::ZERO,
        queue: 0,
        lost: [Vec::new(), Vec::new()],
        count: [0; 2],
        free: [Time::ZERO; 2],
        service_starts: [Vec::new(), Vec::new()],
    };
    let numbers = |list: &str| list.split(',').map(|n| n.parse().unwrap()).collect::<Vec<u64>>();
    let mut end = 0;
    for setting in text.lines().nth(1).unwrap().trim_start_matches("# ").split(' ') {
        let (key, value) = setting.split_once('=').unwrap();
        match key {
            "rate" => net.rate = BitRate(value.parse().unwrap()),
            "delay" => net.delay = Span::from_millis(value.parse().unwrap()),
            "queue" => net.queue = value.parse().unwrap(),
            "dur" => end = value.parse().unwrap(),
            "drops" => net.lost[CLIENT] = numbers(value),
            "adrops" => net.lost[SERVER] = numbers(value),
            "wnd" => cfg.max_window = Some(value.parse().unwrap()),
            "delack" => cfg.delayed_ack = Some(Span::from_millis(200)),
            "ltx" => cfg.limited_transmit = true,
            other => panic!("{other}"),
        }
    }
    let mut world = World::new(&cfg, net);
    world.write(CLIENT, u64::MAX);
    world.connect();
    world.run_until(Time::ZERO + Span::from_secs(end));
    let ours = world.log.iter().filter(|(_, end, seg)| *end == CLIENT && seg.len > 0);
    let mut ours = ours.map(|(t, _, seg)| (t.as_nanos(), (seg.seq - 1) / 1460));
    let trace = text.lines().filter(|l| !l.starts_with('#'));
    assert!(trace.clone().count() > 300);
    for (i, line) in trace.enumerate() {
        let (us, segment) = line.split_once(' ').unwrap();
        let (us, segment): (u64, u64) = (us.parse().unwrap(), segment.parse().unwrap());
        let (ns, ours) = ours.next().unwrap();
        assert_eq!(ours, segment, "segment {i}, at {us} us");
        assert!(ns.abs_diff(us * 1000) <= 1000, "segment {i}: {ns} ns against {us} us");
    }
}

#[test]
fn overflowing_queue() {
    compare(include_str!("ns3/queue.txt"));
}

#[test]
fn random_loss() {
    compare(include_str!("ns3/loss.txt"));
}

#[test]
fn heavy_loss_and_timeouts() {
    compare(include_str!("ns3/heavy-loss.txt"));
}

#[test]
fn lost_acks() {
    compare(include_str!("ns3/lost-acks.txt"));
}

#[test]
fn window_limit() {
    compare(include_str!("ns3/window.txt"));
}

#[test]
fn delayed_acks() {
    compare(include_str!("ns3/delayed-ack.txt"));
}

#[test]
fn limited_transmit() {
    compare(include_str!("ns3/limited-transmit.txt"));
}
