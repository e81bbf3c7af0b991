"""Simulates Wi-Fi meshes under fairness mechanisms.

>>> import fairmesh
>>> mesh = fairmesh.Scenario.chain(3, duration="20 s")
>>> results = fairmesh.compare(mesh, ["fifo", "source"], seeds=3)
>>> results.flows            # read by pandas, polars, DuckDB and pyarrow
"""

from fairmesh import errors, mechanism
from fairmesh._calls import capacity, compare, optimum, read_flent, region, run
from fairmesh._fairmesh import (
    Analysis,
    Frame,
    Results,
    Scenario,
    __revision__,
    __version__,
    controls,
    measures,
)
from fairmesh._sweep import sweep
from fairmesh.errors import (
    FairmeshError,
    FileError,
    MechanismError,
    RunError,
    ScenarioError,
    SettingError,
    StoreError,
)
from fairmesh.mechanism import Mechanism, Needs, Option, register

__all__ = [
    "Analysis",
    "FairmeshError",
    "FileError",
    "Frame",
    "Mechanism",
    "MechanismError",
    "Needs",
    "Option",
    "Results",
    "RunError",
    "Scenario",
    "ScenarioError",
    "SettingError",
    "StoreError",
    "__revision__",
    "__version__",
    "capacity",
    "compare",
    "controls",
    "errors",
    "measures",
    "mechanism",
    "optimum",
    "read_flent",
    "region",
    "register",
    "run",
    "sweep",
]
