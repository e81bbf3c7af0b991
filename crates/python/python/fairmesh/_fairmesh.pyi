"""Types of the compiled module."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, final

from typing_extensions import Self

__all__ = [
    "Analysis",
    "City",
    "Frame",
    "Results",
    "Scenario",
    "Sweep",
    "__revision__",
    "__version__",
    "capacity",
    "compare",
    "controls",
    "measures",
    "optimum",
    "region",
    "register",
    "run",
    "run_islands",
    "run_jobs",
]

__version__: str
__revision__: str

@final
class Frame:
    """A table of results.

    pandas, polars, DuckDB and pyarrow read it without a copy (`__arrow_c_stream__`).
    """

    @staticmethod
    def _of(columns: dict[str, list[Any]]) -> Frame: ...
    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Writes the table to a Parquet file."""
    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
    @property
    def units(self) -> dict[str, str]:
        """Unit of each column that has one."""
    def __len__(self) -> int: ...
    def __getitem__(self, name: str, /) -> list[Any]:
        """Values of a column."""
    def to_dict(self) -> dict[str, list[Any]]:
        """Lists of values by column."""
    def to_dicts(self) -> list[dict[str, Any]]:
        """One dict per row."""
    def row(self, index: int) -> dict[str, Any]:
        """One row as a dict."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Arrow's C stream interface; the requested schema is ignored, as the interface allows."""
    def _repr_html_(self) -> str: ...

@final
class Scenario:
    """A mesh with its radios, flows and control.

    Keys are those of scenario files (docs/scenarios.md).
    """

    @classmethod
    def from_toml(cls, source: str | os.PathLike[str], *, name: str = "scenario") -> Scenario:
        """Reads a scenario file in TOML, or a text in that format (a string with a line break)."""
    @classmethod
    def from_map(
        cls,
        source: str | os.PathLike[str],
        *,
        gateways: list[str] = ...,
        flows: str | None = None,
        flow_count: int | None = None,
        connections: int | None = None,
        subscribers: bool = False,
        phy: str | None = None,
        rate: str | None = None,
        width: str | None = None,
        streams: int | None = None,
        channel: int | None = None,
        metric: str | None = None,
        graph: str | None = None,
        duration: str | None = None,
        warmup: str | None = None,
        name: str = "map",
    ) -> Scenario:
        """Reads a map: NetJSON NetworkGraph or meshviewer.json, a path or a text."""
    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, name: str = "scenario") -> Scenario:
        """Builds a scenario from nested dicts and lists, with the keys of a scenario file."""
    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        *,
        gateway: Any | None = None,
        flows: str = "up",
        duration: str = "60 s",
        position: str = "pos",
        propagation: bool = False,
        changes: dict[str, Any] | None = None,
        name: str | None = None,
    ) -> Scenario:
        """Builds the mesh of a networkx Graph or DiGraph: edges are links, or follow from positions."""
    @classmethod
    def _from_document(cls, document: Mapping[str, Any], changes: dict[str, Any], name: str) -> Scenario: ...
    @classmethod
    def chain(
        cls,
        hops: int,
        *,
        spacing: str | None = None,
        gateway: int = 0,
        flows: str = "up",
        duration: str = "60 s",
    ) -> Scenario:
        """Builds a line of `hops` + 1 nodes, 0 to `hops`, with a flow for each node but the gateway."""
    @classmethod
    def grid(
        cls,
        rows: int,
        columns: int,
        *,
        spacing: str | None = None,
        gateway: int = 0,
        flows: str = "up",
        duration: str = "60 s",
    ) -> Scenario:
        """Builds rows of nodes, 0 in the corner, with a flow for each node but the gateway."""
    @classmethod
    def random(
        cls,
        nodes: int,
        *,
        width: str,
        height: str | None = None,
        seed: int = 1,
        gateway: int = 0,
        flows: str = "up",
        duration: str = "60 s",
    ) -> Scenario:
        """Builds a connected mesh of nodes at random places, with a flow for each other node."""
    @property
    def name(self) -> str:
        """Name of the scenario."""
    @property
    def description(self) -> str:
        """Description of the scenario in words."""
    @property
    def duration(self) -> float:
        """Simulated time, s."""
    @property
    def warmup(self) -> float:
        """Start of the measured interval, s."""
    @property
    def control(self) -> str:
        """Name of the scenario's own control."""
    @property
    def notes(self) -> list[str]:
        """Assumptions and omissions of the import, a sentence each."""
    @property
    def nodes(self) -> Frame:
        """Nodes: name, position, kind."""
    @property
    def flows(self) -> Frame:
        """Flows: name, ends, hops, weight."""
    def with_changes(self, changes: dict[str, Any]) -> Scenario:
        """Returns a changed copy.

        All keys are set before the scenario is checked, so they may depend on each other.
        """
    def __getitem__(self, key: str, /) -> Any:
        """Value of a key as written; `KeyError` if the scenario leaves it at its default."""
    def __setitem__(self, key: str, value: Any, /) -> None: ...
    def __contains__(self, key: str, /) -> bool: ...
    def to_dict(self) -> dict[str, Any]:
        """The scenario as nested dicts and lists, with the keys of a scenario file."""
    def to_toml(self) -> str:
        """The scenario as the text of a scenario file, with all changes."""
    def to_netjson(
        self,
        path: str | os.PathLike[str],
        results: Results | None = None,
        *,
        control: str | None = None,
        seed: int | None = None,
    ) -> None:
        """Writes a NetJSON NetworkGraph, with the measures of a run in `properties`."""
    def __copy__(self) -> Scenario: ...
    def __deepcopy__(self, _memo: Any) -> Scenario: ...
    @classmethod
    def _from_state(cls, state: str) -> Scenario: ...
    def _repr_html_(self) -> str: ...

