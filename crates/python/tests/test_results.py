"""Runs, comparisons, frames and their readers."""

from __future__ import annotations

from pathlib import Path

import pandas
import polars
import pyarrow
import pytest

import fairmesh
from fairmesh import Results, Scenario


def test_frames_have_their_rows_and_units(results: Results) -> None:
    assert (results.controls, results.seeds) == (["fifo", "source"], [1, 2])
    flows = results.flows
    assert len(flows) == 2 * 2 * 3 and len(results.runs) == 4 and len(results.nodes) == 16
    assert flows.units["goodput_bps"] == "bit/s" and "hops" not in flows.units
    assert flows.row(0) == flows.to_dicts()[0] and flows["hops"][:3] == [1, 2, 3]
    total = sum(f["goodput_bps"] for f in flows.to_dicts() if (f["control"], f["seed"]) == ("fifo", 1))
    assert results.runs["sum_goodput_bps"][0] == pytest.approx(total)
    summary = {(s["control"], s["measure"]): s for s in results.summary.to_dicts()}
    assert summary["fifo", "sum_goodput_bps"]["unit"] == "bit/s"
    runs = results.runs.to_dicts()
    assert summary["fifo", "jain"]["mean"] == pytest.approx((runs[0]["jain"] + runs[1]["jain"]) / 2)
    assert set(results.series["quantity"]) >= {"goodput_bps", "queue_packets"}
    with pytest.raises(KeyError, match="no column \"speed\"; expected one of control, seed, flow"):
        flows["speed"]
    with pytest.raises(IndexError):
        flows.row(99)


def test_every_column_is_in_the_table_of_measures(results: Results) -> None:
    known = {m["name"]: m for m in fairmesh.measures().to_dicts()}
    for frame in (results.flows, results.runs, results.nodes, results.series, results.summary, results.decisions):
        for name in frame.columns:
            assert known[name]["definition"], name
            assert frame.units.get(name, "") == known[name]["unit"]


def test_arrow_pandas_and_polars_read_the_same(results: Results) -> None:
    table = pyarrow.table(results.flows)
    field = table.schema.field("goodput_bps")
    assert field.metadata[b"unit"] == b"bit/s" and b"in order" in field.metadata[b"definition"]
    assert table.to_pylist() == results.flows.to_dicts()
    assert polars.DataFrame(results.flows).to_dicts() == results.flows.to_dicts()
    frame = table.to_pandas()
    if hasattr(pandas.DataFrame, "from_arrow"):
        pandas.testing.assert_frame_equal(getattr(pandas.DataFrame, "from_arrow")(results.flows), frame)
    means = frame.groupby(["control", "flow"]).goodput_bps.mean()
    assert means["source"].min() > 0
    empty = pyarrow.table(fairmesh.run(Scenario.chain(1, duration="1 s")).decisions)
    assert empty.num_rows == 0 and empty.column_names[0] == "control"


def test_a_frame_outlives_its_results() -> None:
    def capsule() -> pyarrow.Table:
        return pyarrow.table(fairmesh.run(Scenario.chain(2, duration="1 s")).flows)

    assert capsule().num_rows == 2
    # A capsule without a reader is released with its data.
    fairmesh.run(Scenario.chain(1, duration="1 s")).flows.__arrow_c_stream__()


def test_a_run_is_the_comparisons_run_of_its_seed(chain: Scenario, results: Results) -> None:
    one = fairmesh.run(chain, "source", seed=2)
    at = [(r["control"], r["seed"]) for r in results.runs.to_dicts()].index(("source", 2))
    assert one.runs["fingerprint"][0] == results.runs["fingerprint"][at]
    assert one.to_dict()["results"][0]["control"] == "source"
    assert one.records()[0]["seed"] == 2
    assert fairmesh.compare(chain, "source", seeds=range(2, 3), threads=1).runs["fingerprint"] == one.runs["fingerprint"]


