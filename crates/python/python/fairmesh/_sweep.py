"""Sweeps: every combination of some settings, on all cores or on a Dask cluster."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Any

from fairmesh import _fairmesh
from fairmesh._calls import Folder, Options
from fairmesh._fairmesh import Frame, Scenario
from fairmesh._progress import Progress, Report, reporter

if TYPE_CHECKING:
    from distributed import Client

# Jobs in the cluster per thread: enough that no worker waits, few enough that memory stays flat.
AHEAD = 3


def sweep(
    scenario: Scenario,
    vary: Mapping[str, Sequence[Any]],
    *,
    controls: str | Iterable[str] = (),
    seeds: int | str | range = 5,
    options: Options | None = None,
    folder: Folder | None = None,
    threads: int | None = None,
    client: Client | None = None,
    progress: Progress = None,
) -> Frame:
    """Runs a scenario with every combination of the values of some keys.

    Returns one row per run and flow, with a column for each varied key.

    vary: values by key, such as {"radio.rts": [False, True], "radio.rate": ["2 Mbit/s", "11 Mbit/s"]}.
    controls: names; the scenario's own by default. `control.OPTION` is a key, too.
    seeds: as in `compare`.
    folder: store of the runs; a sweep that was interrupted continues there. Several processes may share it.
    client: a Dask client, whose workers make the runs. Workers of another revision are refused.
    """
    names = [controls] if isinstance(controls, str) else list(controls)
    temporary = tempfile.TemporaryDirectory() if folder is None else nullcontext(folder)
    with temporary as place, reporter(progress, "sweeping") as report:
        plan = _fairmesh.Sweep(
            scenario, dict(vary), controls=names, seeds=seeds, options=dict(options or {}), folder=place
        )
        if client is None:
            plan.fill(threads=threads, progress=report)
        else:
            _on_cluster(plan, client, report)
        return plan.frame()


def _on_cluster(plan: _fairmesh.Sweep, client: Client, report: Report | None) -> None:
    """Has the workers of a cluster make the runs that the store lacks, each stored as soon as it arrives."""
    from distributed import as_completed

    places = plan.missing()
    missing = iter(places)
    total, done = len(plan), len(plan) - len(places)
    slots = AHEAD * max(1, sum(client.nthreads().values()))

    def submit(index: int) -> Any:
        # A key of its own: Dask would otherwise take equal jobs of earlier calls, failed ones too.
        future: Any = client.submit(
            _fairmesh.run_job, plan.job(index), _fairmesh.__revision__, key=f"fairmesh-{id(plan)}-{index}", pure=False
        )
        future.fairmesh_index = index
        return future

    waiting: Any = as_completed([submit(i) for i in islice(missing, slots)])
    try:
        for future in waiting:
            plan.put(future.fairmesh_index, future.result())
            done += 1
            if report is not None:
                report(done, total)
            for index in islice(missing, 1):
                waiting.add(submit(index))
    finally:
        client.cancel(list(waiting.futures))
