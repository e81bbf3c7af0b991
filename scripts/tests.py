#!/usr/bin/env python3
"""Runs the workspace's test programs, several at a time: many wait for the kernel more than they compute.

    scripts/tests.py           all but those that emulate in real time, and the examples in comments
    scripts/tests.py --alone   those, one after the other, with nothing beside them

Each program's output is printed whole when it ends, with the harness' own summary; those that failed are
named at the end. Takes what `cargo test --workspace --no-run` builds. CARGO: the cargo to use; FAIRMESH_TESTS:
programs at a time (2).
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import threading

CARGO = os.environ.get("CARGO", "cargo")
# make's job server is not handed on to programs that others start.
os.environ.pop("MAKEFLAGS", None)
# Package, program. They hold a mesh's clock against the kernel's, and repeat a run that the machine's other work bent.
ALONE = {("fairmesh-emulator", "root"), ("fairmesh", "truth"), ("fairmesh", "emulate")}
# These take longest, so they begin.
FIRST = [("fairmesh-agent", "gateway"), ("fairmesh-lab", "optimum"), ("fairmesh", "docs")]


def programs():
    """What cargo built: (package, program, path, folder of the package)."""
    built = subprocess.run(
        [CARGO, "test", "--quiet", "--workspace", "--no-run", "--message-format=json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    if built.returncode != 0:
        sys.exit("tests: the test programs do not build")
    found = []
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            folder = os.path.dirname(message["manifest_path"])
            # Ids are "path+file:///…/crates/lab#fairmesh-lab@0.1.0", or "…/fairmesh#0.1.0".
            package = message["package_id"].rsplit("#", 1)[1].split("@")[0]
            if package[0].isdigit():
                package = os.path.basename(folder)
            found.append((package, message["target"]["name"], message["executable"], folder))
    if not found:
        sys.exit("tests: cargo named no test program; expected those of the workspace")
    return found


def run(program, told):
    package, name, path, folder = program
    # As cargo test runs them.
    env = dict(os.environ, CARGO=CARGO, CARGO_MANIFEST_DIR=folder, CARGO_PKG_NAME=package)
    command = [path, "--quiet"] if path else [CARGO, "test", "--quiet", "--workspace", "--doc"]
    done = subprocess.run(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    with told:
        print(f"\ntests: {package} {name}", flush=True)
        sys.stdout.buffer.write(done.stdout)
        sys.stdout.buffer.flush()
    return done.returncode


def main():
    alone = sys.argv[1:] == ["--alone"]
    if sys.argv[1:] and not alone:
        sys.exit(__doc__)
    chosen = [p for p in programs() if (p[:2] in ALONE) == alone]
    if not alone:
        rank = {name: i for i, name in enumerate(FIRST)}
        chosen.sort(key=lambda p: rank.get(p[:2], len(rank)))
        chosen.append(("every package", "examples in comments", None, os.getcwd()))
    elif len(chosen) != len(ALONE):
        sys.exit(f"tests: {len(chosen)} of the programs to run alone exist; expected {sorted(ALONE)}")
    at_once = 1 if alone else int(os.environ.get("FAIRMESH_TESTS", "2"))
    told = threading.Lock()
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        codes = list(pool.map(lambda p: run(p, told), chosen))
    failed = [f"{p[0]} {p[1]} (ended with {code})" for p, code in zip(chosen, codes) if code != 0]
    if failed:
        sys.exit("tests: FAILED: " + ", ".join(failed))


if __name__ == "__main__":
    main()
