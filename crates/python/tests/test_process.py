"""Behaviour of the process: imports, interrupts, threads."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

import fairmesh

LONG = """
import ctypes, signal, fairmesh, sys
# A test that is killed takes this process with it: prctl(PR_SET_PDEATHSIG, SIGKILL).
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
mesh = fairmesh.Scenario.chain(6, duration="100000 s")
try:
    print("begins", flush=True)
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_the_import_needs_no_other_package() -> None:
    code = """
import sys, fairmesh
loaded = {m.split(".")[0] for m in sys.modules}
print(sorted(loaded & {"pandas", "numpy", "polars", "pyarrow", "matplotlib", "dask", "distributed", "tqdm", "ctypes", "networkx", "gzip"}))
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "call",
    ["fairmesh.run(mesh)", "fairmesh.compare(mesh, ['fifo', 'pfrc'], seeds=4)", "fairmesh.optimum(mesh)"],
)
def test_an_interrupt_cancels_the_runs(call: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", LONG.format(call=call)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    assert (out, process.returncode) == ("interrupted\n", 0)


def test_other_threads_run_meanwhile() -> None:
    mesh = fairmesh.Scenario.chain(4, duration="30 s")
    ended, count = threading.Event(), 0

    def work() -> None:
        fairmesh.run(mesh)
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not ended.is_set():
        count += 1
        ended.wait(0.001)
    thread.join()
    assert count > 3


def test_an_exception_of_the_progress_callback_ends_the_call() -> None:
    def failing(done: int, total: int) -> None:
        raise LookupError(f"{done} of {total}")

    callback: Callable[[int, int], object] = failing
    with pytest.raises(LookupError, match="of 8"):
        fairmesh.compare(fairmesh.Scenario.chain(2, duration="2 s"), ["fifo"], seeds=8, progress=callback)


def test_a_bar_counts_the_runs(capsys: pytest.CaptureFixture[str]) -> None:
    mesh = fairmesh.Scenario.chain(1, duration="1 s")
    fairmesh.compare(mesh, ["fifo"], seeds=2, progress=True)
    assert "comparing" in capsys.readouterr().err
    fairmesh.compare(mesh, ["fifo"], seeds=2)
    assert capsys.readouterr().err == ""
