"""Command `python -m fairmesh fill`: fills the store of a sweep on a Dask cluster.

`fairmesh sweep --on ADDRESS` starts it.
"""

from __future__ import annotations

import argparse
import sys

from fairmesh import _fairmesh
from fairmesh._progress import reporter
from fairmesh._sweep import fill_on_cluster
from fairmesh.errors import FairmeshError


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status; errors are one line on standard error."""
    parser = argparse.ArgumentParser(prog="python -m fairmesh")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    fill = commands.add_parser("fill", help="fill the store of a sweep on a Dask cluster")
    fill.add_argument("plan", metavar="PLAN", help="plan file")
    fill.add_argument("store", metavar="STORE", help="folder of the runs")
    fill.add_argument("--on", metavar="ADDRESS", required=True, help="scheduler, such as tcp://10.0.0.1:8786")
    fill.add_argument("--revision", metavar="REVISION", help="revision that this package must have")
    fill.add_argument("--wait", metavar="SECONDS", type=float, default=10.0, help="time to wait for the scheduler; 10 s")
    args = parser.parse_args(arguments)
    if args.revision not in (None, _fairmesh.__revision__):
        return _wrong(f"the package has revision {_fairmesh.__revision__}; expected {args.revision}")
    try:
        from distributed import Client
    except ModuleNotFoundError:
        return _wrong("distributed is not installed; expected `pip install distributed`")
    try:
        client = Client(args.on, timeout=args.wait)
    except (OSError, TimeoutError, ValueError) as e:
        reason = str(e).splitlines()[0] if str(e) else type(e).__name__
        return _wrong(f"--on: {args.on}: {reason}; expected the address of a running scheduler")
    try:
        with client, reporter(None, "sweeping") as report:
            sweep = _fairmesh.Sweep.of_plan(args.plan, seeds=None, folder=args.store)
            fill_on_cluster(sweep, client, report)
    except FairmeshError as e:
        return _wrong(str(e))
    except KeyboardInterrupt:
        return _wrong("interrupted; complete runs are in the store")
    return 0


def _wrong(problem: str) -> int:
    print(f"fairmesh: {problem}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
