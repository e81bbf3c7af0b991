"""Curves in Flent's data format, version 4: JSON, compressed by gzip.

Source: https://flent.org/data-format.html and flent/resultset.py.
"""

from __future__ import annotations

import gzip
import json
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fairmesh._fairmesh import Frame, __version__
from fairmesh.errors import FileError, SettingError

_VERSION = 4
# Simulated time has no date; a fixed one gives equal files for equal runs.
_EPOCH = "1970-01-01T00:00:00.000000Z"
_EXPECTED = "a data file of Flent (.flent.gz)"
# By unit of a series: quantity of the frame, and factor.
_QUANTITIES = {"Mbits/s": ("goodput_bps", 1e6), "ms": ("rtt_s", 1e-3), "B": ("cwnd_bytes", 1.0)}


def write(path: str | os.PathLike[str], record: Mapping[str, Any]) -> None:
    """Writes the curves of a record of a run. Flows are the streams of a test of Flent."""
    series = record["series"]
    if not series["time_s"]:
        problem = "have no curves; expected results of a call with `sample`"
        raise SettingError(f"results: {problem}", key="results", expected="results of a call with `sample`")
    ends = Counter(end for f in record["flows"] for end in (f["from"], f["to"]))
    # The node at which most flows begin or end.
    server = ends.most_common(1)[0][0]
    names, test, parameters = _streams(record["flows"], server)
    results: dict[str, list[float | None]] = {}
    meta: dict[str, dict[str, Any]] = {}

    def add(name: str, quantity: str, subject: str, unit: str, factor: float, values: Sequence[float | None]) -> None:
        if values:
            results[name] = [None if v is None or not math.isfinite(v) else v * factor for v in values]
            meta[name] = {"UNITS": unit, "FAIRMESH_QUANTITY": quantity, "FAIRMESH_SUBJECT": subject}

    for i, flow in enumerate(record["flows"]):
        add(names[i], "goodput_bps", flow["name"], "Mbits/s", 1e-6, series["goodput_bps"][i])
        add(f"Limit::{flow['name']}", "limit_bps", flow["name"], "Mbits/s", 1e-6, _of(series["limit_bps"], i))
        add(f"Window::{flow['name']}", "cwnd_bytes", flow["name"], "B", 1.0, _of(series["cwnd_bytes"], i))
    for node, values in zip(record["nodes"], series["queue_packets"]):
        add(f"Queue::{node['name']}", "queue_packets", node["name"], "packets", 1.0, values)
    for way in ("upload", "download"):
        streams = [results[n] for n in names if n.startswith(f"TCP {way}")]
        sums = [sum(v or 0.0 for v in at) for at in zip(*streams)]
        if streams:
            add(f"TCP {way} sum", "sum_goodput_bps", way, "Mbits/s", 1.0, sums)
            add(f"TCP {way} avg", "mean_goodput_bps", way, "Mbits/s", 1.0 / len(streams), sums)
    times = series["time_s"]
    # Flent draws and counts raw values; their times are those since T0.
    raw = {
        name: [{"t": t, "val": v} for t, v in zip(times, values) if v is not None] for name, values in results.items()
    }
    document = {
        "version": _VERSION,
        "x_values": times,
        "results": results,
        "raw_values": raw,
        "metadata": {
            "NAME": test,
            "TITLE": f"{record['scenario']} {record['control']} seed {record['seed']}",
            "TIME": _EPOCH,
            "T0": _EPOCH,
            "LENGTH": record["duration_s"],
            "TOTAL_LENGTH": record["duration_s"],
            "STEP_SIZE": times[1] - times[0] if len(times) > 1 else record["duration_s"],
            "HOST": server,
            "HOSTS": [server],
            "LOCAL_HOST": "fairmesh",
            "NOTE": "simulated by fairmesh",
            "IP_VERSION": 4,
            "TEST_PARAMETERS": parameters,
            "SERIES_META": meta,
            "FAIRMESH_VERSION": __version__,
            "FAIRMESH_CONTROL": record["control"],
            "FAIRMESH_SEED": record["seed"],
            "FAIRMESH_FINGERPRINT": record["fingerprint"],
        },
    }
    text = json.dumps(document, indent=2, sort_keys=True, allow_nan=False).encode()
    temporary = f"{os.fspath(path)}.part-{os.getpid()}"
    try:
        with open(temporary, "wb") as file:
            file.write(gzip.compress(text, mtime=0))
        os.replace(temporary, path)
    except OSError as e:
        if os.path.exists(temporary):
            os.remove(temporary)
        problem = f"cannot be written ({e.strerror}); expected a place to write results to"
        raise FileError(f"{path}: {problem}", file=os.fspath(path), expected="a place to write results to") from None


