#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the rows of rows.py with the packaged ns-2.35 and writes reference.json.

run.py [--out FILE] [--ns PROGRAM] [--jobs N] [--seeds N] [TAG ...]

Without tags: all rows. With tags: these rows only; the others are kept as they are. A row that cannot be
run (no ns-2, another version, no such route, a script that ends early, output cut short) is written with the
reason under `not_run` and without results, and the exit code is 1.
"""

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from math import sqrt
from pathlib import Path

from rows import reference_rows, write_scenarios

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 600
ROUTINGS = 60  # seeds of the routing phase that are tried per row
# Student's t, two-sided 95 %, by degrees of freedom.
STUDENT = {1: 12.7062, 2: 4.302653, 3: 3.182446, 4: 2.776445, 5: 2.570582, 14: 2.144787}


class NotRun(Exception):
    """The reason why a row has no results."""


def call(ns, row, **more):
    """Standard output of one run of the harness."""
    options = {**row.options, **more}
    command = [ns, "harness.tcl", f"scen=scen/{row.scenario}.txt", *(f"{k}={v}" for k, v in options.items())]
    try:
        run = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=TIMEOUT_S)
    except OSError as e:
        raise NotRun(f"{ns} cannot be started: {e.strerror}; apt-get install ns2") from e
    except subprocess.TimeoutExpired as e:
        raise NotRun(f"{' '.join(command)} ran for more than {TIMEOUT_S} s") from e
    if run.returncode == 3:
        return None
    if run.returncode != 0:
        last = (run.stderr.strip().splitlines() or ["no message"])[-1]
        raise NotRun(f"harness.tcl ended with exit code {run.returncode}: {last}")
    return run.stdout


def read(row):
    """Flows of a scenario as (source, destination), and the requested paths or None."""
    places, flows, paths = [], [], []
    for line in (HERE / "scen" / f"{row.scenario}.txt").read_text().splitlines():
        words = line.split()
        if words[0] == "node":
            places.append((float(words[2]), float(words[3])))
        elif words[0] == "flow":
            flows.append((words[1], int(words[2]), int(words[3])))
            paths.append(None)
        elif words[0] == "path":
            paths[-1] = [int(w) for w in words[1:]]
    return places, flows, paths


def shortest(places, source, target, reach):
    """Hops of the shortest path, and whether there is only one."""
    near = lambda a, b: (places[a][0] - places[b][0]) ** 2 + (places[a][1] - places[b][1]) ** 2 <= reach**2
    counts, seen, hops = {source: 1}, {source}, 0
    while target not in counts:
        following = {}
        for a, count in counts.items():
            for b in range(len(places)):
                if b not in seen and near(a, b):
                    following[b] = following.get(b, 0) + count
        seen |= following.keys()
        counts, hops = following, hops + 1
        if not counts:
            raise NotRun(f"there is no path from {source} to {target}")
    return hops, counts[target] == 1


def paths_of(trace, flows):
    """The path of each flow and of its answers, read off the warm-up datagrams."""
    hops = {}
    for line in trace.splitlines():
        found = re.match(r"([sf]) \S+ _(\d+)_ RTR .* cbr .*\[(\d+):(\d+) (\d+):(\d+) ", line)
        if found:
            node, source, target = int(found[2]), int(found[3]), int(found[5])
            # One datagram of each kind is enough: ports distinguish flows between the same nodes.
            key = (source, found[4], target, found[6])
            way = hops.setdefault(key, [])
            if node not in way:
                way.append(node)
    found = [[*way, key[2]] for key, way in hops.items()]
    if len(found) != 2 * len(flows):
        raise NotRun(f"the trace has {len(found)} paths; expected {2 * len(flows)}")
    return found


def routed(ns, row):
    """A seed of the routing phase that gives the paths that the row asks for."""
    places, flows, wanted = read(row)
    lengths = []
    for i, (_, source, target) in enumerate(flows):
        hops, unique = shortest(places, source, target, row.options.get("rxRange", 250))
        if not unique and wanted[i] is None:
            raise NotRun(f"{source} to {target} has several shortest paths; expected a `path` line")
        lengths.append(hops)
    for routing in range(1, ROUTINGS + 1):
        trace = call(ns, row, routing=routing, paths=1)
        if trace is None:
            continue
        found = paths_of(trace, flows)
        good = True
        for i in range(len(flows)):
            for way in (found[2 * i], found[2 * i + 1][::-1]):
                good &= len(way) == lengths[i] + 1 and (wanted[i] is None or way == wanted[i])
        if good:
            return routing
    raise NotRun(f"DSDV did not find the paths of {row.scenario} with the seeds 1 to {ROUTINGS}")


def one(ns, row, routing, seed):
    out = call(ns, row, routing=routing, seed=seed, tag=row.tag)
    lines = [line for line in (out or "").splitlines() if line.startswith('{"tag"')]
    try:
        return json.loads(lines[-1])
    except (IndexError, ValueError) as e:
        raise NotRun(f"seed {seed}: the output ends before the line of results") from e


def mean_and_half_width(values, digits=1):
    half = STUDENT[len(values) - 1] * statistics.stdev(values) / sqrt(len(values))
    return {"mean": round(statistics.fmean(values), digits), "half_width": round(half, digits)}


def described(row):
    o = row.options
    return {
        "tag": row.tag,
        "group": row.group,
        "scenario": row.scenario,
        "duration_s": float(o.get("dur", 200)),
        "warm_up_s": float(o.get("warm", 20)),
        "options": {
            "rules": "ns2",
            "reception": "nocap" if o.get("cp") == 0 else "ns2",
            "data_mbps": o.get("rate", 1),
            "rts": bool(o.get("rts", 0)),
            "queue_packets": o.get("queue", 50),
            "decode_range_m": float(o.get("rxRange", 250)),
            "sense_range_m": float(o.get("csRange", 550)),
            "capture_db": 10.0,
            "udp_payload_bytes": o.get("pkt", 1500),
            "udp_gap_spread": o.get("spread", 0.5),
            "tcp_mss_bytes": o.get("mss", 1460),
            "tcp_sack": False,
            "tcp_segments_per_ack": 1,
            "tcp_initial_window": 2,
            "tcp_window_limit": o.get("wnd", 20),
            "tcp_min_rto_s": 0.2,
            "tcp_repaired": True,
        },
        "harness_arguments": [f"scen=scen/{row.scenario}.txt", *(f"{k}={v}" for k, v in o.items())],
    }


def measured(row, runs):
    flows = []
    for i, spec in enumerate(runs[0]["flows"]):
        values = [run["flows"][i]["bps"] for run in runs]
        flow = {"protocol": spec["p"], "source": spec["src"], "destination": spec["dst"], "goodput_bps": values}
        flow |= mean_and_half_width(values)
        if "window" in spec:
            flow["window"] = mean_and_half_width([run["flows"][i]["window"] for run in runs], 2)
        flows.append(flow)
    return {
        "seeds": [run["seed"] for run in runs],
        "flows": flows,
        "sum_bps": mean_and_half_width([run["sum_bps"] for run in runs]),
    }


def result(ns, row, seeds, pool):
    head = described(row)
    try:
        if not shutil.which(ns):
            raise NotRun(f"{ns} is not installed; apt-get install ns2")
        routing = routed(ns, row)
        runs = list(pool.map(lambda seed: one(ns, row, routing, seed), range(1, seeds + 1)))
        head["harness_arguments"].append(f"routing={routing}")
        return head | measured(row, runs)
    except NotRun as reason:
        nothing = {"mean": 0.0, "half_width": 0.0}
        return head | {"not_run": str(reason), "seeds": [], "flows": [], "sum_bps": nothing}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=HERE / "reference.json", type=Path)
    parser.add_argument("--ns", default="ns")
    parser.add_argument("--jobs", default=2, type=int)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("tags", nargs="*")
    args = parser.parse_args()
    write_scenarios()
    rows = list(reference_rows())
    unknown = set(args.tags) - {row.tag for row in rows}
    if unknown:
        sys.exit(f"there is no row {sorted(unknown)[0]}; expected one of {', '.join(row.tag for row in rows)}")
    kept = {}
    if args.tags and args.out.exists():
        kept = {row["tag"]: row for row in json.loads(args.out.read_text())}
    out, missed = [], 0
    with ThreadPoolExecutor(args.jobs) as pool:
        for row in rows:
            if args.tags and row.tag not in args.tags:
                out += [kept[row.tag]] if row.tag in kept else []
                continue
            found = result(args.ns, row, args.seeds or row.seeds, pool)
            missed += "not_run" in found
            rates = " ".join(f"{flow['mean'] / 1e3:.1f}" for flow in found["flows"])
            print(f"{row.tag:26} {rates or 'not run: ' + found['not_run']}", flush=True)
            out.append(found)
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in out)
    args.out.write_text(f"[\n{lines}\n]\n")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
