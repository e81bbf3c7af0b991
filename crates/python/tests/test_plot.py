"""Figures: what is drawn is what the frames have."""

from __future__ import annotations

from pathlib import Path

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
    frame = fairmesh.sweep(fairmesh.Scenario.chain(2, duration="2 s"), {"radio.rts": [False, True]}, seeds=2)
    axes = [
        plot.goodput(results),
        plot.cdf(results),
        plot.cdf(results.flows, "delay_mean_s"),
        plot.tradeoff(results),
        plot.series(results),
        plot.sweep(frame, "radio.rts"),
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


def test_what_cannot_be_drawn_is_named(results: Results) -> None:
    with pytest.raises(fairmesh.SettingError, match="there is no column speed; expected one of control"):
        plot.cdf(results, "speed")
    with pytest.raises(fairmesh.SettingError, match="no samples of goodput_bps; expected results"):
        plot.series(fairmesh.run(fairmesh.Scenario.chain(1, duration="1 s")))