@final
class Results:
    """Runs of one scenario under one or more controls and seeds."""

    @property
    def scenario(self) -> str:
        """Name of the scenario."""
    @property
    def controls(self) -> list[str]:
        """Names of the controls, in the requested order."""
    @property
    def seeds(self) -> list[int]:
        """The seeds."""
    @property
    def notes(self) -> list[str]:
        """Assumptions and warnings, a sentence each."""
    @property
    def flows(self) -> Frame:
        """One row per control, seed and flow."""
    @property
    def runs(self) -> Frame:
        """One row per control and seed, with the measures over all flows."""
    @property
    def nodes(self) -> Frame:
        """One row per control, seed and node."""
    @property
    def series(self) -> Frame:
        """One row per control, seed, quantity, subject and instant; empty without `sample`."""
    @property
    def decisions(self) -> Frame:
        """One row per control, seed and decision of the control."""
    @property
    def summary(self) -> Frame:
        """One row per control and measure: mean and 95 % interval over the seeds."""
    def to_dict(self) -> dict[str, Any]:
        """The object that `fairmesh compare --json` prints."""
    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Writes all runs to one Parquet file: flows, and the whole record of each run."""
    @classmethod
    def read_parquet(cls, path: str | os.PathLike[str]) -> Results:
        """Reads a file of `to_parquet`."""
    def to_flent(
        self, path: str | os.PathLike[str], *, control: str | None = None, seed: int | None = None
    ) -> None:
        """Writes the curves of a run to a file for Flent (`.flent.gz`); results need `sample`."""
    def records(self) -> list[dict[str, Any]]:
        """The record of each run, as `fairmesh run --json` prints it."""
    def _repr_html_(self) -> str: ...

@final
class Analysis:
    """Rates of flows that a search or the analytic models give."""

    @property
    def flows(self) -> Frame:
        """Rates by flow."""
    def to_dict(self) -> dict[str, Any]:
        """The object that the command prints with `--json`."""
    def _repr_html_(self) -> str: ...

@final
class Sweep:
    """All runs of a sweep, and the store with the complete ones."""

    def __new__(
        cls,
        scenario: Scenario,
        vary: dict[str, Any],
        *,
        controls: list[str],
        seeds: int | str | range,
        options: dict[str, float] | None,
        folder: str | os.PathLike[str],
    ) -> Self: ...
    @staticmethod
    def of_plan(
        plan: str | os.PathLike[str] | dict[str, Any], *, seeds: int | str | range | None, folder: str | os.PathLike[str]
    ) -> Sweep:
        """A plan: the path of a file, a dict with its keys, or the JSON that the command line wrote."""
    @property
    def keys(self) -> list[str]:
        """The varied keys, in the order of the frame's columns."""
    def __len__(self) -> int: ...
    def check(self) -> None:
        """Repeats one stored run of each control, and rejects a store with other results."""
    def fill(self, *, threads: int | None, progress: object | None) -> None:
        """Runs the jobs that the store lacks, on all cores or `threads` of them."""
    def missing(self) -> list[int]:
        """Places of the runs that the store lacks."""
    def job(self, index: int) -> str:
        """A run as JSON, for another process or machine."""
    def put(self, index: int, record: str) -> None:
        """Adds the record of a run, as JSON; it is on disk when this returns."""
    def frame(self) -> Frame:
        """One row per run and flow, with a column for each varied key."""

