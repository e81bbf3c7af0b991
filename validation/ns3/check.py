#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Repeats rows of reference.json with the harness at hand and demands identical goodputs.

check.py build/harness [tag ...]      default: the rows of group m (seconds each)
"""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main(harness, *tags):
    harness = Path(harness).resolve()
    rows = json.loads((HERE / "reference.json").read_text())
    chosen = [row for row in rows if row["tag"] in tags or (not tags and row["group"] == "m")]
    different = 0
    for row in chosen:
        for i, seed in enumerate(row["seeds"]):
            command = [harness, *row["harness_arguments"], f"--seed={seed}"]
            run = json.loads(subprocess.run(command, cwd=HERE, check=True, capture_output=True).stdout)
            got = [round(flow["bps"], 3) for flow in run["flows"]]
            want = [flow["goodput_bps"][i] for flow in row["flows"]]
            same = got == want and run["transmissions"] == row["transmissions"][i]
            different += not same
            print(f"{row['tag']} seed {seed}: {'identical' if same else f'{got} instead of {want}'}", flush=True)
    sys.exit(f"{different} runs differ" if different else 0)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
