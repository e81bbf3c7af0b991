//! Our Minstrel-HT beside mac80211's.
//!
//! Two virtual radios of mac80211_hwsim use a medium that loses frames by rate.
//!
//! `make test-kernel` runs this in its virtual machine; elsewhere the captured frames are read.

#![allow(clippy::disallowed_methods)] // what runs in real time must wait

#[path = "../common/mod.rs"]
mod common;
mod compare;
mod medium;
mod radios;
mod sent;

use std::io::Write;
use std::sync::Arc;

use compare::{Frames, Spread, delivery_by_noise};
use fairmesh_linux::hwsim::{Event, put_received, put_status, read_event};
use medium::Keeps;
use radios::{Kind, Radios};
use sent::{Mcs, Sent};

/// Runs of ours for one of the kernel's.
const RUNS: u64 = 16;

/// Saves a text for the user; it may become a fixture.
pub fn keep(name: &str, text: &str) {
    std::fs::write(format!("/out/{name}"), text).unwrap();
}

/// Prints a line, also to the user's file.
fn print_line(text: &str) {
    println!("{text}");
    let log = std::fs::OpenOptions::new().create(true).append(true).open("/out/minstrel.txt");
    writeln!(log.unwrap(), "{text}").unwrap();
}

/// A test case: losses by phase and rate, and the duration of each phase, s.
struct Case {
    name: &'static str,
    kind: Kind,
    keeps: Arc<Keeps>,
    phases: &'static [u64],
    /// True if in each phase one rate is best by far.
    clear: bool,
}

/// MPDUs arrive at rates up to one per number of streams, and at no faster ones.
fn up_to(rate: Mcs, fastest: &[u8]) -> f64 {
    match fastest.get(usize::from(rate.streams) - 1) {
        Some(&most) if rate.mcs <= most => 0.97,
        _ => 0.02,
    }
}

/// Loss grows with the rate; a further stream costs as much as two and a half steps.
fn slope(rate: Mcs, half: f64, width: f64) -> f64 {
    let place = f64::from(rate.mcs) + 2.5 * f64::from(rate.streams - 1);
    1.0 / (1.0 + ((place - half) / width).exp())
}

fn cases() -> Vec<Case> {
    let by_noise = delivery_by_noise(Kind::N, 21.0);
    let slow = |rate: Mcs| slope(rate, 3.0, 1.0);
    vec![
        Case {
            name: "n: up to 1x5, worse, and all",
            kind: Kind::N,
            keeps: Arc::new(|phase, rate| match phase {
                0 => up_to(rate, &[5, 2]),
                1 => up_to(rate, &[2, 0]),
                _ => up_to(rate, &[7, 7]),
            }),
            // The second half counts: some need two seconds to find the best.
            phases: &[6, 4, 5],
            clear: true,
        },
        Case {
            name: "n: a slope, worse, and as before",
            kind: Kind::N,
            keeps: Arc::new(|phase, rate| slope(rate, [6.0, 3.0, 6.0][phase as usize], 0.6)),
            phases: &[6, 4, 6],
            clear: false,
        },
        Case {
            name: "n: by noise, 21 dB",
            kind: Kind::N,
            keeps: Arc::new(move |_, rate| by_noise[&rate]),
            phases: &[6],
            clear: false,
        },
        Case {
            name: "ac, four streams: a slope",
            kind: Kind::Ac,
            keeps: Arc::new(move |_, rate| slow(rate)),
            phases: &[8],
            clear: false,
        },
    ]
}

