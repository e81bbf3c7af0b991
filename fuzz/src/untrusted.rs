//! Files and messages that another program may have damaged or forged.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use fairmesh_agent::gateway::config::Config;
use fairmesh_agent::gateway::history::{
    Curves, Grid, HistorySettings, HomeUse, MeshUse, Period, Ring, Stamp, Summary, read,
};
use fairmesh_agent::key::Key;
use fairmesh_agent::node::machine::Carrier;
use fairmesh_agent::node::message::{Draft, MAX_MESSAGE_BYTES, MeshKey, open, seal};
use fairmesh_agent::node::neighbours::{MAX_NEIGHBOURS, Neighbours};
use fairmesh_linux::MacAddr;
use fairmesh_units::{Span, Time};

/// First bytes of a segment of a history.
const SEGMENT: &[u8] = b"fmhist1\n";
/// Bytes of a record before its stamp, and of the stamp without its checksum.
const FRAME: usize = 8;
const STAMP: usize = 40;
/// Largest size of the history.
const SIZE: u64 = 256 << 10;
/// Bytes of the truncated tag of a router's message.
const TAG: usize = 12;

/// Folder that is removed at the end of its scope.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Option<Folder> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fairmesh-fuzz-history-{}-{n}", std::process::id());
        // A file system in memory, if there is one: each input writes files.
        let shared = PathBuf::from("/dev/shm");
        let base = if shared.is_dir() { shared } else { std::env::temp_dir() };
        let path = base.join(name);
        std::fs::create_dir(&path).ok()?;
        Some(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Gives every record of a segment the checksums of its content.
fn checked(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let mut at = 0;
    while let Some(length) = out.get(at..at + 4) {
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
        let (begin, end) = (at + FRAME, (at + FRAME).saturating_add(length));
        if length < STAMP + 4 || end > out.len() {
            return out;
        }
        let sum = crc32fast::hash(&out[begin..begin + STAMP]);
        out[begin + STAMP..begin + STAMP + 4].copy_from_slice(&sum.to_le_bytes());
        let sum = crc32fast::hash(&out[begin..end]);
        out[at + 4..at + FRAME].copy_from_slice(&sum.to_le_bytes());
        at = end;
    }
    out
}

/// Reads a history with two segments of these bytes, and continues it.
///
/// Of the first byte, 1 repairs the checksums and 2 makes the first segment one of hours. The form feed that ends the
/// first segment stands once. Any content is read or skipped; a daemon that finds it writes on within the size.
pub fn history(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let Some(folder) = Folder::new() else { return };
    let cut = bytes.windows(4).position(|w| w == b"\x0c\x0c\x0c\x0c");
    let (first, second) = match cut {
        Some(cut) => (&bytes[..cut], &bytes[cut + 4..]),
        None => (bytes, &b""[..]),
    };
    let tier = if choice & 2 != 0 { "hours" } else { "minutes" };
    for (name, bytes) in [(format!("{tier}-1"), first), ("minutes-2".to_owned(), second)] {
        let content = if choice & 1 != 0 { checked(bytes) } else { bytes.to_vec() };
        let file = folder.0.join(format!("{name}.fmh"));
        std::fs::write(file, [SEGMENT, &content].concat()).expect("the folder is new");
    }
    let mut reading = read(&folder.0, 0, u64::MAX).expect("the folder can be read");
    let before = reading.by_ref().count();
    let wall = 1_800_000_000;
    for (grid, now) in [(Grid::HOUR, wall), (Grid::WEEK, wall), (Grid::HOUR, u64::MAX)] {
        let curves = Curves::read(&folder.0, grid, now).expect("the folder can be read");
        let _ = (curves.home("a"), curves.all().homes.len());
    }
    for (since, until) in [(0, u64::MAX), (wall - 3600, wall), (u64::MAX, 0)] {
        let summary = Summary::read(&folder.0, since, until, None).expect("the folder can be read");
        assert!(!summary.text().chars().any(|c| c.is_control() && c != '\n'));
        let _ = summary.html();
    }
    let settings =
        HistorySettings { folder: folder.0.clone(), size: SIZE, period: HistorySettings::PERIOD };
    let mut ring = Ring::open(&settings).expect("the folder can be read");
    let usage = HomeUse { name: "a".into(), ..HomeUse::default() };
    for minute in 1..=2 {
        let end = wall + 60 * minute;
        let stamp = Stamp { run: 7, up: 60 * minute, wall: end, first: 0, last: 0 };
        let mesh = MeshUse { seconds: 60, ..MeshUse::default() };
        let period = Period { stamp, end, mesh, homes: vec![usage.clone()] };
        ring.store(period).expect("the disk has room");
    }
    assert!(ring.bytes() <= SIZE, "{} bytes", ring.bytes());
    let after = read(&folder.0, 0, u64::MAX).expect("the folder can be read").count();
    assert!(after > 0, "{before} records before, {after} with two more");
}

/// Reads LibreQoS's files: `ShapedDevices.csv`, a form feed, and `network.json`.
///
/// The configuration is valid or refused in a line that names its file; no row becomes anything but a subscriber.
pub fn libreqos(text: &str) {
    let (devices, network) = text.split_once('\x0c').unwrap_or((text, "{}"));
    let stored = |name: &str, text: &str| {
        let lines: Vec<String> = text.split('\n').map(|line| format!("#:|{line}")).collect();
        format!("#:file {name}\n{}\n", lines.join("\n"))
    };
    let main = "[mesh]\ninterface = \"bat0\"\n[wired]\ninterface = \"eth0\"\n\
                [libreqos]\ndevices = \"s.csv\"\nnetwork = \"n.json\"\n";
    let all = format!("{main}{}{}", stored("s.csv", devices), stored("n.json", network));
    match Config::parse_stored("fuzz.toml", &all) {
        Ok(config) => {
            for s in &config.subscribers {
                assert!(!s.name.chars().any(char::is_control), "{:?}", s.name);
                assert!(s.prefixes.iter().all(|p| p.prefix_len() > 0 && *p == p.trunc()));
            }
            let mut names: Vec<&str> = config.subscribers.iter().map(|s| &*s.name).collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|w| w[0] != w[1]), "a name stands twice: {names:?}");
        }
        Err(e) => {
            let line = e.to_string();
            assert!(line.starts_with("fuzz.toml"), "no file name: {line}");
            assert!(!line.chars().any(char::is_control), "more than one line: {line:?}");
        }
    }
}

