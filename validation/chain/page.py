#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Generates the page ns2-and-ns3.md and its pictures from stored rows.

    page.py FOLDER   writes ns2-and-ns3.md and img/*.svg into the folder; `make site` does so for the site

Sources: reproductions/records/chain-rules.json (our radio, with and without each rule of ns-2),
validation/ns2/reference.json and validation/ns3/reference.json.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RULES = [
    "relay-backoff", "idle-backoff", "window", "deferral", "capture-nav",
    "pairwise", "collision", "own-frame", "carrier-sense", "timeout",
]
DIRECTIONS = ["up", "down"]
# Colours of the project's palette (report/src/palette.rs).
SERIES = ["#3a6ea5", "#d9772b", "#2a8f6d"]
INK, FAINT = "#1d2327", "#eceef0"


def reference(simulator):
    path = ROOT / "validation" / simulator / "reference.json"
    try:
        rows = {row["tag"]: row for row in json.loads(path.read_text())}
    except (OSError, ValueError, KeyError) as e:
        sys.exit(f"{path}: {e!r}; expected the rows that validation/{simulator}/README.md describes")
    return rows


def sources():
    """Goodput of each flow, kbit/s, with half of its 95 % interval, by name of the source."""
    path = ROOT / "reproductions/records/chain-rules.json"
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError) as e:
        sys.exit(f"{path}: {e!r}; expected a record: run `fairmesh-experiments reproduce chain-rules --full --record`")
    found = {}
    for row in record["rows"]:
        cells = {c["column"]: (c["ours"], c["ci95"]) for c in row["cells"]}
        found[row["label"]] = [cells[f"node {n}"] for n in (1, 2, 3)]
        found[f"lost, {row['label']}"] = [cells[f"node {n}, frames back lost, %"] for n in (1, 2, 3)]
    rows = {"ns-2": (reference("ns2"), "chain3_{way}"), "ns-3": (reference("ns3"), "c_ns2_{way}_tcp")}
    rows["ns-2, no capture"] = (rows["ns-2"][0], "chain3_{way}_nocap")
    rows["ns-3, no capture"] = (rows["ns-3"][0], "c_nocap_{way}_tcp")
    for name, (table, tag) in rows.items():
        for way in DIRECTIONS:
            row = table.get(tag.format(way=way))
            if row is None or row.get("not_run"):
                sys.exit(f"{name}: row {tag.format(way=way)} was not run; nothing is drawn without it")
            found[f"{way}, {name}"] = [(f["mean"] / 1e3, f["half_width"] / 1e3) for f in row["flows"]]
    return found


def shown(value):
    mean, half = value
    return f"{mean:.0f} ± {half:.0f}"


def part(values):
    """Goodput of node 3 as a fraction of that of node 1, per cent."""
    return f"{100 * values[2][0] / values[0][0]:.0f} %"


def row(found, way, name, label):
    values = found[f"{way}, {name}"]
    return f"| {label} | {' | '.join(map(shown, values))} | {part(values)} |"


def others(found, way):
    """Node 3's goodput without each rule, and with each alone, except for the first rule."""
    lines = ["| rule | all but this one, kbit/s | this one alone, kbit/s |", "|---|---|---|"]
    for rule in RULES:
        without, alone = found[f"{way}, without {rule}"][2], found[f"{way}, {rule} alone"][2]
        lines.append(f"| `{rule}` | {shown(without)} | {shown(alone)} |")
    return "\n".join(lines)


def svg(width, height, body):
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12" fill="{INK}">\n'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def text(x, y, words, anchor="middle", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{words}</text>'


def bar(x, y, width, length, colour):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{length:.1f}" fill="{colour}"/>'


def line(x1, y1, x2, y2, colour=INK):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def simulators(found):
    """Three bars for each simulator, uploads above downloads."""
    names = [
        ("ns-2.35", "ns-2"),
        ("ours, rules of ns-2", "all rules"),
        ("ours, standard", "standard"),
        ("ours, standard, TCP of ns-3", "standard, TCP of ns-3"),
        ("ns-3.37", "ns-3"),
    ]
    left, top, high, group, scale = 60, 40, 190, 128, 190 / 450
    body = []
    for n, (way, title) in enumerate([("up", "three uploads"), ("down", "three downloads")]):
        base = top + high + n * (high + 75)
        body.append(text(left, base - high - 12, title, "start", ' font-weight="bold"'))
        for kbit in range(0, 451, 100):
            y = base - kbit * scale
            body += [line(left, y, left + group * len(names), y, FAINT), text(left - 6, y + 4, str(kbit), "end")]
        for g, (label, name) in enumerate(names):
            for node, (mean, half) in enumerate(found[f"{way}, {name}"]):
                x = left + g * group + 22 + node * 28
                body.append(bar(x, base - mean * scale, 24, mean * scale, SERIES[node]))
                body.append(line(x + 12, base - (mean - half) * scale, x + 12, base - (mean + half) * scale))
            body.append(text(left + g * group + 64, base + 18, label, more=' font-size="10"'))
    foot = top + 2 * high + 75 + 48
    for node, colour in enumerate(SERIES):
        body += [bar(left + node * 90, foot - 10, 12, 12, colour), text(left + node * 90 + 18, foot, f"node {node + 1}", "start")]
    body.append(text(left + 290, foot, "goodput, kbit/s; whiskers: 95 % interval", "start"))
    return svg(left + group * len(names) + 20, foot + 15, body)


def rules(found):
    """Node 3's goodput with all rules but one, and with one alone."""
    left, top, high, step, scale = 60, 40, 150, 70, 150 / 120
    names = ["all rules", "no rule", *RULES]
    body = []
    panels = [(way, kind) for way in DIRECTIONS for kind in ("without {}", "{} alone")]
    titles = {"up": "upload of node 3", "down": "download of node 3"}
    for n, (way, kind) in enumerate(panels):
        base = top + high + n * (high + 70)
        words = "all rules but one" if kind.startswith("without") else "one rule alone"
        body.append(text(left, base - high - 12, f"{titles[way]}: {words}", "start", ' font-weight="bold"'))
        for kbit in range(0, 121, 20):
            y = base - kbit * scale
            body += [line(left, y, left + step * len(names), y, FAINT), text(left - 6, y + 4, str(kbit), "end")]
        for g, name in enumerate(names):
            mean, half = found[f"{way}, {name if g < 2 else kind.format(name)}"][2]
            x = left + g * step + 14
            colour = [SERIES[0], SERIES[1], SERIES[2]][min(g, 2)]
            body.append(bar(x, base - mean * scale, 34, mean * scale, colour))
            body.append(line(x + 17, base - (mean - half) * scale, x + 17, base - (mean + half) * scale))
            body.append(text(x + 17, base + 16, name, more=' font-size="9"'))
    foot = top + 4 * high + 3 * 70 + 36
    body.append(text(left, foot, "goodput, kbit/s; whiskers: 95 % interval over 25 seeds", "start"))
    return svg(left + step * len(names) + 20, foot + 15, body)


def page(found):
    template = (Path(__file__).with_name("page.md")).read_text()

    def fill(match):
        kind, _, rest = match.group(1).strip().partition(" ")
        if kind == "others":
            return others(found, rest)
        if kind == "rows":
            way, _, names = rest.partition(" ")
            pairs = [pair.strip().split("|") for pair in names.split(";")]
            return "\n".join(row(found, way, name, label) for name, label in pairs)
        if kind == "value":
            name, _, node = rest.rpartition(" ")
            return shown(found[name][int(node) - 1])
        sys.exit(f"validation/chain/page.md: found {{{{ {match.group(1)} }}}}; expected others, rows or value")

    made = "<!-- Made by validation/chain/page.py from kept rows. Do not edit. -->\n\n"
    return made + re.sub(r"\{\{(.*?)\}\}", fill, template)


def main(arguments):
    if len(arguments) != 1:
        sys.exit("page.py: expected a folder to write into")
    folder = Path(arguments[0])
    found = sources()
    files = {
        "ns2-and-ns3.md": page(found),
        "img/ns2-and-ns3.svg": simulators(found),
        "img/ns2-rules.svg": rules(found),
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
