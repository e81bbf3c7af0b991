#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes reference.json from the output of run.py, and cost.json from rows.py.

collect.py raw.jsonl ...      rows that are not complete are left out and named on stderr
"""

import json
import statistics
import sys
from collections import defaultdict
from math import sqrt
from pathlib import Path

from rows import cost_rows, reference_rows
from run import arguments

HERE = Path(__file__).resolve().parent

# Student's t, two-sided 95 %, by degrees of freedom.
STUDENT = {4: 2.776445, 9: 2.262157}

# Key in the JSON files: (option of the harness, its default).
OPTIONS = {
    "reception": ("rx", "ns2"),
    "data_mbps": ("rate", 1),
    "rts": ("rts", False),
    "queue_packets": ("queue", 50),
    "decode_range_m": ("rxRange", 250.0),
    "sense_range_m": ("csRange", 550.0),
    "capture_db": ("cp", 10.0),
    "udp_payload_bytes": ("pkt", 1500),
    "udp_gap_spread": ("cbrspread", 0.0),
    "tcp_mss_bytes": ("mss", 1460),
    "tcp_sack": ("sack", False),
    "tcp_segments_per_ack": ("delack", 1),
    "tcp_initial_window": ("initcwnd", 2),
    "tcp_window_limit": ("wnd", 0),
    "tcp_min_rto_s": ("minrto", 0.2),
    "tcp_repaired": ("fixreno", True),
}


def described(row):
    """The fixed keys that both files share."""
    options = {key: type(default)(row.options.get(name, default)) for key, (name, default) in OPTIONS.items()}
    return {
        "tag": row.tag,
        "group": row.group,
        "scenario": row.scenario,
        "duration_s": float(row.options["dur"]),
        "warm_up_s": float(row.options["warm"]),
        "options": options,
        "harness_arguments": arguments(row),
    }


def mean_and_half_width(values, digits=3):
    half = STUDENT[len(values) - 1] * statistics.stdev(values) / sqrt(len(values))
    return {"mean": round(statistics.fmean(values), digits), "half_width": round(half, digits)}


def jain(rates):
    squares = len(rates) * sum(r * r for r in rates)
    return sum(rates) ** 2 / squares if squares else 0.0


def measured(runs):
    flows = []
    for i, spec in enumerate(runs[0]["flows"]):
        goodput = [round(run["flows"][i]["bps"], 3) for run in runs]
        flows.append(
            {
                "protocol": spec["p"],
                "source": spec["src"],
                "destination": spec["dst"],
                "hops": spec["hops"],
                "goodput_bps": goodput,
                **mean_and_half_width(goodput),
            }
        )
    tcp = [flow for run in runs for flow in run["flows"] if flow["p"] == "tcp"]
    segments = sum(flow["segs"] for flow in tcp)
    again = sum(flow["retx"] for flow in tcp)
    return {
        "seeds": [run["seed"] for run in runs],
        "flows": flows,
        "sum_bps": mean_and_half_width([run["sum_bps"] for run in runs]),
        "jain": mean_and_half_width([jain([flow["bps"] for flow in run["flows"]]) for run in runs], digits=6),
        "tcp_retransmitted_percent": round(100 * again / segments, 3) if segments else None,
        "transmissions": [run["transmissions"] for run in runs],
        "retry_drops": [run["retry_drops"] for run in runs],
        "queue_drops": [run["queue_drops"] for run in runs],
    }


def dump(path, rows):
    """One row per line: a changed row is one changed line."""
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    path.write_text(f"[\n{lines}\n]\n")


def main(*raw):
    runs = defaultdict(dict)
    for path in raw:
        for run in map(json.loads, Path(path).read_text().splitlines()):
            runs[run["tag"]][run["seed"]] = run
    rows, missing = [], []
    for row in reference_rows():
        seeds = range(1, row.seeds + 1)
        if all(seed in runs[row.tag] for seed in seeds):
            rows.append({**described(row), **measured([runs[row.tag][seed] for seed in seeds])})
        else:
            missing.append(row.tag)
    dump(HERE / "reference.json", rows)
    dump(HERE / "cost.json", [{**described(row), "recorded": recorded} for row, recorded in cost_rows()])
    if missing:
        print("incomplete, left out:", *missing, file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
