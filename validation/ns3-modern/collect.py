#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Converts results.jsonl (a line per run of mesh-ht) to reference.json (a row per case)."""
import json
from collections import OrderedDict
from pathlib import Path

HERE = Path(__file__).parent
# Two-sided 95 % quantiles of Student's t by degrees of freedom.
T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
PHY = {"n": "802.11n", "ac": "802.11ac", "ax": "802.11ax"}


def estimate(values):
    n = len(values)
    mean = sum(values) / n
    half = 0.0
    if n > 1:
        half = T[n - 1] * (sum((v - mean) ** 2 for v in values) / (n - 1) / n) ** 0.5
    return {"mean": round(mean, 1), "half_width": round(half, 1)}


def group(tag, flows):
    if tag.startswith("s1_") or tag.startswith(("s5_n", "s5_a")):
        return "link"
    if tag.startswith(("s2_", "s5_cell")):
        return "cell"
    # The starved flow changes from seed to seed.
    if tag.startswith(("s7_", "s6_slow_tcp")) or tag.startswith("s6_stack") and tag.endswith("rts1"):
        return "today-episodes"
    return "today-tcp" if flows[0]["p"] == "tcp" else "today-udp"


def row(tag, runs):
    r = runs[0]
    flows = []
    for i, f in enumerate(r["flows"]):
        values = [run["flows"][i]["bps"] for run in runs]
        flows.append({"protocol": f["p"], "source": f["src"], "destination": f["dst"], "hops": f["hops"],
                      "goodput_bps": values, **estimate(values)})
    options = {
        "reception": "nocap", "data_mbps": 0, "rts": bool(r["rts"]), "queue_packets": r["queue"],
        "decode_range_m": r["decode"], "sense_range_m": r["sense"], "capture_db": r["thr"],
        "udp_payload_bytes": r["pkt"], "udp_gap_spread": r["cbrspread"], "tcp_mss_bytes": r["mss"],
        "tcp_sack": bool(r["sack"]), "tcp_segments_per_ack": r["delack"], "tcp_initial_window": r["initcwnd"],
        "tcp_window_limit": 0, "tcp_min_rto_s": r["minrto"], "tcp_repaired": True,
        "today": {"phy": PHY[r["std"]], "width_mhz": r["width"], "mcs": r["mcs"], "streams": r["nss"],
                  "guard_ns": r["gi"], "ampdu_bytes": r["ampdu"], "mpdus": r["bawin"],
                  "start_s": r["prime"], "start_jitter_s": r["jitter"]},
    }
    if r.get("amsdu", 0):
        options["today"]["amsdu_bytes"] = r["amsdu"]
    return {"tag": tag, "group": group(tag, r["flows"]), "scenario": r["scen"].removesuffix(".txt"),
            "duration_s": r["dur"], "warm_up_s": r["warm"], "options": options, "harness_arguments": [],
            "seeds": [run["seed"] for run in runs], "flows": flows,
            "sum_bps": estimate([run["sum_bps"] for run in runs])}


def main():
    cases = OrderedDict()
    for line in (HERE / "results.jsonl").read_text().splitlines():
        run = json.loads(line)
        cases.setdefault(run["tag"], []).append(run)
    rows = [json.dumps(row(tag, runs), separators=(",", ":")) for tag, runs in cases.items()]
    (HERE / "reference.json").write_text("[\n" + ",\n".join(rows) + "\n]\n")


main()
