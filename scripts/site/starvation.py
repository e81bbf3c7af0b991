#!/usr/bin/env python3
"""Draws docs/img/starvation.svg, an animation of frames on the Stack, from the simulator.

    starvation.py FAIRMESH           writes the picture
    starvation.py FAIRMESH --check   exit status 1 if the picture is not current

FAIRMESH: the program.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs/img/starvation.svg"
# Start and length of the window, in milliseconds of the run.
START, LENGTH = 28_172, 24
COMMAND = ["run", "scenarios/stack.toml", "--duration", "40 s", "--from", f"{START} ms", "--for", f"{LENGTH} ms", "--trace"]
# Seconds of one turn of the animation.
TURN = 12
# Pixels: left end, width and top of the frames, height of a node's row, distance of flows.
LEFT, WIDTH, TOP, ROW, GAP = 250, 490, 66, 18, 16
FLOWS = [("1", "2", "3"), ("4", "5", "6"), ("7", "8", "9")]


def fields(message):
    """Numbers and values of a protobuf message."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        elif key & 7 == 2:
            size = number()
            yield key >> 3, message[at : at + size]
            at += size
        else:
            size = 8 if key & 7 == 1 else 4
            yield key >> 3, int.from_bytes(message[at : at + size], "little")
            at += size


def frames(trace):
    """Frames of a trace of Perfetto: start and end in ms of the window, node, name and outcome."""
    names, parents, begun = {}, {}, {}
    for _, packet in fields(trace):
        packet = dict(fields(packet))
        if 60 in packet:  # TrackDescriptor: 1 uuid, 2 name, 5 parent
            track = dict(fields(packet[60]))
            names[track[1]], parents[track[1]] = track[2].decode(), track.get(5)
        elif 11 in packet:  # TrackEvent: 9 type, 11 track, 23 name
            event = dict(fields(packet[11]))
            if names[event[11]] != "frames":
                continue
            at = packet[8] / 1e6 - START
            if event[9] == 1:
                begun[event[11]] = at, event[23].decode()
            elif event[11] in begun:
                start, name = begun.pop(event[11])
                name, _, outcome = name.partition(": ")
                yield start, at, names[parents[event[11]]], name, outcome


