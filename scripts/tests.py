#!/usr/bin/env python3
"""Runs the workspace's test programs, several at a time.

Many of them wait for the kernel more than they compute.

    scripts/tests.py           all but those that emulate in real time, and the examples in comments
    scripts/tests.py --alone   those, with nothing else beside them
    scripts/tests.py --build   only builds them
    --built                    what --build has built last is run as it is: cargo may have other things to do

Each program's output is printed whole when it ends, with the harness' own summary, the time that passed and the
processor time of the program and its children; the ten most expensive and those that failed are named at the end.
CARGO: the cargo to use; FAIRMESH_TESTS: programs at a time (2).
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import threading
import time

CARGO = os.environ.get("CARGO", "cargo")
LIST = os.path.join(os.environ.get("CARGO_TARGET_DIR", "target"), "test-programs.json")
# Package, program. They hold a mesh's clock against the kernel's, and repeat a run that the machine's other work bent.
ALONE = {("fairmesh-emulator", "root"), ("fairmesh", "truth"), ("fairmesh", "emulate"), ("fairmesh-experiments", "emulated"),
         ("fairmesh-testbed", "week")}
# These take longest, so they begin.
FIRST = [("fairmesh-agent", "gateway"), ("fairmesh-lab", "optimum"), ("fairmesh", "docs"),
         ("fairmesh", "truth"), ("fairmesh-testbed", "week")]


def build():
    """Build and return (package, program, path, folder of the package).

    The list is kept for --built.
    """
    built = subprocess.run(
        [CARGO, "test", "--quiet", "--workspace", "--no-run", "--message-format=json-render-diagnostics"],
        stdout=subprocess.PIPE,
        text=True,
        close_fds=False,  # make's job server
    )
    if built.returncode != 0:
        sys.exit("tests: the test programs do not build")
    found = []
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            folder = os.path.dirname(message["manifest_path"])
            # Ids are "path+file:///…/crates/lab#fairmesh-lab@VERSION", or "…/fairmesh#VERSION".
            package = message["package_id"].rsplit("#", 1)[1].split("@")[0]
            if package[0].isdigit():
                package = os.path.basename(folder)
            found.append((package, message["target"]["name"], message["executable"], folder))
    if not found:
        sys.exit("tests: cargo named no test program; expected those of the workspace")
    with open(LIST, "w", encoding="utf-8") as file:
        json.dump(found, file)
    return found


def kept():
    """Return the list that build() has kept."""
    try:
        with open(LIST, encoding="utf-8") as file:
            return [tuple(program) for program in json.load(file)]
    except (OSError, ValueError) as e:
        sys.exit(f"tests: {LIST}: {e}; expected what scripts/tests.py --build writes")


def run(program, told):
    package, name, path, folder = program
    # As cargo test runs them. make's job server is not handed on to programs that others start.
    env = dict(os.environ, CARGO=CARGO, CARGO_MANIFEST_DIR=folder, CARGO_PKG_NAME=package)
    env.pop("MAKEFLAGS", None)
    begin = time.monotonic()
    command = [path, "--quiet"] if path else [CARGO, "test", "--quiet", "--workspace", "--doc"]
    if (package, name) in ALONE:
        # Their tests wait for the time of the emulated meshes and use a third of a processor.
        command.append("--test-threads=4")
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        output = child.stdout.read()
        # Popen.wait() returns no usage.
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    wall, cpu = time.monotonic() - begin, usage.ru_utime + usage.ru_stime
    with told:
        print(f"\ntests: {package} {name}, {wall:.0f} s, {cpu:.0f} s of processor time", flush=True)
        sys.stdout.buffer.write(output)
        sys.stdout.buffer.flush()
    return child.returncode, wall, cpu


def most_expensive(ended):
    """Print the ten programs with the most processor time, and the sum over all."""
    print("\ntests: the most expensive programs: processor time and time that passed, s")
    for (package, name, *_), (_, wall, cpu) in sorted(ended, key=lambda e: -e[1][2])[:10]:
        print(f"{cpu:7.0f} {wall:7.0f}  {package} {name}")
    print(f"{sum(cpu for _, (_, _, cpu) in ended):7.0f} {sum(wall for _, (_, wall, _) in ended):7.0f}  all {len(ended)}", flush=True)


def main():
    asked = set(sys.argv[1:])
    if not asked <= {"--alone", "--built"} and asked != {"--build"}:
        sys.exit(__doc__)
    if asked == {"--build"}:
        build()
        return
    alone = "--alone" in asked
    chosen = [p for p in (kept() if "--built" in asked else build()) if (p[:2] in ALONE) == alone]
    rank = {name: i for i, name in enumerate(FIRST)}
    chosen.sort(key=lambda p: rank.get(p[:2], len(rank)))
    if not alone:
        chosen.append(("every package", "examples in comments", None, os.getcwd()))
    elif len(chosen) != len(ALONE):
        sys.exit(f"tests: {len(chosen)} of the programs to run alone exist; expected {sorted(ALONE)}")
    at_once = int(os.environ.get("FAIRMESH_TESTS", "2"))
    told = threading.Lock()
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        ended = list(zip(chosen, pool.map(lambda p: run(p, told), chosen)))
    most_expensive(ended)
    failed = [f"{p[0]} {p[1]} (ended with {code})" for p, (code, _, _) in ended if code != 0]
    if failed:
        sys.exit("tests: FAILED: " + ", ".join(failed))


if __name__ == "__main__":
    main()
