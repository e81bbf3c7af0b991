#!/usr/bin/env python3
"""Measures the costs of Python and Dask: ratios of pairs made in turn, on a quiet machine.

    target/python/3.11/bin/python scripts/python-cost.py [--repeats 7] [--part run|cores|dask|event|import]

Needs the installed wheel (scripts/python.sh), the release binary, `distributed` for the part of Dask, and two cores.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import fairmesh
from fairmesh import Needs, Scenario

ROOT = Path(__file__).resolve().parent.parent
BINARY = ROOT / "target/release/fairmesh"


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def ratio(name: str, bound: str, repeats: int, ours: Callable[[], object], peer: Callable[[], object]) -> None:
    """Prints median and range of the time over its peer's; the first pair is left out."""
    pairs = [(timed(ours), timed(peer)) for _ in range(repeats + 1)][1:]
    ratios = sorted(a / b for a, b in pairs)
    seconds = statistics.median(b for _, b in pairs)
    print(
        f"{name}: {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}) of {seconds:.2f} s; asked {bound}",
        flush=True,
    )


def run(repeats: int) -> None:
    """Calls run() of Python beside the binary's `run`, both as processes and within one."""
    mesh = Scenario.from_toml(ROOT / "scenarios/neighbourhood.toml").with_changes({"duration": "3600 s"})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mesh.toml"
        path.write_text(mesh.to_toml())
        program = f"import fairmesh; fairmesh.run(fairmesh.Scenario.from_toml({str(path)!r}), 'pfrc', seed=1)"
        binary = [BINARY, "run", path, "--control", "pfrc", "--seed", "1", "--json"]
        python = [sys.executable, "-c", program]
        quiet: dict[str, int] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        peer = lambda: subprocess.run(binary, check=True, **quiet)  # noqa: E731
        ratio("run within Python over the binary", "below 1.02", repeats, lambda: fairmesh.run(mesh, "pfrc", seed=1), peer)
        ratio("python -c over the binary", "the import on top", repeats, lambda: subprocess.run(python, check=True, **quiet), peer)


def plan(seeds: int) -> dict[str, object]:
    mesh = Scenario.chain(3, duration="120 s")
    return {"scenario": mesh, "controls": ["fifo", "source"], "seeds": seeds, "vary": {"radio.rts": [False, True]}}


def cores(repeats: int) -> None:
    """Sweeps with one thread over those with two."""
    work = plan(30)
    ratio(
        "sweep on one core over two", "at least 1.9", repeats,
        lambda: fairmesh.sweep(work, threads=1), lambda: fairmesh.sweep(work, threads=2),
    )  # fmt: skip


def dask(repeats: int) -> None:
    """Sweeps on two workers of Dask over two threads, in time and CPU time of all processes."""
    import psutil
    from distributed import Client, LocalCluster

    def used() -> float:
        own = psutil.Process()
        times = [p.cpu_times() for p in (own, *own.children(recursive=True))]
        return sum(t.user + t.system for t in times)

    work = plan(240)
    pairs = []
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        for _ in range(repeats + 1):
            marks = []
            for place in ({"client": client}, {"threads": 2}):
                begun, seconds = used(), time.perf_counter()
                fairmesh.sweep(work, **place)
                marks.append((time.perf_counter() - seconds, used() - begun))
            pairs.append(marks)
    for name, i in (("time", 0), ("CPU time", 1)):
        ratios = sorted(ours[i] / peer[i] for ours, peer in pairs[1:])
        seconds = statistics.median(peer[i] for _, peer in pairs)
        print(
            f"sweep on two workers of Dask over two threads, {name}: {statistics.median(ratios):.3f} "
            f"({ratios[0]:.3f} to {ratios[-1]:.3f}) of {seconds:.2f} s; asked below 1.05",
            flush=True,
        )


def event(repeats: int) -> None:
    """Time per event of a mechanism of thirty lines, beside the same limits without events."""
    sys.path.insert(0, str(ROOT / "crates/python/tests"))
    from additive import Additive

    events = 0

    class Watching(Additive):
        """Decides as `additive` does, and changes nothing."""

        name = "watching"

        def on(self, now, event):  # type: ignore[no-untyped-def]
            nonlocal events
            events += 1
            super().on(now, event)

    class Still(Additive):
        """Keeps its first limits and receives no event."""

        name = "still"
        needs = Needs(at=["gateway"], abilities=["limit_transit", "flow_classes"])

        def on(self, now, event):  # type: ignore[no-untyped-def]
            self.deadline = 1e9

    fairmesh.register(Watching)
    fairmesh.register(Still)
    mesh = Scenario.from_toml(ROOT / "scenarios/neighbourhood.toml").with_changes({"duration": "3600 s"})
    options = {"epoch": 0.5}
    fairmesh.run(mesh, "watching", seed=1, options=options)
    count = events
    pairs = [
        (timed(lambda: fairmesh.run(mesh, "watching", seed=1, options=options)), timed(lambda: fairmesh.run(mesh, "still", seed=1, options=options)))
        for _ in range(repeats + 1)
    ][1:]
    costs = sorted((a - b) / count * 1e6 for a, b in pairs)
    print(f"mechanism: {statistics.median(costs):.1f} us per event ({costs[0]:.1f} to {costs[-1]:.1f}), {count} events a run; asked at most 10", flush=True)


def imports(repeats: int) -> None:
    """Milliseconds of `import fairmesh` beside the bare interpreter."""
    def start(program: str) -> float:
        return timed(lambda: subprocess.run([sys.executable, "-I", "-c", program], check=True))

    pairs = [(start("import fairmesh"), start("pass")) for _ in range(3 * repeats)]
    costs = sorted((a - b) * 1e3 for a, b in pairs)
    print(f"import: {statistics.median(costs):.0f} ms ({costs[0]:.0f} to {costs[-1]:.0f}); asked below 100", flush=True)


PARTS = {"run": run, "cores": cores, "dask": dask, "event": event, "import": imports}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--part", action="append", choices=PARTS)
    chosen = parser.parse_args()
    for name in chosen.part or PARTS:
        PARTS[name](chosen.repeats)
