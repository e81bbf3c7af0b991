#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs rows of rows.py, one process at a time, and appends the output to a JSON-lines file.

run.py build/harness raw.jsonl [group ...]     default: all groups; runs already in the file are skipped
"""

import json
import subprocess
import sys
from pathlib import Path

from rows import reference_rows

HERE = Path(__file__).resolve().parent


def arguments(row, seed=None):
    """The harness's command line for a row, without the program name."""
    args = [f"--scen=scen/{row.scenario}.txt", f"--tag={row.tag}"]
    args += [f"--{key}={value}" for key, value in row.options.items()]
    return args if seed is None else [*args, f"--seed={seed}"]


def finished(path):
    if not path.exists():
        return set()
    runs = map(json.loads, path.read_text().splitlines())
    return {(run["tag"], run["seed"]) for run in runs}


def main(harness, out, *groups):
    harness, out = Path(harness).resolve(), Path(out).resolve()
    done = finished(out)
    with out.open("a") as file:
        for row in reference_rows():
            if groups and row.group not in groups:
                continue
            for seed in range(1, row.seeds + 1):
                if (row.tag, seed) in done:
                    continue
                run = subprocess.run([harness, *arguments(row, seed)], cwd=HERE, capture_output=True, text=True)
                if run.returncode != 0:
                    sys.exit(f"{row.tag} seed {seed}: exit {run.returncode}: {run.stderr.strip()}")
                file.write(run.stdout)
                file.flush()
                result = json.loads(run.stdout)
                print(f"{row.tag:28} {seed:2} {result['sum_bps'] / 1e3:9.1f} kb/s {result['user_s']:7.2f} s", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
