"""Figures: what is drawn is what the frames have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")

import pytest
from matplotlib import pyplot

import fairmesh
from fairmesh import Results, plot


@pytest.fixture(autouse=True)
def _close() -> object:
    yield
    pyplot.close("all")


def test_bars_have_the_means_and_intervals(results: Results) -> None:
    ax = plot.goodput(results)
    bars = ax.containers
    flows = results.flows.to_dicts()
    for control, container in zip(results.controls, [c for c in bars if hasattr(c, "patches")]):
        heights = [p.get_height() for p in container.patches]
        for flow, height in zip(["1->0", "2->0", "3->0"], heights):
            values = [f["goodput_bps"] for f in flows if (f["control"], f["flow"]) == (control, flow)]
            assert height == pytest.approx(sum(values) / len(values) / 1e3)
    legend = ax.get_legend()
    assert legend is not None
    labels = [t.get_text() for t in legend.get_texts()]
    assert labels == ["fair rate", "fifo", "source"] and ax.get_ylabel() == "goodput, kbit/s"
    summary = {(s["control"], s["measure"]): s for s in results.summary.to_dicts()}
    sums = [r["sum_goodput_bps"] for r in results.runs.to_dicts() if r["control"] == "fifo"]
    assert plot._half(sums) == pytest.approx(summary["fifo", "sum_goodput_bps"]["ci95"], rel=1e-3)


def test_every_figure_is_written_as_pdf_and_svg(results: Results, tmp_path: Path) -> None:
    frame = fairmesh.sweep(
        fairmesh.Scenario.chain(2, duration="2 s"), {"radio.rts": [False, True], "radio.queue": [10, 50]}, seeds=2
    )
    axes = [
        plot.goodput(results),
        plot.cdf(results),
        plot.cdf(results.flows, "delay_mean_s"),
        plot.tradeoff(results),
        plot.series(results),
        plot.sweep(frame, "radio.rts"),
        plot.heatmap(frame, "radio.rts", "radio.queue"),
        plot.topology(results),
    ]
    for i, ax in enumerate(axes):
        assert ax.get_xlabel() or i == 0
        for kind in ("pdf", "svg"):
            file = tmp_path / f"{i}.{kind}"
            figure = ax.get_figure(root=True)
            assert figure is not None
            figure.savefig(file)
            assert file.stat().st_size > 3000
    _, own = pyplot.subplots()
    assert plot.tradeoff(results, ax=own) is own
    assert axes[5].get_xlabel() == "radio.rts" and axes[2].get_xlabel() == "delay mean, s"


def test_cells_of_a_heat_map_are_means_over_runs() -> None:
    keys: dict[str, list[Any]] = {"radio.rts": [False, True], "radio.rate": ["2 Mbit/s", "11 Mbit/s"]}
    frame = fairmesh.sweep(fairmesh.Scenario.chain(2, duration="2 s"), keys, controls=["fifo", "source"], seeds=2)
    ax = plot.heatmap(frame, "radio.rate", "radio.rts", control="source", worst=True)
    (image,) = ax.images
    cells = image.get_array()
    assert cells is not None and cells.shape == (2, 2)
    runs: dict[int, list[float]] = {}
    for row in frame.to_dicts():
        if (row["control"], row["radio.rate"], row["radio.rts"]) == ("source", "11 Mbit/s", "false"):
            runs.setdefault(row["seed"], []).append(row["goodput_bps"] / 1e3)
    assert len(runs) == 2 and cells[0][1] == pytest.approx(sum(min(v) for v in runs.values()) / 2)
    assert (ax.get_xlabel(), ax.get_ylabel(), len(ax.texts)) == ("radio.rate", "radio.rts", 4)
    with pytest.raises(fairmesh.SettingError, match="control: is absent, and the frame has several; expected one of fifo"):
        plot.heatmap(frame, "radio.rate", "radio.rts")
    with pytest.raises(fairmesh.SettingError, match="control: there are no runs of pfrc"):
        plot.heatmap(frame, "radio.rate", "radio.rts", control="pfrc")


def test_a_topology_has_airtime_flows_and_rings() -> None:
    stack = fairmesh.Scenario.from_toml(Path(__file__).resolve().parents[3] / "scenarios" / "stack.toml")
    results = fairmesh.compare(stack.with_changes({"duration": "20 s"}), ["fifo", "source"], seeds=1)
    ax = plot.topology(results)
    airtime = [n["airtime_tx"] for n in results.nodes.to_dicts() if n["control"] == "fifo"]
    assert list(ax.collections[0].get_array()) == pytest.approx(airtime)  # type: ignore[arg-type]
    widths = {str(line.get_label()).split(":")[0]: line.get_linewidth() for line in ax.lines}
    assert widths["1->3"] == pytest.approx(4.0, abs=0.1) and widths["4->6"] < 1.5
    legend = ax.get_legend()
    assert legend is not None and "starves" in [t.get_text() for t in legend.get_texts()]
    fair = plot.topology(results, control="source").get_legend()
    assert fair is not None and "starves" not in [t.get_text() for t in fair.get_texts()]
    with pytest.raises(fairmesh.SettingError, match="there are no runs of pfrc; expected one of fifo, source"):
        plot.topology(results, control="pfrc")
    with pytest.raises(fairmesh.SettingError, match="there is no run with seed 3; expected one of 1"):
        plot.topology(results, seed=3)


def test_a_topology_of_many_flows_draws_links(results: Results) -> None:
    ax = plot.topology(fairmesh.run(fairmesh.Scenario.grid(3, 4, duration="2 s")), names=False)
    legend = ax.get_legend()
    assert legend is not None and legend.get_texts()[0].get_text().startswith("goodput of a link: ")
    assert not ax.texts and ax.get_xlabel() == "x, m"


def points(line: Any) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in zip(line.get_xdata(), line.get_ydata())]


def test_a_region_has_its_boundary_and_the_points_of_results(tmp_path: Path) -> None:
    stack = fairmesh.Scenario.from_toml(Path(__file__).resolve().parents[3] / "scenarios" / "stack.toml")
    found = fairmesh.region(stack)
    results = fairmesh.compare(stack.with_changes({"duration": "20 s"}), ["fifo", "source"], seeds=1)
    ax = plot.region(found, results)
    lines = {str(line.get_label()): line for line in ax.lines}
    assert set(lines) == {"achievable", "max-min", "proportional", "fifo", "source"}
    report = found.to_dict()
    assert [x for x, _ in points(lines["achievable"])] == pytest.approx([p[0] / 1e3 for p in report["section_bps"]])
    fair = {f["flow"]: f["rate_bps"] for f in found.flows.to_dicts() if f["criterion"] == "max-min"}
    assert list(fair) == stack.flows["flow"]
    assert points(lines["max-min"])[0] == pytest.approx([min(fair.values()) / 1e3] * 2, rel=0.05)
    fifo, source = points(lines["fifo"])[0], points(lines["source"])[0]
    assert min(fifo) < 0.2 * min(source)
    figure = ax.get_figure(root=True)
    assert figure is not None
    for kind in ("pdf", "svg"):
        figure.savefig(tmp_path / f"region.{kind}")
    with pytest.raises(fairmesh.SettingError, match='group: there is no flow "5->9"'):
        fairmesh.region(stack, "5->9")
    with pytest.raises(fairmesh.SettingError, match="utilization: found 2; expected above 0, at most 1"):
        fairmesh.region(stack, utilization=2)
    with pytest.raises(fairmesh.SettingError, match="analysis: has no region; expected the result of fairmesh.region"):
        plot.region(fairmesh.capacity(stack))
    with pytest.raises(fairmesh.SettingError, match="results: have no flow"):
        plot.region(found, fairmesh.run(fairmesh.Scenario.chain(1, duration="1 s")))


def test_curves_are_drawn_from_results_and_from_files_of_flent(results: Results, tmp_path: Path) -> None:
    lines = plot.series(results).lines
    results.to_flent(tmp_path / "run.flent.gz", control="source")
    measured = plot.series(fairmesh.read_flent(tmp_path / "run.flent.gz")).lines
    drawn = {str(line.get_label()): points(line) for line in lines}
    assert len(drawn) == 6 and len(measured) == 3
    for line in measured:
        wanted = drawn[f"{line.get_label()}, source"]
        assert [y for _, y in points(line)] == pytest.approx([y for _, y in wanted])
    with pytest.raises(fairmesh.SettingError, match="there is no column quantity; expected the columns of results.series"):
        plot.series(results.flows)


def test_missing_data_of_a_plot_are_named(results: Results) -> None:
    with pytest.raises(fairmesh.SettingError, match="there is no column speed; expected one of control"):
        plot.cdf(results, "speed")
    with pytest.raises(fairmesh.SettingError, match="no samples of goodput_bps; expected results"):
        plot.series(fairmesh.run(fairmesh.Scenario.chain(1, duration="1 s")))