@final
class City:
    """The islands of a scenario, and the runs of them that are complete."""

    def __new__(
        cls,
        scenario: Scenario,
        *,
        control: str | None,
        seed: int,
        options: dict[str, float] | None,
        sample: str | None,
        store: str | os.PathLike[str] | None,
    ) -> Self: ...
    def __len__(self) -> int: ...
    def report(self) -> list[str]:
        """One line on the islands, and one per pair of gateways that are run together."""
    def sizes(self) -> list[int]:
        """Number of nodes of each island."""
    def missing(self) -> list[int]:
        """Numbers of the islands without a run in the store, the largest first."""
    def job(self) -> str:
        """The scenario and its settings as JSON, for `run_islands` of another process."""
    def put(self, island: int, record: str) -> None:
        """Adds the record of an island, as JSON."""
    def run(self, *, threads: int | None, progress: object | None) -> Results:
        """Runs all islands on this machine."""
    def merged(self) -> Results:
        """Results of the whole, when the record of each island was added."""

def run_islands(job: str, islands: Sequence[int], revision: str) -> list[str]:
    """Runs some islands of a job and returns their records. For workers of the same revision."""

def run_jobs(jobs: Sequence[str], revision: str) -> list[str]:
    """Makes runs of a sweep and returns their records. For workers of the same revision."""

def run(
    scenario: Scenario,
    *,
    control: str | None,
    seed: int,
    options: dict[str, float] | None,
    sample: str | None,
    store: str | os.PathLike[str] | None,
    progress: object | None,
) -> Results:
    """Runs a scenario once."""

def compare(
    scenario: Scenario,
    controls: list[str],
    *,
    seeds: int | str | range,
    options: dict[str, float] | None,
    sample: str | None,
    optimum: bool,
    threads: int | None,
    store: str | os.PathLike[str] | None,
    progress: object | None,
) -> Results:
    """Runs a scenario under several controls and seeds."""

def optimum(
    scenario: Scenario,
    *,
    per: str | None,
    threads: int | None,
    store: str | os.PathLike[str] | None,
    progress: object | None,
) -> Analysis:
    """Searches the max-min rates that the simulator itself carries."""

def capacity(scenario: Scenario) -> Analysis:
    """Computes the rates that the analytic models allow."""

def region(scenario: Scenario, *, group: list[str], utilization: float, retry_limits: bool) -> Analysis:
    """Computes the achievable rate region between two groups of flows."""

def register(class_: type, revision: str) -> None:
    """Registers a class as a mechanism; it replaces an earlier one of the same name."""

def controls() -> Frame:
    """All controls: name, origin, one line each."""

def measures() -> Frame:
    """Names, units and definitions of all measures: a frame with one row per measure."""