/// Handles messages of mesh routers, each with a length before it.
///
/// Of the first byte, 1 gives them the mesh's tag and 2 a correct tag. None is accepted without one; state is bounded,
/// no message is accepted twice, and known fields survive another round.
pub fn router(bytes: &[u8]) {
    let Some((&choice, mut rest)) = bytes.split_first() else { return };
    let secret = || Key::new([7; 32]);
    let key = MeshKey::new(secret());
    let own = MacAddr([2, 0, 0, 0, 0, 1]);
    let (mut now, period) = (Time::ZERO, Span::from_secs(1));
    let mut neighbours = Neighbours::new(key.clone(), vec![own], period, now);
    while let Some((&length, more)) = rest.split_first() {
        let (message, more) = more.split_at(usize::from(length).min(more.len()));
        rest = more;
        let mut message = message.to_vec();
        if choice & 1 != 0
            && let Some(mesh) = message.get_mut(4..8)
        {
            mesh.copy_from_slice(&secret().tag(b"fairmesh mesh tag")[..4]);
        }
        if choice & 2 != 0 {
            message.truncate(MAX_MESSAGE_BYTES - TAG);
            let tag = secret().tag(&message);
            message.extend_from_slice(&tag[..TAG]);
        }
        now += Span::from_millis(120);
        let accepted = neighbours.receive(now, Carrier::Udp, &message).is_ok();
        for again in [Carrier::Udp, Carrier::ActionFrames] {
            let refused = neighbours.receive(now, again, &message).is_err();
            assert!(!accepted || refused, "accepted twice");
        }
        match open(&key, &message) {
            Err(_) => assert!(!accepted),
            Ok(read) => {
                let (tagged, tag) = message.split_at(message.len() - TAG);
                assert_eq!(secret().tag(tagged)[..TAG], *tag, "accepted with a wrong tag");
                let mut draft = Draft::new();
                assert!(read.fields.iter().all(|field| draft.push(field)), "{read:?}");
                let again = seal(&key, read.mac, read.run, read.sequence, &draft);
                let again = open(&key, &again).expect("it is sealed");
                assert!(again.fields.iter().eq(read.fields.iter()));
                let bodies = |own: &[MacAddr]| read.fields.bodies("gap", own).count();
                assert!(bodies(&[]) <= bodies(&[own, read.mac]));
            }
        }
        assert!(neighbours.senders().count() <= MAX_NEIGHBOURS);
        let _ = (neighbours.expire(now), neighbours.next_expiry());
    }
}
