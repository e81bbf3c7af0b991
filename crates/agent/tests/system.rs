//! The daemon under systemd with the packaged unit, and with PPPoE on the wired side.
//!
//! These run in the virtual machine of `make test-kernel`; elsewhere they are ignored.

#![allow(clippy::disallowed_methods)] // the machine's time passes here

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Box, Path, config, rates, root, run, sh};
use nix::sys::signal::Signal;

/// Locks the virtual machine for one test.
macro_rules! machine {
    ($name:literal) => {{
        assert!(std::env::var_os("FAIRMESH_VM").is_some(), "only in scripts/kernel's machine");
        root($name).unwrap()
    }};
}

/// Waits for a condition, within some seconds of the machine's time.
fn within(seconds: u64, what: &str, mut come: impl FnMut() -> bool) -> f64 {
    let start = Instant::now();
    while !come() {
        assert!(start.elapsed() < Duration::from_secs(seconds), "{what}: not within {seconds} s");
        // Each look starts programs, which cost the machine more than everything else here.
        std::thread::sleep(Duration::from_millis(400));
    }
    start.elapsed().as_secs_f64()
}

/// A process that ends with the test, with all of its children.
struct Background(Child);

impl Background {
    fn start(namespace: &str, words: &[&str]) -> Background {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).args(words);
        Background(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Units that systemd would start as well, and that are not needed in namespaces.
const MASKED: [&str; 14] = [
    "systemd-journald.service",
    "systemd-journald.socket",
    "systemd-journald-dev-log.socket",
    "systemd-journald-audit.socket",
    "systemd-journal-flush.service",
    "systemd-tmpfiles-setup.service",
    "systemd-tmpfiles-setup-dev.service",
    "systemd-sysctl.service",
    "systemd-sysusers.service",
    "systemd-modules-load.service",
    "systemd-random-seed.service",
    "systemd-update-utmp.service",
    "systemd-firstboot.service",
    "systemd-machine-id-commit.service",
];

/// A systemd as the first process of a process namespace, on the gateway.
struct Systemd {
    process: Background,
    first: String,
}

impl Systemd {
    fn start(path: &Path) -> Systemd {
        let units = std::path::Path::new("/etc/systemd/system");
        fs::create_dir_all(units).unwrap();
        for name in MASKED {
            let _ = std::os::unix::fs::symlink("/dev/null", units.join(name));
        }
        let packaged = [
            ("", include_str!("../../../packaging/systemd/fairmesh-gateway.service")),
            ("-reset", include_str!("../../../packaging/systemd/fairmesh-gateway-reset.service")),
        ];
        // There is no journal here.
        let log =
            "[Service]\nStandardOutput=append:/out/unit.log\nStandardError=append:/out/unit.log\n";
        for (name, unit) in packaged {
            let name = format!("fairmesh-gateway{name}.service");
            let additions = units.join(format!("{name}.d"));
            fs::create_dir_all(&additions).unwrap();
            fs::write(units.join(name), unit).unwrap();
            fs::write(additions.join("log.conf"), log).unwrap();
        }
        let target = "[Unit]\nRequires=fairmesh-gateway.service\n";
        fs::write(units.join("fairmesh-test.target"), target).unwrap();
        fs::write("/etc/machine-id", "0123456789abcdef0123456789abcdef\n").unwrap();
        let script = "mount -t proc proc /proc; mount -t cgroup2 cgroup /sys/fs/cgroup; \
                      mount -t tmpfs -o mode=755 run /run; mkdir -p /run/lock; \
                      exec env -i container=fairmesh PATH=/usr/sbin:/usr/bin:/sbin:/bin \
                      /lib/systemd/systemd --system --unit=fairmesh-test.target \
                      --log-target=console --log-level=notice --show-status=no";
        let words = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "sh", "-c", script];
        let process = Background::start(&path.gateway.name, &words);
        let parent = process.0.id().to_string();
        let mut first = String::new();
        within(10, "systemd's process", || {
            let out = run("pgrep", &["-P", &parent]).unwrap();
            first = String::from_utf8_lossy(&out.stdout).trim().to_owned();
            !first.is_empty()
        });
        Systemd { process, first }
    }

    /// Runs a command line beside systemd; returns success and output.
    fn sh(&self, line: &str) -> (bool, String) {
        let line = format!("--target {} --mount --pid --net {line}", self.first);
        let words: Vec<&str> = line.split_whitespace().collect();
        let out = run("nsenter", &words).unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        (out.status.success(), text + &String::from_utf8_lossy(&out.stderr))
    }

    fn show(&self, property: &str) -> String {
        let (_, text) = self.sh(&format!("systemctl show --value -p {property} fairmesh-gateway"));
        text.trim().to_owned()
    }

    fn running(&self) -> bool {
        let status = self.sh("fairmesh-gateway status --json").1;
        serde_json::from_str(&status).is_ok_and(|s: serde_json::Value| s["phase"] == "running")
    }
}

/// Returns the bytes that our root queues have sent, by side: mesh, wired.
///
/// It is empty without queues. A replaced queue starts at zero.
fn sent(path: &Path) -> Vec<u64> {
    let sent = |link: &&str| {
        let text = path.gateway.sh(&format!("tc -s -j qdisc show dev {link} root"));
        let all: serde_json::Value = serde_json::from_str(&text).unwrap();
        let ours = all.as_array().unwrap().iter().find(|q| q["handle"] == "fa1:")?;
        Some(ours["packets"].as_u64().unwrap())
    };
    ["mesh", "wan"].iter().filter_map(sent).collect()
}

/// The packaged unit with all restrictions limits, and restarts after a kill with its queues.
///
/// A stop leaves no limits, and if systemd gives up restarting nothing is left.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn the_packaged_unit_under_systemd() {
    let _one = machine!("the_packaged_unit");
    let path = Path::new();
    // The package has installed the unit's program.
    assert_eq!(std::env::var("FAIRMESH_GATEWAY").unwrap(), "/usr/bin/fairmesh-gateway");
    fs::create_dir_all("/etc/fairmesh").unwrap();
    let file = "/etc/fairmesh/gateway.toml";
    fs::write(file, config("apply", "fifo", "down = \"1 Mbit/s\"")).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
    let unit_log = || fs::read_to_string("/out/unit.log").unwrap_or_default();
    let systemd = Systemd::start(&path);
    let took = within(60, "the unit", || systemd.show("ActiveState") == "active");
    println!("active after {took:.1} s");
    within(10, &unit_log(), || systemd.running());
    let streams = vec![path.stream(1, 4.0)];
    let free = || rates(&streams, Duration::from_secs(1))[0] > 2.5e6;
    within(10, "limits", || !free());
    // Its user has a single capability.
    let pid = systemd.show("MainPID");
    let status = systemd.sh(&format!("cat /proc/{pid}/status")).1;
    let field = |name: &str| {
        let line =
            status.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("{status}"));
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_ne!(field("Uid:"), "0");
    assert_eq!(field("CapEff:"), "0000000000001000", "CAP_NET_ADMIN");
    assert_eq!((field("NoNewPrivs:"), field("Seccomp:")), ("1".into(), "2".into()));
    // All processes are killed: no limit stays, and it restarts with the existing queues.
    let kill = "systemctl kill --signal=KILL --kill-who=all fairmesh-gateway";
    let (before, passed) = (systemd.show("NRestarts"), sent(&path));
    assert!(passed.len() == 2 && passed.iter().any(|&n| n > 100), "{passed:?}");
    assert!(systemd.sh(kill).0);
    // As systemd 254 and newer may do after every crash.
    assert!(systemd.sh("systemctl start --no-block fairmesh-gateway-reset").0);
    let took = within(11, "free traffic", free);
    println!("killed: free after {took:.1} s");
    within(20, "a restart", || systemd.show("NRestarts") != before && systemd.running());
    within(10, "limits again", || !free());
    let cleans = "systemctl is-active fairmesh-gateway-reset";
    within(30, "the cleanup", || systemd.sh(cleans).1.starts_with("inactive"));
    assert!(unit_log().contains("the daemon is running"), "{}", unit_log());
    assert!(systemd.running(), "its folders have gone\n{}", unit_log());
    let passes = sent(&path);
    println!("root queues: {passed:?} packets before, {passes:?} after");
    let same = |(now, then): (&u64, &u64)| now >= then;
    assert!(
        passes.len() == 2 && passes.iter().zip(&passed).all(same),
        "an exchange\n{}",
        unit_log()
    );
    // After repeated crashes it is not restarted, and all of its objects are removed.
    let mut kills = 0;
    while systemd.show("ActiveState") != "failed" {
        let _ = systemd.sh(kill);
        kills += 1;
        assert!(kills < 60, "never given up\n{}", unit_log());
        within(20, "an end or a start", || {
            let state = systemd.show("ActiveState");
            state == "active" || state == "failed"
        });
    }
    let took = within(20, "clean-up", || path.ours().is_empty());
    println!("{kills} more kills: started no more, and clean {took:.1} s later");
    assert!(free(), "nothing of ours, and limits\n{}", unit_log());
    assert!(systemd.sh("systemctl reset-failed fairmesh-gateway").0);
    let (started, text) = systemd.sh("systemctl start fairmesh-gateway");
    assert!(started, "{text}\n{}", unit_log());
    within(20, "limits after all", || !free());
    let (stopped, text) = systemd.sh("systemctl stop fairmesh-gateway");
    assert!(stopped, "{text}");
    assert!(free(), "stopped, and limits stay\n{}", unit_log());
    let (reset, text) = systemd.sh("fairmesh-gateway reset");
    assert!(reset, "{text}");
    assert_eq!(path.ours(), "");
    let log = unit_log();
    for wrong in ["denied", "not permitted", "unwritable"] {
        assert!(!log.contains(wrong), "{log}");
    }
    drop(streams);
    drop(systemd.process);
}