def drawn(found):
    node = {name: (f, i) for f, flow in enumerate(FLOWS) for i, name in enumerate(flow)}
    row = lambda n: TOP + node[n][0] * (3 * ROW + GAP) + node[n][1] * ROW
    place = lambda n: (36 + 70 * node[n][1], TOP + node[n][0] * (3 * ROW + GAP) + 20)
    tries = [f for f in found if f[2] == "4" and f[3].startswith(("RTS", "data"))]
    lost = [f for f in tries if f[4].startswith("overlapped") and {"2", "8"} & set(f[4].split())]
    through = lambda a, b: sum(f[2] == a and f[3] == f"data to {b}" and not f[4] for f in found)
    heights = TOP + 3 * (3 * ROW + GAP)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {heights + 26}" role="img" '
        'font-family="sans-serif" font-size="13">',
        f"<title>{LENGTH} ms of three flows: the middle one loses its frames to hidden terminals</title>",
        "<!-- Made by scripts/site/starvation.py from a trace of the simulator. Do not edit. -->",
        "<style>svg{--b:#fff;--i:#1d2327;--f:#d5d9dd;--s:#3a6ea5;--r:#9dbbd9;--l:#d0342c}"
        "@media(prefers-color-scheme:dark){svg{--b:#1e2129;--i:#e4e6e8;--f:#4a505a;--s:#6ea8e0;--r:#45698c;--l:#ff6b5e}}"
        "text{fill:var(--i)}.f{stroke:var(--f);fill:none}.s{fill:var(--s)}.r{fill:var(--r)}.l{fill:var(--l)}"
        f".p{{stroke:var(--i);animation:p {TURN}s linear infinite}}@keyframes p{{to{{transform:translateX({WIDTH}px)}}}}"
        f"circle{{fill:var(--f);animation:{TURN}s step-end infinite}}",
    ]
    kind = lambda f: "l" if f[4] else "r" if f[3].startswith(("CTS", "ACK")) else "s"
    marks = {"s": "", "r": "", "l": ""}
    for name in node:
        stops, last = ["0%{fill:var(--f)}"], -1.0
        for f in (f for f in found if f[2] == name):
            start, end = (round(100 * t / LENGTH, 1) for t in f[:2])
            if start <= last:  # Frames of one node do not overlap; rounding may join them.
                stops.pop()
            stops += [f"{start:g}%{{fill:var(--{kind(f)})}}", f"{end:g}%{{fill:var(--f)}}"]
            last = end
            x, width = (round(WIDTH * t / LENGTH, 1) for t in (f[0], f[1] - f[0]))
            marks[kind(f)] += f"M{LEFT + x:g} {row(name) + 2}h{width:g}v{ROW - 4}h-{width:g}z"
        out.append(f"@keyframes n{name}{{{''.join(stops)}}}")
    out += [
        "@media(prefers-reduced-motion:reduce){circle,.p{animation:none}.p{display:none}}</style>",
        f'<rect width="760" height="{heights + 26}" style="fill:var(--b)"/>',
        f'<text x="20" y="24" font-size="15">{LENGTH} ms of the Stack without control, slowed {1000 * TURN // LENGTH} times</text>',
        f'<text x="20" y="46">Node 4 transmits {len(tries)} frames; {len(lost)} of them meet frames of 2 or 8 at node 5, '
        "which 4 cannot sense.</text>",
    ]
    for a, b in [("1", "2"), ("2", "3"), ("4", "5"), ("5", "6"), ("7", "8"), ("8", "9"), ("2", "5"), ("5", "8")]:
        (x, y), (u, v) = place(a), place(b)
        dashes = ' stroke-dasharray="4 4"' if x == u else ""
        out.append(f'<path class="f" stroke-width="2"{dashes} d="M{x} {y}L{u} {v}"/>')
    for name in node:
        x, y = place(name)
        out.append(f'<circle cx="{x}" cy="{y}" r="15" style="animation-name:n{name}"/>')
        out.append(f'<text x="{x}" y="{y + 5}" text-anchor="middle">{name}</text>')
        out.append(f'<text x="{LEFT - 8}" y="{row(name) + 14}" font-size="11" text-anchor="end">{name}</text>')
        out.append(f'<path class="f" d="M{LEFT} {row(name) + ROW}h{WIDTH}"/>')
    out += [f'<path class="{k}" d="{d}"/>' for k, d in marks.items()]
    out.append(f'<path class="p" d="M{LEFT} {TOP}V{heights - GAP}"/>')
    x = LEFT
    for k, label, step in (("s", "request or data", 130), ("r", "response", 95), ("l", "lost", 60)):
        out.append(f'<path class="{k}" d="M{x} {heights}h12v12h-12z"/><text x="{x + 18}" y="{heights + 11}">{label}</text>')
        x += step
    for a, b, c in FLOWS:
        x, y = place(b)
        out.append(f'<text x="{x}" y="{y + 33}" text-anchor="middle">{a} → {c}: {through(b, c)} packets arrive</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main(arguments):
    if not arguments or arguments[1:] not in ([], ["--check"]):
        sys.exit("starvation.py: expected the program fairmesh, and --check or nothing")
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        run = subprocess.run([Path(arguments[0]).absolute(), *COMMAND, trace], cwd=ROOT, capture_output=True, text=True)
        if run.returncode:
            sys.exit(f"starvation.py: {run.stderr}")
        found = sorted(frames(trace.read_bytes()))
    # Frames that the window cuts at its start.
    text = drawn([f for f in found if f[0] >= 0 and f[1] <= LENGTH])
    if len(arguments) == 1:
        PICTURE.write_text(text)
    elif not PICTURE.exists() or PICTURE.read_text() != text:
        sys.exit(f"{PICTURE.relative_to(ROOT)}: is out of date; regenerate it with scripts/site/starvation.py FAIRMESH")


if __name__ == "__main__":
    main(sys.argv[1:])
