#!/usr/bin/env python3
"""Controls at the gateway on meshes that nobody drew: what the worst home, all together and everybody has of the optimum.

    scripts/gateway-families.py --folder FOLDER [--first 0] [--meshes 38] [--control fifo,pfrc,pfrc+bursts,maxmin] [--seeds 2]

Writes random meshes of 12 to 40 nodes as scenario files (250 m decode, 550 m sense; 802.11b and g at 1 to 54 Mbit/s, one
rate or mixed ones; every third with links that lose up to 15 %; bulk TCP of four to eight homes, up, down or both), runs
`fairmesh compare --optimum` on each and prints a table. The optimum of one mesh takes 5 to 60 CPU-seconds and is kept.
FAIRMESH: the program (target/release/fairmesh).
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys

KINDS = [
    ("802.11b", "1 Mbit/s", None),
    ("802.11b", "11 Mbit/s", None),
    ("802.11g", "24 Mbit/s", None),
    ("802.11g", "12 Mbit/s", "by distance"),
    ("802.11b", "11 Mbit/s", "by chance"),
    ("802.11g", "54 Mbit/s", None),
    ("802.11b", "2 Mbit/s", None),
]
SIDES = {12: 600, 16: 700, 20: 800, 24: 900, 30: 1000, 36: 1100, 40: 1200}


def places(nodes, seed, side):
    """Positions of a connected mesh, metres."""
    chance = random.Random(seed)
    while True:
        at = [(chance.uniform(0, side), chance.uniform(0, side)) for _ in range(nodes)]
        at = [(round(x), round(y)) for x, y in at]
        seen, todo = {0}, [0]
        while todo:
            here = todo.pop()
            near = [n for n in range(nodes) if n not in seen and math.dist(at[here], at[n]) < 250]
            seen.update(near)
            todo.extend(near)
        if len(seen) == nodes:
            return at


def scenario(number, nodes, kind, way, lossy, homes):
    phy, rate, mixed = kind
    seed = 500 + number
    at = places(nodes, seed, SIDES[nodes])
    homes = sorted(random.Random(3 * seed).sample(range(1, nodes), min(homes, nodes - 1)))
    lines = [
        f'name = "gateway family {number}"',
        'duration = "500 s"',
        'warmup = "200 s"',
        "[radio]",
        f'phy = "{phy}"',
        f'rate = "{rate}"',
        "[topology]",
        f"positions = {json.dumps(at)}",
        "gateway = 0",
        "[wired]",
        'hosts = ["server"]',
        "[traffic]",
        f'flows = "{way}"',
        f"nodes = {homes}",
        'host = "server"',
        'traffic = "bulk"',
        'start_jitter = "10 s"',
        'transport = { tcp = "newreno", preset = "rfc" }',
    ]
    chance = random.Random(7 * seed + 1)
    for a in range(nodes):
        for b in range(a + 1, nodes):
            far = math.dist(at[a], at[b])
            if far >= 250 or not (mixed or lossy):
                continue
            lines += ["[[link]]", f"from = {a}", f"to = {b}"]
            if mixed == "by distance":
                steps = sum(far > limit for limit in (80, 120, 160, 200))
                lines.append(f'rate = "{[54, 36, 24, 12, 6][steps]} Mbit/s"')
            elif mixed == "by chance":
                lines.append(f'rate = "{chance.choice(["1", "2", "5.5", "11"])} Mbit/s"')
            if lossy:
                lines.append(f"delivery = {1 - chance.uniform(0, lossy):.3f}")
    return "\n".join(lines) + "\n"


def meshes(count):
    chance = random.Random(4242)
    for number in range(count):
        nodes = chance.choice(list(SIDES))
        way = ["up", "down", "both"][number % 3] if number % 9 else "both"
        lossy = [0, 0, 0.15][chance.randrange(3)]
        homes = 4 if way == "both" else chance.choice([6, 8])
        yield number, nodes, KINDS[number % len(KINDS)], way, lossy, homes


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--folder", required=True, help="where the scenario files go")
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--meshes", type=int, default=38)
    options.add_argument("--control", default="fifo,pfrc,pfrc+bursts,maxmin")
    options.add_argument("--seeds", default="2")
    given = options.parse_args()
    program = os.environ.get("FAIRMESH", "target/release/fairmesh")
    os.makedirs(given.folder, exist_ok=True)
    found = {}
    print(f"{'mesh':>4} {'control':16} {'worst':>6} {'sum':>6} {'jain':>6}   of the optimum")
    for number, *rest in meshes(given.first + given.meshes):
        if number < given.first:
            continue
        file = os.path.join(given.folder, f"{number:02}.toml")
        with open(file, "w", encoding="utf-8") as out:
            out.write(scenario(number, *rest))
        command = [program, "compare", file, "--optimum", "--json", "--control", given.control, "--seeds", given.seeds]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"gateway-families: {' '.join(command)} ended with {done.returncode}")
        for result in json.loads(done.stdout)["results"]:
            # A flow's mean over the seeds, as the optimum is one.
            rates = [(f["goodput_bps"]["mean"], f["optimum_bps"]) for f in result["flows"] if f["optimum_bps"] > 0]
            parts = [rate / best for rate, best in rates]
            row = (
                min(parts),
                sum(rate for rate, _ in rates) / sum(best for _, best in rates),
                sum(parts) ** 2 / len(parts) / sum(p * p for p in parts),
            )
            found.setdefault(result["control"], []).append(row)
            print(f"{number:4} {result['control']:16} {row[0]:6.2f} {row[1]:6.3f} {row[2]:6.3f}", flush=True)
    for control, rows in found.items():
        means = [sum(r[i] for r in rows) / len(rows) for i in range(3)]
        worst = [min(r[i] for r in rows) for i in range(3)]
        print(f"mean {control:16} {means[0]:6.3f} {means[1]:6.3f} {means[2]:6.3f}")
        print(f" min {control:16} {worst[0]:6.2f} {worst[1]:6.2f} {worst[2]:6.3f}")


if __name__ == "__main__":
    main()