/// A wired side that is a PPPoE session over the cable to the provider.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn limits_hold_on_pppoe() {
    let _one = machine!("limits_hold_on_pppoe");
    sh("modprobe pppoe");
    let path = Path::new();
    let folder = tempfile::tempdir().unwrap();
    let options = folder.path().join("options");
    fs::write(&options, "noauth\nnoipv6\nifname provider\n").unwrap();
    fs::create_dir_all("/etc/ppp").unwrap();
    let _ = fs::write("/etc/ppp/options", "");
    for (ns, link) in [(&path.wired, "w0"), (&path.gateway, "wan")] {
        ns.sh(&format!("ip addr flush dev {link}"));
    }
    let file = options.display().to_string();
    let words = [
        "pppoe-server",
        "-F",
        "-I",
        "w0",
        "-L",
        "10.99.0.2",
        "-R",
        "10.99.0.1",
        "-N",
        "1",
        "-O",
        &file,
    ];
    let _server = Background::start(&path.wired.name, &words);
    let words = [
        "pppd",
        "plugin",
        "rp-pppoe.so",
        "nic-wan",
        "nodetach",
        "noauth",
        "noipv6",
        "nodefaultroute",
        "ifname",
        "dsl",
    ];
    let _client = Background::start(&path.gateway.name, &words);
    within(30, "PPPoE", || {
        let up = |ns: &common::Namespace, link: &str| {
            run("ip", &["-n", &ns.name, "addr", "show", "dev", link])
                .is_some_and(|o| String::from_utf8_lossy(&o.stdout).contains("10.99.0."))
        };
        up(&path.gateway, "dsl") && up(&path.wired, "provider")
    });
    path.wired.sh("ip route replace default dev provider");
    path.gateway.sh("ip route replace default dev dsl");
    assert!(path.flows());
    let text = config("apply", "fifo", "down = \"2 Mbit/s\"\nup = \"1 Mbit/s\"")
        .replace("interface = \"wan\"", "interface = \"dsl\"");
    let b = Box::new(&path, &text);
    let daemon = b.start();
    b.wait_running();
    println!("{}", b.log());
    let measure = |from: &common::Namespace, at: &str, to: &common::Namespace, sink: &str| {
        let sink = to.udp(sink);
        sink.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let (source, goal) = (from.udp(at), sink.local_addr().unwrap());
        let sender = std::thread::spawn(move || {
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(9) {
                let _ = source.send_to(&[0; 1400], goal);
                std::thread::sleep(Duration::from_millis(4));
            }
        });
        let (start, mut bytes, mut buffer) = (Instant::now(), 0, [0; 2000]);
        while start.elapsed() < Duration::from_secs(8) {
            let n = sink.recv(&mut buffer).unwrap();
            if start.elapsed() > Duration::from_secs(2) {
                bytes += n;
            }
        }
        sender.join().unwrap();
        bytes as f64 * 8.0 / 6.0
    };
    let down = measure(&path.wired, "10.99.0.2:0", &path.subs, "10.1.1.1:5000");
    let up = measure(&path.subs, "10.1.1.1:0", &path.wired, "10.99.0.2:5000");
    // Ethernet frames have 14 bytes more than IP packets, PPP packets none.
    for (what, got, wanted) in
        [("down", down, 2e6 * 1400.0 / 1442.0), ("up", up, 1e6 * 1400.0 / 1428.0)]
    {
        println!("PPPoE {what}: {:.0} kbit/s, {:+.1} %", got / 1e3, 100.0 * (got / wanted - 1.0));
        assert!((got / wanted - 1.0).abs() < 0.05, "{what}: {got:.0} instead of {wanted:.0}");
    }
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
    assert_eq!(b.command(&["reset"]).0, 0);
    assert_eq!(path.ours(), "");
}
