"""Results in files of other programs: Parquet, NetJSON, Flent."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import flent.resultset
import pandas
import pyarrow.parquet
import pytest

import fairmesh
from fairmesh import FileError, Results, Scenario


def test_results_come_back_from_one_parquet_file(chain: Scenario, results: Results, tmp_path: Path) -> None:
    file = tmp_path / "new" / "runs.parquet"
    results.to_parquet(file)
    back = Results.read_parquet(file)
    assert back.to_dict() == results.to_dict() and back.records() == results.records()
    assert back.series.to_dict() == results.series.to_dict()
    table = pandas.read_parquet(file)
    assert list(table.columns) == [*results.flows.columns, "record"]
    assert table.goodput_bps.to_list() == results.flows["goodput_bps"]


def test_the_optimum_and_the_notes_are_in_the_file(tmp_path: Path) -> None:
    mesh = Scenario.chain(2, duration="4 s")
    results = fairmesh.compare(mesh, "fifo", seeds=1, optimum=True)
    results.to_parquet(tmp_path / "runs.parquet")
    back = Results.read_parquet(tmp_path / "runs.parquet")
    assert "min_over_optimum" in back.summary["measure"] and back.notes == results.notes


def test_a_file_of_another_schema_is_refused_by_name(results: Results, tmp_path: Path) -> None:
    file = tmp_path / "frame.parquet"
    results.runs.to_parquet(file)
    with pytest.raises(FileError, match="column flow: found no such column; expected BYTE_ARRAY, as in a file of") as e:
        Results.read_parquet(file)
    assert (e.value.file, e.value.key) == (str(file), "column flow")
    results.to_parquet(file)
    table = pyarrow.parquet.read_table(file)
    pyarrow.parquet.write_table(table.append_column("extra", [table["seed"].to_pylist()]), file)
    with pytest.raises(FileError, match="column extra: found INT64; expected no such column"):
        Results.read_parquet(file)
    with pytest.raises(FileError, match="there is no such file; expected a file of `Results.to_parquet`"):
        Results.read_parquet(tmp_path / "none.parquet")


def test_frames_are_written_as_parquet(results: Results, tmp_path: Path) -> None:
    results.summary.to_parquet(tmp_path / "summary.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "summary.parquet").to_pylist() == results.summary.to_dicts()


def test_netjson_has_the_measures_and_reads_back_as_a_map(chain: Scenario, results: Results, tmp_path: Path) -> None:
    file = tmp_path / "mesh.json"
    chain.to_netjson(file, results, control="source", seed=2)
    graph: dict[str, Any] = json.loads(file.read_text())
    run = next(r for r in results.runs.to_dicts() if (r["control"], r["seed"]) == ("source", 2))
    assert graph["type"] == "NetworkGraph" and graph["properties"]["fingerprint"] == run["fingerprint"]
    nodes = {n["id"]: n["properties"] for n in graph["nodes"]}
    airtime = {n["node"]: n["airtime_tx"] for n in results.nodes.to_dicts() if (n["control"], n["seed"]) == ("source", 2)}
    assert {n: p["airtime_tx"] for n, p in nodes.items()} == airtime
    assert [f["flow"] for f in nodes["3"]["flows"]] == ["3->0"]
    total = sum(link["properties"]["goodput_bps"] for link in graph["links"] if link["target"] == "0")
    assert total == pytest.approx(run["sum_goodput_bps"])
    back = Scenario.from_map(file, flows="up")
    assert sorted(back.flows["flow"]) == ["1->0", "2->0", "3->0"] and sorted(back.flows["hops"]) == [1, 2, 3]
    chain.to_netjson(file)
    assert "flows" not in json.loads(file.read_text())["nodes"][0]["properties"]


def test_runs_that_are_not_there_are_named(chain: Scenario, results: Results, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    with pytest.raises(fairmesh.SettingError, match="control: there are no runs of pfrc; expected one of fifo, source"):
        chain.to_netjson(file, results, control="pfrc")
    with pytest.raises(fairmesh.SettingError, match="seed: there is no run with seed 7; expected one of 1, 2"):
        chain.to_netjson(file, results, seed=7)
    with pytest.raises(fairmesh.SettingError, match='results: have no node "4"; expected runs of the scenario chain'):
        Scenario.chain(4).to_netjson(file, results)
    with pytest.raises(fairmesh.SettingError, match="results: have no curves; expected results of a call with `sample`"):
        fairmesh.run(chain).to_flent(tmp_path / "x.flent.gz")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("flows", "test"), [("up", "tcp_nup"), ("down", "tcp_ndown"), ("both", "rrul_be_nflows")])
def test_flent_reads_the_curves_of_a_run(flows: str, test: str, tmp_path: Path) -> None:
    mesh = Scenario.chain(2, flows=flows, duration="3 s")
    run = fairmesh.run(mesh, "source", seed=5, sample="200 ms")
    file = tmp_path / "run.flent.gz"
    run.to_flent(file)
    data = flent.resultset.load(str(file))
    assert (data.meta("NAME"), data.meta("TITLE")) == (test, "chain source seed 5")
    curves = [r for r in run.series.to_dicts() if r["quantity"] == "goodput_bps"]
    assert data.x_values == list(dict.fromkeys(r["time_s"] for r in curves))
    kind = " BE" if flows == "both" else ""
    stream = f"TCP {'download' if flows == 'down' else 'upload'}{kind}::1"
    subject = data.meta("SERIES_META")[stream]["FAIRMESH_SUBJECT"]
    wanted = [r["value"] / 1e6 for r in curves if r["subject"] == subject]
    assert data.series(stream) == pytest.approx(wanted) and sum(wanted) > 0
    # Flent takes a result without raw values for an empty one, and draws nothing.
    assert data and [v for _, v in data.raw_series(stream)] == pytest.approx(wanted)
    back = fairmesh.read_flent(file)
    seen = {(r["quantity"], r["subject"], r["time_s"]): r["value"] for r in back.to_dicts()}
    for row in run.series.to_dicts():
        assert seen[row["quantity"], row["subject"], row["time_s"]] == pytest.approx(row["value"])
    assert set(back["control"]) == {"source"} and set(back["seed"]) == {5}
    again = tmp_path / "again.flent.gz"
    run.to_flent(again, control="source", seed=5)
    assert again.read_bytes() == file.read_bytes()


def test_files_that_flent_writes_are_read(tmp_path: Path) -> None:
    data = flent.resultset.ResultSet(NAME="tcp_nup", TITLE="street", DATA_FILENAME="street")
    data.x_values = [0.0, 0.2, 0.4]
    data.add_result("TCP upload::1", [1.5, None, 2.0])
    data.add_result("Ping (ms) ICMP", [12.0, 30.0, 18.0])
    data.meta("SERIES_META", {"TCP upload::1": {"UNITS": "Mbits/s"}})
    file = tmp_path / "street.flent.gz"
    data.dump_file(str(file))
    rows = fairmesh.read_flent(file).to_dicts()
    street = {"control": "street", "seed": 0}
    assert rows[1] == {**street, "quantity": "rtt_s", "subject": "Ping (ms) ICMP", "time_s": 0.2, "value": 0.03}
    assert rows[3:] == [
        {**street, "quantity": "goodput_bps", "subject": "TCP upload::1", "time_s": 0.0, "value": 1.5e6},
        {**street, "quantity": "goodput_bps", "subject": "TCP upload::1", "time_s": 0.4, "value": 2e6},
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x1f\x8b broken", "cannot be read"),
        (b"text", "is no JSON"),
        (b"[]", "has no object"),
        (gzip.compress(b'{"version": 9}'), "version: found 9; expected at most 4"),
        (b'{"version": 4, "metadata": {}}', "x_values: is absent; expected a data file of Flent"),
        (b'{"metadata": {}, "x_values": [1], "results": {"a": [1, 2]}}', "results.a: is no list of the length of x_values"),
        (b'{"metadata": {}, "x_values": [1], "results": {"a": ["b"]}}', "results.a: found 'b' at 1; expected numbers"),
        (b'{"metadata": {}, "x_values": [], "results": {}}', "results: has no values"),
    ],
)
def test_other_files_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "x.flent.gz"
    file.write_bytes(content)
    with pytest.raises(FileError) as e:
        fairmesh.read_flent(file)
    assert str(e.value).startswith(f"{file}: ") and message in str(e.value), str(e.value)
