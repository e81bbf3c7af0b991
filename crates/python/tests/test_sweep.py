"""Sweeps on this machine and on a Dask cluster of two workers."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dask_jobqueue.local import LocalCluster as JobCluster
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


def test_a_plan_as_file_and_as_dict_has_the_same_rows(mesh: Scenario, tmp_path: Path) -> None:
    (tmp_path / "mesh.toml").write_text(mesh.to_toml())
    (tmp_path / "plan.toml").write_text(
        'scenario = "mesh.toml"\ncontrols = ["fifo", "source"]\nseeds = "2..=3"\n'
        '[[zip]]\n"topology.chain.hops" = "2..=3"\nradio.rate = ["2 Mbit/s", "11 Mbit/s"]\n[[skip]]\ncontrol = "source"\n'
        "topology.chain.hops = 3\n"
    )
    rows = fairmesh.sweep(tmp_path / "plan.toml").to_dicts()
    assert {(r["topology.chain.hops"], r["radio.rate"], r["control"]) for r in rows} == {
        ("2", "2 Mbit/s", "fifo"), ("2", "2 Mbit/s", "source"), ("3", "11 Mbit/s", "fifo")
    }  # fmt: skip
    plan = {
        "scenario": mesh,
        "controls": ["fifo", "source"],
        "seeds": range(2, 4),
        "zip": [{"topology.chain.hops": range(2, 4), "radio.rate": ["2 Mbit/s", "11 Mbit/s"]}],
        "skip": [{"control": "source", "topology.chain.hops": 3}],
    }
    assert fairmesh.sweep(plan).to_dicts() == rows
    both = fairmesh.sweep({"scenario": [mesh, {"name": "slow", "file": str(tmp_path / "mesh.toml")}], "seeds": 1})
    assert both["scenario"] == ["chain", "chain", "slow", "slow"]
    with pytest.raises(fairmesh.ScenarioError, match="seeds: found .*; expected a number of seeds") as e:
        fairmesh.sweep({**plan, "seeds": "5..5"})
    assert e.value.key == "seeds"
    with pytest.raises(fairmesh.SettingError, match="controls: is given beside a plan"):
        fairmesh.sweep(plan, controls="fifo")


def test_the_number_of_seeds_follows_the_interval(mesh: Scenario, tmp_path: Path) -> None:
    def plan(half_width: float | str) -> dict[str, Any]:
        until = {"measure": "min_over_fair", "half_width": half_width}
        return {"scenario": mesh, "controls": ["fifo", "source"], "seeds": 30, "until": until}

    def seeds(frame: fairmesh.Frame) -> dict[str, list[int]]:
        rows = frame.to_dicts()
        return {c: sorted({r["seed"] for r in rows if r["control"] == c}) for c in ("fifo", "source")}

    for half_width, number in ((10.0, 5), (1e-12, 30)):
        frame = fairmesh.sweep(plan(half_width), folder=tmp_path / "a")
        assert seeds(frame) == {"fifo": list(range(1, number + 1)), "source": list(range(1, number + 1))}
    frame = fairmesh.sweep(plan("20 %"), folder=tmp_path / "b", threads=1)
    for numbers in seeds(frame).values():
        assert len(numbers) in (5, 8, 12, 18, 27, 30)
    # A store that has more seeds already changes nothing.
    assert fairmesh.sweep(plan("20 %"), folder=tmp_path / "a").to_dicts() == frame.to_dicts()


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


def test_adaptive_seeds_on_a_cluster_are_those_of_threads(mesh: Scenario, client: Client) -> None:
    plan = {"scenario": mesh, "seeds": 20, "until": {"measure": "min_over_fair", "half_width": "10 %"}}
    assert fairmesh.sweep(plan, client=client).to_dicts() == fairmesh.sweep(plan).to_dicts()


def test_a_worker_that_joins_late_gets_runs(tmp_path: Path) -> None:
    mesh = Scenario.chain(4, duration="60 s")
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster, Client(cluster) as client:
        ran: dict[str, int] = {}

        def add(done: int, total: int) -> None:
            if done == 2:
                cluster.scale(2)
                client.wait_for_workers(2)

        there = fairmesh.sweep(mesh, {"radio.rts": [False, True]}, seeds=12, client=client, folder=tmp_path, progress=add)
        for worker, state in client.run(lambda dask_worker: len(dask_worker.state.log)).items():
            ran[worker] = state
        assert len(ran) == 2 and all(ran.values()), ran
    assert there.to_dicts() == fairmesh.sweep(mesh, {"radio.rts": [False, True]}, seeds=12).to_dicts()


def test_jobs_of_a_queueing_system_make_the_runs(mesh: Scenario, tmp_path: Path) -> None:
    """As on Slurm, with dask-jobqueue's stand-in, which starts a process for each job."""
    with JobCluster(
        cores=1, processes=1, memory="1GB", log_directory=str(tmp_path / "log"),
        scheduler_options={"host": "127.0.0.1", "dashboard_address": ":0"},
    ) as cluster, Client(cluster) as client:  # fmt: skip
        cluster.scale(jobs=2)
        client.wait_for_workers(2)
        there = fairmesh.sweep(mesh, VARY, seeds=4, client=client, folder=tmp_path / "store")
    assert there.to_dicts() == fairmesh.sweep(mesh, VARY, seeds=4).to_dicts()


