"""Functions that run simulations and models."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from fairmesh import _fairmesh
from fairmesh._cluster import spread
from fairmesh._fairmesh import Analysis, Frame, Results, Scenario
from fairmesh._progress import Progress, reporter

if TYPE_CHECKING:
    from distributed import Client

Options = Mapping[str, float]
Folder = str | os.PathLike[str]


def run(
    scenario: Scenario,
    control: str | None = None,
    *,
    seed: int = 1,
    options: Options | None = None,
    sample: str | None = None,
    store: Folder | None = None,
    islands: bool = False,
    threads: int | None = None,
    client: Client | None = None,
    progress: Progress = None,
) -> Results:
    """Runs a scenario once.

    control: name with variants, such as "pfrc+bursts"; the scenario's own by default.
    options: parameters of the control, such as {"epoch": 5}.
    sample: interval of the curves, such as "100 ms"; no curves by default.
    store: folder from which the run is taken, and to which it is added.
    islands: True to run parts of the mesh that nothing joins as jobs of their own (docs/city.md).
    threads: with `islands`, the number of concurrent runs; all cores by default.
    client: with `islands`, a Dask client for the runs.
    """
    if islands:
        city = _fairmesh.City(
            scenario, control=control, seed=seed, options=dict(options or {}), sample=sample, store=store
        )
        with reporter(progress, "simulating islands") as report:
            if client is None:
                return city.run(threads=threads, progress=report)
            job = city.job()

            def call(islands: Sequence[int]) -> tuple[object, ...]:
                return _fairmesh.run_islands, job, list(islands), _fairmesh.__revision__

            spread(client, f"island-{id(city)}", city.missing(), call, city.put, report)
            return city.merged()
    return _fairmesh.run(
        scenario,
        control=control,
        seed=seed,
        options=dict(options or {}),
        sample=sample,
        store=store,
        progress=None,
    )


def compare(
    scenario: Scenario,
    controls: str | Iterable[str],
    *,
    seeds: int | str | range = 5,
    options: Options | None = None,
    sample: str | None = None,
    optimum: bool = False,
    threads: int | None = None,
    store: Folder | None = None,
    progress: Progress = None,
) -> Results:
    """Runs a scenario under several controls with the same seeds, on all cores.

    controls: names, such as ["fifo", "pfrc"].
    seeds: 10 for the seeds 1 to 10; "11..=20" or range(11, 21) for others.
    options: parameters of controls, such as {"epoch": 5} for all that have it, {"pfrc.epoch": 5} for one.
    sample: interval of the curves, such as "100 ms"; no curves by default.
    optimum: True to search the optimum first; the summary then has measures relative to it.
    threads: number of concurrent runs; all cores by default.
    store: folder from which runs are taken, and to which they are added.
    progress: True, False or a function of the completed and the total number of runs; a bar of tqdm by default
        if it is installed and the output is a terminal or a notebook.
    """
    names = [controls] if isinstance(controls, str) else list(controls)
    with reporter(progress, "comparing") as report:
        return _fairmesh.compare(
            scenario,
            names,
            seeds=seeds,
            options=dict(options or {}),
            sample=sample,
            optimum=optimum,
            threads=threads,
            store=store,
            progress=report,
        )


def optimum(
    scenario: Scenario,
    *,
    per: str | None = None,
    threads: int | None = None,
    store: Folder | None = None,
    progress: Progress = None,
) -> Analysis:
    """Searches the max-min rates that the simulator itself carries (docs/models/optimum.md).

    per: "flow" or "subscriber"; subscribers by default if the scenario has any.
    store: folder from which the optimum is taken, and to which it is added.
    """
    with reporter(progress, "searching the optimum") as report:
        return _fairmesh.optimum(scenario, per=per, threads=threads, store=store, progress=report)


def capacity(scenario: Scenario) -> Analysis:
    """Computes the rates of flows by the analytic models and each of their criteria."""
    return _fairmesh.capacity(scenario)


def region(
    scenario: Scenario, group: str | Iterable[str] = (), *, utilization: float = 1.0, retry_limits: bool = False
) -> Analysis:
    """Computes the achievable rate region of the DCF between two groups of flows.

    The model is in docs/models/region.md.

    group: names of the flows of one group; by default the flow that crosses the most congested queue. All others are
        the other group.
    utilization: greatest fraction of time in which a queue may be busy.
    retry_limits: True to give frames up at the scenario's retry limits.
    """
    names = [group] if isinstance(group, str) else list(group)
    return _fairmesh.region(scenario, group=names, utilization=utilization, retry_limits=retry_limits)


def read_flent(path: Folder) -> Frame:
    """Reads the series of a data file of Flent as a frame like `Results.series`.

    Throughputs become `goodput_bps` and delays `rtt_s`; a series with another unit keeps it, and `quantity` is the unit.
    `control` is the title of the measurement.
    """
    from fairmesh import _flent

    return _flent.read(path)
