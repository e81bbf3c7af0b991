"""Sweeps on this machine and on a Dask cluster of two workers."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster

import fairmesh
from fairmesh import Scenario, _fairmesh

VARY: dict[str, list[Any]] = {"radio.rts": [False, True], "radio.rate": ["2 Mbit/s", "11 Mbit/s"]}


@pytest.fixture
def mesh() -> Scenario:
    return Scenario.chain(2, duration="2 s")


def test_every_combination_has_its_rows(mesh: Scenario, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    store = tmp_path / "store"
    frame = fairmesh.sweep(
        mesh, VARY, controls=["fifo", "source"], seeds="3..=5", folder=store, progress=lambda *p: calls.append(p)
    )
    rows = frame.to_dicts()
    assert len(rows) == 4 * 2 * 3 * 2 and calls[-1] == (24, 24)
    assert {(r["radio.rts"], r["radio.rate"]) for r in rows} == {
        (a, b) for a in ("false", "true") for b in ("2 Mbit/s", "11 Mbit/s")
    }
    assert {r["seed"] for r in rows} == {3, 4, 5}
    again = fairmesh.sweep(mesh, VARY, controls=["fifo", "source"], seeds="3..=5", folder=store, threads=1)
    assert again.to_dicts() == rows and len(list(store.glob("shard-*"))) == 1
    one = mesh.with_changes({"radio.rts": True, "radio.rate": "2 Mbit/s"})
    run = fairmesh.run(one, "source", seed=4).flows["goodput_bps"]
    same = [r for r in rows if (r["radio.rts"], r["radio.rate"], r["control"], r["seed"]) == ("true", "2 Mbit/s", "source", 4)]
    assert [r["goodput_bps"] for r in same] == run


@pytest.mark.parametrize(
    ("vary", "key", "part"),
    [
        ({"radio.rts": []}, "vary", "radio.rts: found none; expected a list"),
        ({"radio.rts": [True, True]}, "vary", "found true twice"),
        ({"radio.rts": "true"}, "vary", "expected a list"),
        ({"radio.colour": ["red"]}, "radio.colour", "expected one of"),
        ({"radio.rate": ["3 Mbit/s"]}, "radio.rate", "with radio.rate=3 Mbit/s"),
    ],
)
def test_a_sweep_that_cannot_run_is_refused(mesh: Scenario, vary: dict[str, list[object]], key: str, part: str) -> None:
    with pytest.raises(fairmesh.FairmeshError) as e:
        fairmesh.sweep(mesh, vary, seeds=1)
    assert part in str(e.value) and e.value.key == key


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster, Client(cluster) as client:
        yield client


def test_a_cluster_gives_the_same_rows(mesh: Scenario, client: Client, tmp_path: Path) -> None:
    here = fairmesh.sweep(mesh, VARY, seeds=4)
    there = fairmesh.sweep(mesh, VARY, seeds=4, client=client, folder=tmp_path / "store")
    assert there.to_dicts() == here.to_dicts()


def test_a_worker_that_is_killed_loses_and_doubles_nothing(client: Client, tmp_path: Path) -> None:
    mesh = Scenario.chain(4, duration="300 s")
    seen: list[int] = []

    def kill_one(done: int, total: int) -> None:
        seen.append(done)
        if done == 3:
            pid = next(iter(client.run(lambda: __import__("os").getpid()).values()))
            subprocess.run(["kill", f"-{int(signal.SIGKILL)}", str(pid)], check=True)

    store = tmp_path / "store"
    there = fairmesh.sweep(mesh, {"radio.rts": [False, True]}, seeds=8, client=client, folder=store, progress=kill_one)
    assert seen == list(range(1, 17))
    lines = [line for shard in store.glob("shard-*") for line in shard.read_text().splitlines() if '"key"' in line]
    assert len(lines) == 16
    assert there.to_dicts() == fairmesh.sweep(mesh, {"radio.rts": [False, True]}, seeds=8).to_dicts()


def test_a_worker_of_another_revision_is_refused(
    mesh: Scenario, client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_fairmesh, "__revision__", "0000000000000000.1")
    with pytest.raises(fairmesh.StoreError, match="worker: has records of revision .*; expected 0000000000000000.1"):
        fairmesh.sweep(mesh, VARY, seeds=1, client=client, folder=tmp_path / "store")
