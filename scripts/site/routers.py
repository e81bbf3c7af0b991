#!/usr/bin/env python3
"""Draws docs/img/routers.svg: uploads of homes in a tree, without and with control.

Real 802.11 stacks are beside the simulator.

    routers.py           writes the picture
    routers.py --check   exit status 1 if the picture is not current

The figures are validation/medium/mesh-maxmin-tree.json, from the test mesh_maxmin_makes_a_tree_fair in scripts/kernel's
virtual machine.
"""

import json
import sys
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "validation/medium/mesh-maxmin-tree.json"
PICTURE = ROOT / "docs/img/routers.svg"
# Pixels: left end and width of the two panels, bottom and height of the bars.
PANELS, WIDTH, BOTTOM, HEIGHT = (70, 420), 310, 230, 150


def drawn(record):
    def rates(key):
        return [mean(run[i] for run in record[key]) for i in range(len(record["hops"]))]

    panels = [
        (f"Linux {record['kernel'].split('+')[0]} over the simulated radio", rates("without_bps"), rates("with_bps")),
        ("the simulator", rates("simulated_without_bps"), rates("simulated_with_bps")),
    ]
    top = max(max(without + controlled) for _, without, controlled in panels)
    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 300" role="img" font-family="sans-serif" font-size="13">',
        f"<title>Uploads of {len(record['hops'])} homes in a tree, without and with mesh-maxmin</title>",
        "<!-- Made by scripts/site/routers.py from validation/medium. Do not edit. -->",
        "<style>svg{--b:#fff;--i:#1d2327;--f:#d5d9dd;--w:#9dbbd9;--c:#3a6ea5}"
        "@media(prefers-color-scheme:dark){svg{--b:#1e2129;--i:#e4e6e8;--f:#4a505a;--w:#45698c;--c:#6ea8e0}}"
        "text{fill:var(--i)}.f{stroke:var(--f);fill:none}.w{fill:var(--w)}.c{fill:var(--c)}</style>",
        '<rect width="760" height="300" style="fill:var(--b)"/>',
        f'<text x="20" y="24" font-size="15">{len(record["hops"])} homes upload over one to three hops</text>',
    ]
    step = WIDTH / len(record["hops"])
    for left, (title, without, controlled) in zip(PANELS, panels):
        out.append(f'<text x="{left}" y="52">{title}</text>')
        for mbit in range(0, int(top / 1e6) + 1, 2):
            y = BOTTOM - HEIGHT * mbit * 1e6 / top
            out.append(f'<path class="f" d="M{left} {y:.1f}h{WIDTH}"/>')
            out.append(f'<text x="{left - 6}" y="{y + 4:.1f}" font-size="11" text-anchor="end">{mbit}</text>')
        for i, hops in enumerate(record["hops"]):
            x = left + step * i + 3
            for shift, kind, rate in ((0, "w", without[i]), (step * 0.42, "c", controlled[i])):
                height = HEIGHT * rate / top
                out.append(
                    f'<path class="{kind}" d="M{x + shift:.1f} {BOTTOM}v{-height:.1f}h{step * 0.4:.1f}v{height:.1f}z"/>'
                )
            out.append(f'<text x="{x + step * 0.41:.1f}" y="{BOTTOM + 16}" font-size="11" text-anchor="middle">{hops}</text>')
        out.append(f'<text x="{left + WIDTH / 2}" y="{BOTTOM + 34}" text-anchor="middle">hops</text>')
    out.append(f'<text transform="translate(24 {BOTTOM - HEIGHT / 2}) rotate(-90)" text-anchor="middle">Mbit/s</text>')
    for x, kind, label in ((70, "w", "without control"), (230, "c", record["control"].split('"')[1] + " at every router")):
        out.append(f'<path class="{kind}" d="M{x} 278h12v12h-12z"/><text x="{x + 18}" y="289">{label}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.exit("routers.py: expected --check or nothing")
    text = drawn(json.loads(RECORD.read_text()))
    if not arguments:
        PICTURE.write_text(text)
    elif not PICTURE.exists() or PICTURE.read_text() != text:
        sys.exit(f"{PICTURE.relative_to(ROOT)}: is out of date; regenerate it with scripts/site/routers.py")


if __name__ == "__main__":
    main(sys.argv[1:])
