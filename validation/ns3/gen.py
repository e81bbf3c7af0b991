#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes every scenario file into scen/, which is in the repository; deterministic."""

import math
import random
from pathlib import Path

OUT = Path(__file__).resolve().parent / "scen"


def write(name, nodes, flows, links=()):
    lines = [f"node {i} {x:.3f} {y:.3f}" for i, (x, y) in enumerate(nodes)]
    lines += [f"link {a} {b}" for a, b in links]
    lines += ["flow " + " ".join(str(part) for part in flow) for flow in flows]
    (OUT / f"{name}.txt").write_text("\n".join(lines) + "\n")


def tcp(source, destination):
    return ("tcp", source, destination)


def udp(source, destination, bps=1_500_000):
    """The default rate saturates a 1 Mb/s link."""
    return ("udp", source, destination, bps)


def line(count, spacing=200, y=0):
    return [(spacing * i, y) for i in range(count)]


def grid(columns, rows, spacing=200):
    return [(spacing * (k % columns), spacing * (k // columns)) for k in range(columns * rows)]


def circle(count, radius):
    angles = [2 * math.pi * k / count for k in range(count)]
    return [(radius * math.cos(a), radius * math.sin(a)) for a in angles]


def neighbours(nodes, reach=250):
    """For each node, the others within reach."""
    everyone = range(len(nodes))
    return [[j for j in everyone if j != i and math.dist(nodes[i], nodes[j]) <= reach] for i in everyone]


def connected(nodes):
    near = neighbours(nodes)
    seen, todo = {0}, [0]
    while todo:
        new = set(near[todo.pop()]) - seen
        seen |= new
        todo += new
    return len(seen) == len(nodes)


def random_mesh(rng, count, side):
    """Uniform positions in a square, redrawn until all nodes reach each other."""
    while True:
        nodes = [(rng.uniform(0, side), rng.uniform(0, side)) for _ in range(count)]
        if connected(nodes):
            return nodes


def nearest(nodes, point):
    return min(range(len(nodes)), key=lambda i: math.dist(nodes[i], point))


def saturation():
    """a: n senders around one receiver at equal power.

    The total offered load is 1.5 or 0.9 x the raw rate.
    """
    for label, offered in (("1M", 1.5e6), ("11M", 10e6)):
        for n in (2, 5, 10, 20, 50):
            nodes = [(0, 0)] + circle(n, 50)
            everyone = [(a, b) for a in range(n + 1) for b in range(a + 1, n + 1)]
            flows = [udp(k, 0, int(offered / n)) for k in range(1, n + 1)]
            write(f"a_sat_{label}_n{n}", nodes, flows, everyone)


def chains():
    """b: one TCP flow over h hops of 200 m."""
    for hops in range(1, 9):
        write(f"b_chain_h{hops}", line(hops + 1), [tcp(hops, 0)])


def three_hops():
    """c: three flows on a chain of three hops, towards (up) or from (down) its end."""
    nodes = line(4)
    write("c_up_tcp", nodes, [tcp(i, 0) for i in (1, 2, 3)])
    write("c_down_tcp", nodes, [tcp(0, i) for i in (1, 2, 3)])
    for kbps in range(50, 401, 50):
        write(f"c_up_udp_{kbps}k", nodes, [udp(i, 0, kbps * 1000) for i in (1, 2, 3)])
        write(f"c_down_udp_{kbps}k", nodes, [udp(0, i, kbps * 1000) for i in (1, 2, 3)])


def stack():
    """d: three two-hop flows one above the other; the middle one contends with both."""
    rows = [(0, 1, 2), (3, 4, 5), (6, 7, 8)]
    links = [link for a, b, c in rows for link in ((a, b), (b, c))] + [(1, 4), (4, 7)]
    write("d_stack", grid(3, 3), [tcp(a, c) for a, _, c in rows], links)


def meshes():
    """e, f: many TCP flows to one gateway."""
    sources = (2, 4, 5, 7, 9, 10, 12, 14, 15, 20, 21, 23, 24, 25, 28, 30, 31, 35)
    write("e_grid6", grid(6, 6), [tcp(s, 0) for s in sources])
    rng = random.Random(2024)
    nodes = random_mesh(rng, 100, 2000)
    gateway = nearest(nodes, (1000, 1000))
    sources = rng.sample([i for i in range(100) if i != gateway], 30)
    write("f_rand100", nodes, [tcp(s, gateway) for s in sources])


def micro():
    """m: one or two saturated links with a known result."""
    write("m_single_250", [(0, 0), (250, 0)], [udp(0, 1)])
    # Both senders in sensing range of each other.
    write("m_pairs_540", [(0, 0), (0, 200), (540, 0), (540, 200)], [udp(0, 1), udp(2, 3)])
    # Out of range of all nodes.
    write("m_pairs_560", [(0, 0), (-200, 0), (560, 0), (760, 0)], [udp(0, 1), udp(2, 3)])
    # Sender 2 is hidden from sender 0 and 400 m from its receiver: 12 dB below the wanted frame.
    write("m_hidden_400", [(0, 0), (200, 0), (600, 0), (800, 0)], [udp(0, 1), udp(2, 3)])
    write("m_hidden_eq", line(3), [udp(0, 1), udp(2, 1)], [(0, 1), (1, 2)])


def varied():
    """x: topologies that no model was tuned on."""
    tree = [(0, 0), (200, 0), (400, 30), (590, 80), (770, 160), (-150, 130), (-330, 200), (0, -220)]
    write("x_tree", tree, [tcp(s, 0) for s in (1, 4, 6, 7)])
    cross = line(5) + [(400, 400), (400, 200), (400, -200), (400, -400)]
    write("x_cross", cross, [tcp(0, 4), tcp(5, 8)])
    write("x_grid3_up", grid(3, 3), [tcp(s, 0) for s in range(1, 9)])
    write("x_grid3_down", grid(3, 3), [tcp(0, d) for d in range(1, 9)])
    write("x_parallel", line(4) + line(4, y=300), [tcp(0, 3), tcp(7, 4)])
    write("x_bidirectional", line(6, 220), [tcp(0, 5), tcp(5, 0)])
    write("x_ring8", circle(8, 260), [udp(k, (k + 2) % 8, 60_000) for k in range(8)])
    mixed = [tcp(4, 0), udp(2, 1, 150_000), udp(2, 3, 150_000), udp(0, 1, 100_000)]
    write("x_mixed", line(5), mixed)
    # Sensing range shortened to 300 m by an option: 0 and 2 are hidden, 0's frames are 12 dB stronger at 1.
    write("x_hidden", [(0, 0), (120, 0), (360, 0)], [udp(0, 1), udp(2, 1)])
    write("x_exposed", line(4, 240), [udp(1, 0, 3_000_000), udp(2, 3, 3_000_000)])
    spokes = [(1, 2), (3, 4), (5, 6)]
    links = [link for near, far in spokes for link in ((0, near), (near, far))]
    write("x_star", [(0, 0)] + circle(6, 200), [tcp(far, 0) for _, far in spokes], links)
    # Every link of a chain saturated at once.
    write("x_line_saturated", line(6), [udp(k, k + 1) for k in range(5)])
    rng = random.Random(15)
    nodes = random_mesh(rng, 15, 700)
    gateway = nearest(nodes, (350, 350))
    write("x_rand15", nodes, [tcp(s, gateway) for s in rng.sample([i for i in range(15) if i != gateway], 6)])
    rng = random.Random(20)
    nodes = random_mesh(rng, 20, 800)
    pairs = [rng.sample(range(20), 2) for _ in range(8)]
    write("x_rand20", nodes, [udp(a, b, 40_000) for a, b in pairs])
    # Each node of a random mesh saturates the link to one neighbour.
    rng = random.Random(12)
    nodes = random_mesh(rng, 12, 900)
    write("x_rand12_saturated", nodes, [udp(i, rng.choice(near)) for i, near in enumerate(neighbours(nodes))])
    rng = random.Random(30)
    nodes = random_mesh(rng, 30, 1000)
    gateway = nearest(nodes, (0, 0))
    write("x_rand30", nodes, [tcp(s, gateway) for s in rng.sample([i for i in range(30) if i != gateway], 10)])


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    for family in (saturation, chains, three_hops, stack, meshes, micro, varied):
        family()
