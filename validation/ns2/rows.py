# SPDX-License-Identifier: MIT OR Apache-2.0
"""The rows of reference.json: scenario, options of harness.tcl and number of seeds."""

from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
SPACING = 200


@dataclass(frozen=True)
class Row:
    tag: str
    group: str
    scenario: str
    options: dict = field(default_factory=dict)  # options of the harness; what is absent has its default
    seeds: int = 6


def chain(hops):
    return [f"node {i} {SPACING * i} 0" for i in range(hops + 1)]


def grid(side):
    return [f"node {side * y + x} {SPACING * x} {SPACING * y}" for y in range(side) for x in range(side)]


def path(*nodes):
    return "path " + " ".join(map(str, nodes))


def scenarios():
    """Name and lines of every scenario of this folder."""
    # Over 10 hops, the longest chain of Jamshaid 2010 Tables 6.2 and 6.3, DSDV finds no path.
    for hops in range(1, 9):
        ends = range(1, hops + 1)
        yield f"chain{hops}_up", chain(hops) + [f"flow tcp {i} 0" for i in ends]
        yield f"chain{hops}_down", chain(hops) + [f"flow tcp 0 {i}" for i in ends]
        yield f"chain{hops}_one", chain(hops) + [f"flow tcp {hops} 0"]
    # Jamshaid 2010 Fig. 8.5: four uploads, and a flow that does not pass the gateway.
    yield "fig85", chain(7) + [f"flow tcp {i} 0" for i in (1, 2, 3, 4)] + ["flow tcp 7 5"]
    for kbps in range(100, 401, 100):
        yield f"udp_up_{kbps}k", chain(3) + [f"flow udp {i} 0 {kbps}000" for i in (1, 2, 3)]
        yield f"udp_down_{kbps}k", chain(3) + [f"flow udp 0 {i} {kbps}000" for i in (1, 2, 3)]
    # Two senders at one receiver that do not sense each other where carrier sense reaches 300 m: equally
    # strong, and one 12 dB stronger.
    yield "hidden_equal", ["node 0 0 0", "node 1 -200 0", "node 2 200 0",
                           "flow udp 1 0 300000", "flow udp 2 0 300000"]
    yield "hidden_stronger", ["node 0 0 0", "node 1 -110 0", "node 2 220 0",
                              "flow udp 1 0 300000", "flow udp 2 0 300000"]
    yield "pairs_540", ["node 0 0 0", "node 1 0 200", "node 2 540 0", "node 3 540 200",
                        "flow udp 0 1 1500000", "flow udp 2 3 1500000"]
    yield "pairs_560", ["node 0 0 0", "node 1 0 200", "node 2 560 0", "node 3 560 200",
                        "flow udp 0 1 1500000", "flow udp 2 3 1500000"]
    yield "facing_tcp", ["node 0 0 0", "node 1 200 0", "node 2 600 0", "node 3 800 0",
                         "flow tcp 0 1", "flow tcp 3 2"]
    yield "star_tcp", ["node 0 0 0", "node 1 200 0", "node 2 -200 0", "node 3 0 200", "node 4 0 -200"] + [
        f"flow tcp {i} 0" for i in (1, 2, 3, 4)]
    # Jamshaid 2010 Fig. 7.3: uploads from both sides of the gateway, node 1.
    yield "fig73", [f"node {i} {SPACING * i} 0" for i in range(8)] + [
        "flow tcp 0 1", "flow tcp 6 1", "flow tcp 7 1"]
    yield "grid3_up", grid(3) + [f"flow tcp {i} 0" for i in (2, 6, 1, 3)]
    yield "grid3_corner_up", grid(3) + [
        "flow tcp 8 0", path(8, 5, 2, 1, 0), "flow tcp 4 0", path(4, 1, 0), "flow tcp 2 0", path(2, 1, 0)]
    yield "grid4_edge_down", grid(4) + [f"flow tcp 0 {i}" for i in (1, 2, 3, 4, 8, 12)]


def reference_rows():
    for hops in range(1, 9):
        seeds = 15 if hops == 3 else 6
        # Over 7 hops and more the third flow has a tenth of the first, and starves or not by chance: no promise.
        group = "ns2-open" if hops >= 7 else "ns2-tcp"
        yield Row(f"chain{hops}_up", group, f"chain{hops}_up", {}, seeds)
        yield Row(f"chain{hops}_down", "ns2-open" if hops == 8 else "ns2-tcp", f"chain{hops}_down", {}, seeds)
        yield Row(f"chain{hops}_one", "ns2-tcp", f"chain{hops}_one")
    for way in ("up", "down"):
        for kbps in range(100, 401, 100):
            yield Row(f"udp_{way}_{kbps}k", "ns2-udp", f"udp_{way}_{kbps}k")
        yield Row(f"chain3_{way}_nocap", "ns2-tcp", f"chain3_{way}", dict(cp=0), 15)
        yield Row(f"chain3_{way}_rts", "ns2-tcp", f"chain3_{way}", dict(rts=1))
    for window in (10, 32, 64):
        yield Row(f"chain3_up_window{window}", "ns2-tcp", "chain3_up", dict(wnd=window), 15)
        yield Row(f"chain4_one_window{window}", "ns2-tcp", "chain4_one", dict(wnd=window))
    # Jamshaid 2010 Fig. 5.1: windows of two segments.
    yield Row("chain4_up_window2", "ns2-tcp", "chain4_up", dict(wnd=2), 15)
    yield Row("chain3_up_large_window", "ns2-tcp", "chain3_up", dict(wnd=1000), 15)
    for rts in (0, 1):
        suffix = "_rts" if rts else ""
        yield Row(f"hidden_equal{suffix}", "ns2-udp", "hidden_equal", dict(rts=rts, csRange=300))
        yield Row(f"hidden_stronger{suffix}", "ns2-udp", "hidden_stronger", dict(rts=rts, csRange=300))
        yield Row(f"pairs_540{suffix}", "ns2-udp", "pairs_540", dict(rts=rts))
        yield Row(f"facing_tcp{suffix}", "ns2-tcp", "facing_tcp", dict(rts=rts))
    yield Row("pairs_560", "ns2-udp", "pairs_560")
    yield Row("star_tcp", "ns2-tcp", "star_tcp")
    yield Row("star_tcp_11M", "ns2-tcp", "star_tcp", dict(rate=11))
    yield Row("fig73", "ns2-tcp", "fig73")
    yield Row("fig85", "ns2-tcp", "fig85")
    yield Row("grid3_up", "ns2-tcp", "grid3_up")
    yield Row("grid3_corner_up", "ns2-tcp", "grid3_corner_up")
    yield Row("grid4_edge_down", "ns2-tcp", "grid4_edge_down")


def write_scenarios():
    (HERE / "scen").mkdir(exist_ok=True)
    for name, lines in scenarios():
        file, text = HERE / "scen" / f"{name}.txt", "\n".join(lines) + "\n"
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


if __name__ == "__main__":
    write_scenarios()