def fill(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fairmesh", "fill", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_module_fills_the_store_of_a_plan_on_a_scheduler(mesh: Scenario, client: Client, tmp_path: Path) -> None:
    (tmp_path / "mesh.toml").write_text(mesh.to_toml())
    (tmp_path / "plan.toml").write_text('scenario = "mesh.toml"\nseeds = 3\n[vary]\nradio.rts = [false, true]\n')
    address = client.scheduler.address
    out = fill(tmp_path / "plan.toml", tmp_path / "store", "--on", address, "--revision", fairmesh.__revision__)
    assert (out.returncode, out.stderr) == (0, "")
    assert len(_fairmesh.Sweep.of_plan(tmp_path / "plan.toml", seeds=None, folder=tmp_path / "store").missing()) == 0
    out = fill(tmp_path / "plan.toml", tmp_path / "store", "--on", address, "--revision", "0.1")
    assert out.returncode == 2 and re.fullmatch(r"fairmesh: the package has revision .*; expected 0.1\n", out.stderr)
    (tmp_path / "plan.toml").write_text('scenario = "mesh.toml"\nsede = 3\n')
    out = fill(tmp_path / "plan.toml", tmp_path / "store", "--on", address)
    assert out.returncode == 2 and "plan.toml:2: sede: unknown key; expected one of" in out.stderr


def test_a_scheduler_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    out = fill(tmp_path / "plan.toml", tmp_path, "--on", "tcp://127.0.0.1:1", "--wait", "1")
    assert out.returncode == 2
    assert re.search(r"fairmesh: --on: tcp://127.0.0.1:1: .*; expected the address of a running scheduler\n$", out.stderr)


def test_the_command_line_sweeps_on_a_cluster(mesh: Scenario, client: Client, tmp_path: Path) -> None:
    program = shutil.which("fairmesh", path=str(Path(__file__).resolve().parents[3] / "target" / "release"))
    if program is None:
        pytest.skip("target/release/fairmesh is not built; expected `make build`")
    (tmp_path / "mesh.toml").write_text(mesh.to_toml())
    (tmp_path / "plan.toml").write_text('scenario = "mesh.toml"\nseeds = 3\n[vary]\nradio.rts = [false, true]\n')
    here = [program, "sweep", str(tmp_path / "plan.toml"), "--json", "--out"]
    alone = subprocess.run([*here, str(tmp_path / "a")], capture_output=True, text=True, check=True).stdout
    on = [*here, str(tmp_path / "b"), "--on", client.scheduler.address]
    there = subprocess.run(on, capture_output=True, text=True, env={"PYTHON": sys.executable}, check=True).stdout
    assert alone.split('"results"')[1] == there.split('"results"')[1]


def towns(number: int, apart: float) -> Scenario:
    """Chains of three nodes, each with a gateway, along a line."""
    nodes = [{"id": f"{t}-{n}", "position": [apart * t + 100.0 * n, 0.0]} for t in range(number) for n in range(3)]
    flows = [{"from": f"{t}-{n}", "to": f"{t}-0"} for t in range(number) for n in (1, 2)]
    gateways = [f"{t}-0" for t in range(number)]
    return Scenario.from_dict({"duration": "2 s", "topology": {"gateways": gateways}, "node": nodes, "flow": flows})


def test_islands_give_the_numbers_of_the_whole(client: Client, tmp_path: Path) -> None:
    mesh = towns(6, 20_000.0)
    whole = fairmesh.run(mesh, "pfrc", seed=3, sample="100 ms")
    here = fairmesh.run(mesh, "pfrc", seed=3, sample="100 ms", islands=True)
    there = fairmesh.run(mesh, "pfrc", seed=3, sample="100 ms", islands=True, client=client, store=tmp_path)
    for other in (here, there, fairmesh.run(mesh, "pfrc", seed=3, sample="100 ms", islands=True, store=tmp_path)):
        for frame in ("flows", "nodes", "series", "decisions"):
            assert getattr(other, frame).to_dict() == getattr(whole, frame).to_dict(), frame
    assert "6 islands of 3 nodes" in str(here.to_dict())
    near = _fairmesh.City(towns(2, 700.0), control=None, seed=1, options=None, sample=None, store=None)
    assert len(near) == 1 and re.fullmatch(r"gateways 0-0 and 1-0 are run together: \S+ senses \S+", near.report()[1])
