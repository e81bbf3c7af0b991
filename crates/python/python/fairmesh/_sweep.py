"""Sweeps: every combination of some settings, on all cores or on a Dask cluster."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from fairmesh import _fairmesh
from fairmesh._calls import Folder, Options
from fairmesh._cluster import spread
from fairmesh._fairmesh import Frame, Scenario
from fairmesh._progress import Progress, Report, reporter
from fairmesh.errors import SettingError

if TYPE_CHECKING:
    from distributed import Client


def sweep(
    plan: Scenario | Folder | Mapping[str, Any],
    vary: Mapping[str, Sequence[Any]] | None = None,
    *,
    controls: str | Iterable[str] = (),
    seeds: int | str | range | None = None,
    options: Options | None = None,
    folder: Folder | None = None,
    threads: int | None = None,
    client: Client | None = None,
    progress: Progress = None,
) -> Frame:
    """Runs a plan, or a scenario with every combination of the values of some keys.

    Returns one row per run and flow, with a column for each varied key.

    plan: a scenario; or a plan: the path of a file, or a dict with its keys (docs/sweeps.md).
    vary: with a scenario, values by key, such as {"radio.rts": [False, True], "radio.rate": ["2 Mbit/s", "11 Mbit/s"]}.
    controls: with a scenario, names; the scenario's own by default. `control.OPTION` is a key, too.
    seeds: as in `compare`; 5 by default, or those of the plan.
    folder: store of the runs; a sweep that was interrupted continues there. Several processes may share it.
    client: a Dask client for the runs. Workers of another revision are refused.
    """
    names = [controls] if isinstance(controls, str) else list(controls)
    temporary = tempfile.TemporaryDirectory() if folder is None else nullcontext(folder)
    with temporary as place, reporter(progress, "sweeping") as report:
        checked: _fairmesh.Sweep
        if isinstance(plan, Scenario):
            checked = _fairmesh.Sweep(
                plan,
                dict(vary or {}),
                controls=names,
                seeds=5 if seeds is None else seeds,
                options=dict(options or {}),
                folder=place,
            )
        else:
            for key, given in [("vary", vary), ("controls", names), ("options", options)]:
                if given:
                    raise SettingError(
                        f"{key}: is given beside a plan; expected it in the plan", key=key, expected="it in the plan"
                    )
            whole = _plain(plan) if isinstance(plan, Mapping) else os.fspath(plan)
            checked = _fairmesh.Sweep.of_plan(whole, seeds=seeds, folder=place)
        if client is None:
            checked.fill(threads=threads, progress=report)
        else:
            fill_on_cluster(checked, client, report)
        return checked.frame()


def _plain(plan: Mapping[str, Any]) -> dict[str, Any]:
    """A plan without objects of Python: as a file would have it."""
    whole: dict[str, Any] = _lists(plan)
    seeds = whole.get("seeds")
    if isinstance(seeds, range):
        whole["seeds"] = f"{seeds.start}..{seeds.stop}"
    return whole


def _lists(value: Any) -> Any:
    if isinstance(value, Scenario):
        return _without_none(json.loads(value.__reduce__()[1][0]))
    if isinstance(value, Mapping):
        return {k: v if k == "seeds" else _lists(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [_lists(v) for v in value]
    return value


def _without_none(state: list[dict[str, Any]]) -> dict[str, Any]:
    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: clean(v) for k, v in value.items() if v is not None}
        return [clean(v) for v in value] if isinstance(value, list) else value

    source, changes = state
    return {"file": source["file"], "text": source["text"], "changes": clean(changes)}


def fill_on_cluster(plan: _fairmesh.Sweep, client: Client, report: Report | None) -> None:
    """Lets the workers of a cluster make the missing runs, each stored as it arrives."""
    plan.check()

    def call(places: Sequence[int]) -> tuple[Any, ...]:
        return _fairmesh.run_jobs, [plan.job(p) for p in places], _fairmesh.__revision__

    while places := plan.missing():
        spread(client, f"sweep-{id(plan)}", places, call, plan.put, report)
