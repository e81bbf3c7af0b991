#!/usr/bin/env python3
"""Measures the parts of `make test`: time that passed and processor time.

    scripts/parts.py                 prints the table of FAIRMESH_PARTS
    scripts/parts.py TARGET COMMAND  as the shell of make: runs one command of the recipe of TARGET

FAIRMESH_PARTS: the file with one line for each command. Processor time includes that of all children.
"""

import os
import signal
import subprocess
import sys
import time

# A command that takes longer is reported when it ends, s.
SHOWN = 10


def run(part, command):
    """Run the command, add its times to the file, and return its exit code."""
    begin = time.monotonic()
    # A make in a recipe measures as one command. make's job server passes through.
    env = dict(os.environ)
    if part:
        env.pop("FAIRMESH_PARTS", None)
    child = subprocess.Popen(["/bin/sh", "-c", command], env=env, close_fds=False)
    # An interrupt ends the command, and this program with its exit code.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    file = os.environ.get("FAIRMESH_PARTS")
    if part and file:
        wall, cpu = time.monotonic() - begin, usage.ru_utime + usage.ru_stime
        with open(file, "a", encoding="utf-8") as parts:
            parts.write(f"{part} {wall:.1f} {cpu:.1f}\n")
        if wall >= SHOWN:
            # The table is missing if make is stopped.
            print(f"parts: {part}: {wall:.0f} s, {cpu:.0f} s of processor time, ended at {time.strftime('%H:%M:%S')}", flush=True)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def table(file):
    """Print the sums for each part, the most expensive first."""
    parts = {}
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            part, wall, cpu = line.split()
            sums = parts.setdefault(part, [0.0, 0.0])
            sums[0] += float(cpu)
            sums[1] += float(wall)
    print("parts: processor time and time that passed, s")
    for part, (cpu, wall) in sorted(parts.items(), key=lambda p: -p[1][0]):
        print(f"{cpu:7.0f} {wall:7.0f}  {part}")
    print(f"{sum(cpu for cpu, _ in parts.values()):7.0f}          all")


if __name__ == "__main__":
    # $(shell …) in a makefile has no target.
    if len(sys.argv) > 1:
        sys.exit(run(sys.argv[1] if len(sys.argv) > 2 else "", sys.argv[-1]))
    try:
        table(os.environ["FAIRMESH_PARTS"])
    except (KeyError, OSError, ValueError) as e:
        sys.exit(f"parts: FAIRMESH_PARTS: {e}; expected the file that make test writes")