def read(path: str | os.PathLike[str]) -> Frame:
    """Reads a file for `read_flent`."""
    document = _document(path)
    meta = _part(path, document, "metadata", dict)
    times = _part(path, document, "x_values", list)
    curves = _part(path, document, "results", dict)
    control = meta.get("FAIRMESH_CONTROL") or meta.get("TITLE") or meta.get("NAME") or "flent"
    seed = meta.get("FAIRMESH_SEED") or 0
    columns: dict[str, list[Any]] = {c: [] for c in ("control", "seed", "quantity", "subject", "time_s", "value")}
    for name, values in curves.items():
        about = (meta.get("SERIES_META") or {}).get(name) or {}
        unit = about.get("UNITS") or ("ms" if name.startswith("Ping (ms)") else "Mbits/s" if "TCP" in name else "")
        quantity, factor = _QUANTITIES.get(unit, (unit or "value", 1.0))
        quantity, subject = about.get("FAIRMESH_QUANTITY") or quantity, about.get("FAIRMESH_SUBJECT") or name
        if not isinstance(values, list) or len(values) != len(times):
            raise _wrong(path, f"results.{name}", "is no list of the length of x_values", f"{len(times)} values")
        for time, value in zip(times, values):
            if value is None:
                continue
            if not all(isinstance(v, (int, float)) for v in (time, value)):
                raise _wrong(path, f"results.{name}", f"found {value!r} at {time!r}", "numbers and null")
            row = (control, seed, quantity, subject, float(time), value * factor)
            for column, cell in zip(columns.values(), row):
                column.append(cell)
    if not columns["value"]:
        raise _wrong(path, "results", "has no values", _EXPECTED)
    return Frame._of(columns)


def _streams(flows: Sequence[Mapping[str, Any]], server: str) -> tuple[list[str], str, dict[str, str]]:
    """Names of the flows' series, the test of Flent that has such series, and its parameters."""
    up = [f["from"] != server for f in flows]
    test = "tcp_nup" if all(up) else "tcp_ndown" if not any(up) else "rrul_be_nflows"
    kind = " BE" if test == "rrul_be_nflows" else ""
    counts = {"upload": 0, "download": 0}
    names = []
    for is_up in up:
        way = "upload" if is_up else "download"
        counts[way] += 1
        names.append(f"TCP {way}{kind}::{counts[way]}")
    return names, test, {f"{way}_streams": str(n) for way, n in counts.items() if n}


def _of(curves: Sequence[Sequence[float]], i: int) -> Sequence[float]:
    return curves[i] if i < len(curves) else ()


def _document(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            data = file.read()
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except FileNotFoundError:
        raise _wrong(path, None, "there is no such file", _EXPECTED) from None
    except (OSError, EOFError) as e:
        raise _wrong(path, None, f"cannot be read ({e})", _EXPECTED) from None
    try:
        document = json.loads(data)
    except ValueError as e:
        raise _wrong(path, None, f"is no JSON ({e})", _EXPECTED) from None
    if not isinstance(document, dict):
        raise _wrong(path, None, "has no object", _EXPECTED)
    version = document.get("version", 1)
    if not isinstance(version, int) or version > _VERSION:
        raise _wrong(path, "version", f"found {version!r}", f"at most {_VERSION}")
    return document


def _part(path: str | os.PathLike[str], document: Mapping[str, Any], key: str, kind: type) -> Any:
    part = document.get(key)
    if not isinstance(part, kind):
        raise _wrong(path, key, "is absent" if part is None else f"found {type(part).__name__}", _EXPECTED)
    return part


def _wrong(path: str | os.PathLike[str], key: str | None, problem: str, expected: str) -> FileError:
    place = f"{os.fspath(path)}: " + (f"{key}: " if key else "")
    return FileError(f"{place}{problem}; expected {expected}", file=os.fspath(path), key=key, expected=expected)
