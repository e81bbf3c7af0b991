//! Sources of subscribers, and limits of the found ones.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::common::{Box, Path, root, sh};
use crate::{Background, UDP, close_to, exchange, keep, limits, within};

/// batman-adv between gateway and mesh router.
///
/// batctl's output names the router, and its limit holds.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn batman_nodes_are_discovered_and_limited() {
    let _one = machine!("batman_nodes");
    sh("modprobe batman_adv");
    let path = Path::new();
    for (ns, link, address) in
        [(&path.gateway, "mesh", "10.98.0.1"), (&path.router, "r0", "10.98.0.2")]
    {
        ns.sh(&format!("ip addr flush dev {link}"));
        ns.sh("batctl meshif bat0 interface create");
        ns.sh(&format!("batctl meshif bat0 interface -M add {link}"));
        ns.sh("ip link set bat0 up");
        ns.sh(&format!("ip addr add {address}/24 dev bat0"));
    }
    path.router.sh("ip route replace default via 10.98.0.1");
    path.gateway.sh("ip route replace 10.1.0.0/16 via 10.98.0.2");
    within(60, "batman-adv", || path.flows());
    let text = "mode = \"apply\"\nunmapped = \"pass\"\n[mesh]\ninterface = \"bat0\"\n[wired]\ninterface = \"wan\"\n\
                [control]\nuse = \"fifo\"\n[[neighbour]]\nname = \"router\"\ncapacity = \"8 Mbit/s\"\n\
                [plan.all]\ndown = \"2 Mbit/s\"\nup = \"1 Mbit/s\"\n\
                [discover]\nbatman = \"bat0\"\nplan = \"all\"\nevery = \"1 s\"\n";
    let b = Box::new(&path, text);
    let daemon = b.start();
    let bat0 = path.router.sh("cat /sys/class/net/bat0/address");
    b.wait("the router", |s| s["subscribers"].to_string().contains(bat0.trim()));
    keep("batctl-originators.json", &path.gateway.sh("batctl meshif bat0 originators_json"));
    keep(
        "batctl-transtable_global.json",
        &path.gateway.sh("batctl meshif bat0 transtable_global_json"),
    );
    limits(&b, &path, "batman-adv");
    daemon.end(Signal::SIGTERM);
}

/// A NetJSON file, the kernel's routes and its neighbour table.
///
/// Subscribers found there are limited.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn maps_routes_and_neighbours_are_discovered_and_limited() {
    let _one = machine!("maps_routes_and_neighbours");
    let path = Path::new();
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("map.json");
    let graph = r#"{"type": "NetworkGraph", "protocol": "static", "version": null, "metric": null,
        "nodes": [{"id": "10.1.3.1", "label": "mill", "local_addresses": ["10.1.30.0/24"]}], "links": []}"#;
    std::fs::write(&map, graph).unwrap();
    path.gateway.sh("ip route add 10.1.2.0/24 via 10.98.0.2");
    path.gateway.sh("ip route del 10.1.0.0/16");
    path.gateway.sh("ip route add 10.1.3.1 via 10.98.0.2 proto kernel");
    let text = format!(
        "mode = \"apply\"\nunmapped = \"pass\"\n[mesh]\ninterface = \"mesh\"\n[wired]\ninterface = \"wan\"\n\
         [control]\nuse = \"fifo\"\n[[neighbour]]\nname = \"router\"\ncapacity = \"8 Mbit/s\"\n\
         [plan.all]\ndown = \"900 kbit/s\"\nup = \"600 kbit/s\"\n\
         [discover]\nnetjson = \"{}\"\nroutes = true\nneighbours = true\nplan = \"all\"\nevery = \"1 s\"\n",
        map.display()
    );
    let b = Box::new(&path, &text);
    let daemon = b.start();
    // An address is in the neighbour table after the first packet to it.
    let found = |s: &Value| {
        let _ = path.router.sh("ping -q -c 1 10.98.0.1");
        let peer = path.router.sh("cat /sys/class/net/r0/address");
        let all = s["subscribers"].to_string();
        ["mill", "10.1.2.0/24", peer.trim()].iter().all(|name| all.contains(name))
    };
    b.wait("all three", found);
    let strings = |list: [&str; 2]| list.map(str::to_owned);
    let hosts = strings(["10.99.0.2:5001", "10.99.0.2:5002"]);
    let any = strings(["10.99.0.2:0", "10.99.0.2:0"]);
    let homes = strings(["10.1.2.1:5000", "10.1.3.1:5000"]);
    let own = ["10.98.0.2:5000".to_owned()];
    let offered = [1200.0, 1200.0];
    let down = exchange((&path.wired, &any), (&path.subs, &homes), &offered);
    let up = exchange((&path.subs, &homes), (&path.wired, &hosts), &offered);
    let router = exchange((&path.wired, &any[..1]), (&path.router, &own), &offered);
    for (what, got, kbit) in [
        ("route, down", down[0], 900.0),
        ("map, down", down[1], 900.0),
        ("route, up", up[0], 600.0),
        ("map, up", up[1], 600.0),
        ("neighbour, down", router[0], 900.0),
    ] {
        close_to(what, got, kbit * 1e3 * UDP);
    }
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}

/// babeld on gateway and mesh router.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn babel_routers_are_discovered_and_limited() {
    let _one = machine!("babel_routers");
    let path = Path::new();
    path.gateway.sh("ip route del 10.1.0.0/16");
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let _gateway = Background::start(
        &path.gateway.name,
        &format!("babeld -I {at}/g.pid -S {at}/g.state -G 33123 -h 1 -H 1 mesh"),
    );
    path.router.sh("ip route replace 10.1.0.0/16 via 10.97.0.2 proto static");
    std::fs::write(
        folder.path().join("router.conf"),
        "redistribute ip 10.1.0.0/16\nredistribute local deny\n",
    )
    .unwrap();
    let _router = Background::start(
        &path.router.name,
        &format!("babeld -I {at}/r.pid -S {at}/r.state -h 1 -H 1 -c {at}/router.conf r0"),
    );
    within(60, "babeld", || path.gateway.sh("ip route show").contains("10.1.0.0/16"));
    assert!(path.flows());
    let text = "mode = \"apply\"\nunmapped = \"pass\"\n[mesh]\ninterface = \"mesh\"\n[wired]\ninterface = \"wan\"\n\
                [control]\nuse = \"fifo\"\n[[neighbour]]\nname = \"router\"\ncapacity = \"8 Mbit/s\"\n\
                [plan.all]\ndown = \"2 Mbit/s\"\nup = \"1 Mbit/s\"\n\
                [discover]\nbabel = \"[::1]:33123\"\nplan = \"all\"\nevery = \"1 s\"\n";
    let b = Box::new(&path, text);
    let daemon = b.start();
    let status = b.wait("the router", |s| s["subscribers"].to_string().contains("10.1.0.0/16"));
    println!("{}", status["subscribers"]);
    let dump = path.gateway.spawn(|| {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect("[::1]:33123").unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        stream.write_all(b"dump\n").unwrap();
        let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(n) = stream.read(&mut buffer) {
            text.extend_from_slice(&buffer[..n]);
        }
        String::from_utf8(text).unwrap()
    });
    keep("babeld-dump.txt", &dump.join().unwrap());
    limits(&b, &path, "Babel");
    daemon.end(Signal::SIGTERM);
}