def test_results_are_kept_in_a_store(chain: Scenario, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    calls: list[tuple[int, int]] = []
    first = fairmesh.compare(chain, ["fifo"], seeds="1..=3", store=folder, progress=lambda *p: calls.append(p))
    assert calls[-1] == (3, 3)
    again = fairmesh.compare(chain, ["fifo"], seeds=3, store=folder)
    assert again.runs.to_dicts() == first.runs.to_dicts()
    shard = next(folder.glob("shard-*"))
    shard.write_text(shard.read_text().replace('"revision":"', '"revision":"other-'))
    with pytest.raises(fairmesh.StoreError, match="revision"):
        fairmesh.compare(chain, ["fifo"], seeds=3, store=folder)


def test_options_of_controls(chain: Scenario) -> None:
    plain, other = (fairmesh.run(chain, "pfrc", options=o).runs["fingerprint"] for o in ({}, {"pfrc.epoch": 1}))
    assert plain != other
    with pytest.raises(fairmesh.SettingError, match="no control that runs has a parameter \"epoch\""):
        fairmesh.run(chain, "fifo", options={"epoch": 1})


def test_the_optimum_and_the_models() -> None:
    pair = Scenario.chain(1, duration="20 s")
    best = fairmesh.optimum(pair)
    (flow,) = best.flows.to_dicts()
    assert 0.5 < flow["optimum_bps"] / flow["domains_bps"] < 1.1
    assert best.to_dict()["flows"][0]["optimum_bps"] == flow["optimum_bps"]
    bounds = fairmesh.capacity(pair).flows.to_dicts()
    assert {b["model"] for b in bounds} == {"domains", "cliques"}
    fair = [b for b in bounds if b["criterion"] == "max-min" and not b["rts"] and b["model"] == "domains"]
    assert fair[0]["rate_bps"] == pytest.approx(flow["domains_bps"])


def test_controls_are_listed() -> None:
    listed = {c["control"]: c for c in fairmesh.controls().to_dicts()}
    assert "pfrc+bursts" in listed["pfrc"]["variants"] and listed["fifo"]["about"]


def test_text_and_html_show_the_results(chain: Scenario, results: Results) -> None:
    assert repr(chain) == "<fairmesh.Scenario chain: 4 nodes, 3 flows, 4 s measured from 0.4 s, control fifo>"
    text = repr(results)
    assert text.splitlines()[0] == "chain, seeds 1 to 2" and "worst/fair" in text and "±" in text
    for shown in (results, chain):
        html = shown._repr_html_()
        assert "<svg" in html and "<script" not in html
    assert "source" in results._repr_html_() and "<table" in results.flows._repr_html_()
    assert "12 rows × " in repr(results.flows)


@pytest.mark.parametrize(
    ("call", "key", "expected"),
    [
        (lambda m: fairmesh.compare(m, ["fair"]), "control", "one of"),
        (lambda m: fairmesh.compare(m, ["fifo", "fifo"]), "control", "each once"),
        (lambda m: fairmesh.compare(m, ["fifo"], seeds=0), "seeds", "a number of seeds"),
        (lambda m: fairmesh.compare(m, ["fifo"], seeds="3..1"), "seeds", "a number of seeds"),
        (lambda m: fairmesh.compare(m, ["fifo"], seeds=range(0, 10, 2)), "seeds", "a number of seeds"),
        (lambda m: fairmesh.compare(m, ["fifo"], seeds=[1, 2]), "seeds", "a number of seeds"),  # type: ignore[arg-type]
        (lambda m: fairmesh.run(m, sample="often"), "sample", "a time"),
        (lambda m: fairmesh.run(m, "pfrc", options={"epoch": 1e9}), "options", ""),
        (lambda m: fairmesh.run(m, "pfrc", options={"epoch": "long"}), "options", "a number"),  # type: ignore[dict-item]
        (lambda m: fairmesh.optimum(m, per="house"), "per", "flow or subscriber"),
    ],
)
def test_wrong_settings_are_named(chain: Scenario, call, key, expected) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(fairmesh.SettingError) as e:
        call(chain)
    assert e.value.key == key and (e.value.expected or "").startswith(expected), str(e.value)