#[test]
#[ignore = "in scripts/kernel's machine"]
fn our_choices_equal_the_kernels() {
    assert!(std::env::var_os("FAIRMESH_VM").is_some(), "only in scripts/kernel's machine");
    let mut wrong = Vec::new();
    for (number, case) in cases().into_iter().enumerate() {
        let radios = Radios::new(case.kind);
        let (kernel, expects) = radios.run(case.keeps.clone(), case.phases, 500, 1);
        drop(radios);
        let text: String = kernel.iter().map(compare::line).collect();
        keep(&format!("attempts-{number}.txt"), &text);
        print_line(&format!("== {}", case.name));
        // By our rules the kernel's attempts lead to the kernel's choices.
        let same = compare::replay(&kernel, case.kind);
        print_line(&format!("replayed: {same:?}; it expects {} kbit/s", expects.0 / 1000));
        let mut check = |good: bool, what: String| {
            if !good {
                wrong.push(format!("{}: {what}", case.name));
            }
        };
        check(same.tries * 100 >= same.frames * 99, format!("{same:?}"));
        let off = same.expects_kbit as f64 / (expects.0 / 1000) as f64 - 1.0;
        check(off.abs() < 0.02, format!("{same:?}, the kernel expects {expects}"));
        // Under the same losses with other random numbers: the kernel's run could be one of ours.
        let ours: Vec<Vec<_>> =
            (0..RUNS).map(|seed| compare::run(&kernel, case.kind, &*case.keeps, seed)).collect();
        for phase in 0..case.phases.len() as u32 {
            let k = Frames::of(&kernel, phase);
            let ours: Vec<Frames> = ours.iter().map(|run| Frames::of(run, phase)).collect();
            print_line(&format!(
                "phase {phase}\n kernel {k}\n ours   {}, and {} more",
                ours[0],
                RUNS - 1
            ));
            let mut compared = |what: &str, of: &dyn Fn(&Frames) -> f64, floor: f64| {
                let all = Spread::of(ours.iter().map(of));
                let (theirs, what) =
                    (of(&k), format!("phase {phase}: {what}: {:.4}, ours {all}", of(&k)));
                print_line(&format!(" {what}"));
                check((theirs - all.mean).abs() < 5.0 * all.deviation + floor, what);
            };
            let goodput = k.goodput(case.kind);
            compared("goodput", &|f| f.goodput(case.kind) / goodput, 0.01);
            compared("samples", &Frames::samples, 0.01);
            if case.clear {
                let best = k.best();
                compared("share of the best", &|f| f.share(best), 0.02);
                compared("found after", &|f| f.found_after(best), 5.0);
                check(
                    ours.iter().all(|f| f.best() == best),
                    format!("phase {phase}: {k}, {}", ours[0]),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Frames of Debian's kernel 6.1 in the virtual machine: four rates and attempts each.
#[test]
fn the_kernels_attempts_lead_to_its_choices() {
    let text = include_str!("captured/attempts-6.1.txt");
    let frames: Vec<_> = text.lines().map(compare::read).collect();
    let same = compare::replay(&frames, Kind::N);
    assert_eq!((same.first, same.series, same.tries), (same.frames, same.frames, same.frames));
    assert!(same.frames > 4000);
    // And back.
    let again: String = frames.iter().map(compare::line).collect();
    assert_eq!(again, text);
}

/// Returns a captured message of Debian's kernel 6.1.
fn captured_message() -> Vec<u8> {
    let hex = include_str!("captured/hwsim-frame-6.1.hex").trim();
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

fn captured_frame() -> Sent {
    let message = captured_message();
    let Some(Event::Frame(frame)) = read_event(&message) else { panic!("no frame") };
    Sent::from(&frame)
}

#[test]
fn a_captured_frame_is_read() {
    let sent = captured_frame();
    assert_eq!(sent.radio, 0, "the station is the first radio");
    assert_eq!(sent.bytes[10..16], [0x02, 0, 0, 0, 0, 0], "transmitter");
    assert_eq!(sent.bytes[4..10], [0x02, 0, 0, 0, 0x01, 0], "receiver");
    assert!(sent.unicast() && sent.qos_data());
    // 26 bytes of header, 8 of LLC, 20 and 8 of IP and UDP; its access category is voice.
    assert_eq!((sent.bytes.len(), sent.bytes[24] & 7), (26 + 8 + 28 + 1200, 6));
    assert_eq!(sent.frequency, 2412);
    let rates = sent.series.map(|t| t.rate.map(|r| (r.streams, r.mcs, r.short_guard)));
    assert_eq!(rates.map(|r| r.map(|r| r.2)), [Some(false); 4]);
    assert_eq!(sent.series.map(|t| t.count), [1, 2, 2, 2], "a sample, and unknown rates");
    assert_eq!(rates[1], Some((1, 0, false)));
}

#[test]
fn replies_have_the_attributes_that_the_kernel_requires() {
    let sent = captured_frame();
    let mut out = Vec::new();
    put_status(&mut out, &medium::status(&sent, &sent.series, true));
    assert_eq!(out[..4], [3, 1, 0, 0]);
    let list: Vec<(u16, &[u8])> = fairmesh_linux::tc::attributes(&out[4..]).collect();
    let kinds: Vec<u16> = list.iter().map(|a| a.0).collect();
    assert!([2, 4, 6, 7, 8].iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
    assert_eq!(list[1].1[0] & 4, 4, "acknowledged");
    assert_eq!(list[3].1.len(), 8);
    assert_eq!(list[4].1, sent.cookie.to_ne_bytes());
    out.clear();
    put_received(&mut out, &medium::received(&sent, 1));
    assert_eq!(out[..4], [2, 1, 0, 0]);
    let list: Vec<(u16, &[u8])> = fairmesh_linux::tc::attributes(&out[4..]).collect();
    assert_eq!(list.iter().map(|a| a.0).collect::<Vec<_>>(), [1, 3, 5, 6, 19]);
    assert_eq!(list[1].1, sent.bytes);
}
