"""Figures with matplotlib.

Each function takes results or a frame, draws into `ax` or new axes, and returns the axes.

Controls differ by colour (Okabe and Ito 2008, safe for colour-blind readers) and by hatch, marker or line, so that
figures are legible in black and white.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from fairmesh._fairmesh import Frame, Results
from fairmesh.errors import SettingError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000")
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo", "+++", "---")
MARKERS = "osD^vP*X"
LINES = ("-", "--", "-.", ":")
# Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def goodput(results: Results | Frame, *, ax: Axes | None = None) -> Axes:
    """Bars of the mean goodput of each flow with its 95 % interval, and the fair rate as a line."""
    rows, controls = _rows(results, "flow", "control", "goodput_bps")
    flows = _distinct(rows, "flow")
    ax = _axes(ax, width=max(4.5, 0.35 * len(flows) * max(1, len(controls) / 2)))
    width = 0.8 / len(controls)
    for k, control in enumerate(controls):
        values = [[r["goodput_bps"] / 1e3 for r in rows if (r["control"], r["flow"]) == (control, f)] for f in flows]
        at = [i + (k - (len(controls) - 1) / 2) * width for i in range(len(flows))]
        ax.bar(
            at,
            [fmean(v) for v in values],
            width,
            yerr=[_half(v) for v in values],
            label=control,
            color=_of(COLOURS, k),
            hatch=_of(HATCHES, k),
            edgecolor="white",
            error_kw={"elinewidth": 0.8, "capsize": 1.5},
        )
    fair = {r["flow"]: r["fair_bps"] for r in rows if r.get("fair_bps") is not None}
    for i, flow in enumerate(flows):
        if flow in fair:
            label = "fair rate" if i == 0 else None
            ax.plot([i - 0.45, i + 0.45], [fair[flow] / 1e3] * 2, color="black", linewidth=1, label=label)
    ax.set_xticks(range(len(flows)), flows, rotation=45 if len(flows) > 4 else 0, ha="right" if len(flows) > 4 else "center")
    ax.set_ylabel("goodput, kbit/s")
    ax.legend(frameon=False)
    return ax


def cdf(results: Results | Frame, measure: str = "goodput_bps", *, ax: Axes | None = None) -> Axes:
    """Cumulative distribution of a measure over flows and seeds, a line per control."""
    rows, controls = _rows(results, "control", measure)
    ax = _axes(ax)
    for k, control in enumerate(controls):
        values = sorted(r[measure] for r in rows if r["control"] == control and r[measure] is not None)
        steps = [(i + 1) / len(values) for i in range(len(values))]
        ax.step(values, steps, where="post", label=control, color=_of(COLOURS, k), linestyle=_of(LINES, k))
    ax.set_xlabel(_label(results, measure))
    ax.set_ylabel("fraction of flows and seeds")
    ax.set_ylim(0, 1)
    ax.legend(frameon=False)
    return ax


def tradeoff(results: Results, *, ax: Axes | None = None) -> Axes:
    """Fairness over efficiency, with 95 % intervals.

    Fairness is Jain's index of goodput over due rate, efficiency is the utilization.
    """
    summary = {(s["control"], s["measure"]): s for s in results.summary.to_dicts()}
    ax = _axes(ax)
    for k, control in enumerate(results.controls):
        x, y = (summary.get((control, m)) for m in ("utilization_ratio", "jain_normalized"))
        if x is None or y is None:
            continue
        ax.errorbar(
            x["mean"],
            y["mean"],
            xerr=x["ci95"],
            yerr=y["ci95"],
            label=control,
            color=_of(COLOURS, k),
            marker=MARKERS[k % len(MARKERS)],
            linestyle="none",
            elinewidth=0.8,
        )
    ax.set_xlabel("efficiency: utilization over that at the fair rates")
    ax.set_ylabel("fairness: Jain's index of goodput over due rate")
    ax.legend(frameon=False)
    return ax


def series(results: Results, quantity: str = "goodput_bps", *, seed: int | None = None, ax: Axes | None = None) -> Axes:
    """Curves over time of a sampled quantity, a line per control and flow.

    Results need `sample`.
    """
    rows = [r for r in results.series.to_dicts() if r["quantity"] == quantity]
    if not rows:
        raise _wrong("quantity", f"there are no samples of {quantity}; expected results of a call with `sample`")
    seed = results.seeds[0] if seed is None else seed
    ax = _axes(ax)
    subjects = _distinct(rows, "subject")
    for k, control in enumerate(results.controls):
        for i, subject in enumerate(subjects):
            curve = [r for r in rows if (r["control"], r["seed"], r["subject"]) == (control, seed, subject)]
            if curve:
                ax.plot(
                    [r["time_s"] for r in curve],
                    [r["value"] * _scale(quantity) for r in curve],
                    label=f"{subject}, {control}" if len(results.controls) > 1 else subject,
                    color=_of(COLOURS, i),
                    linestyle=_of(LINES, k),
                    linewidth=1,
                )
    ax.set_xlabel("time, s")
    ax.set_ylabel(_title(quantity, _unit(quantity)))
    ax.legend(frameon=False, fontsize="small")
    return ax


def sweep(frame: Frame, key: str, measure: str = "goodput_bps", *, ax: Axes | None = None) -> Axes:
    """Mean of a measure by the value of a varied key, a line per control.

    The mean is over flows and seeds, with 95 % intervals.
    """
    rows, controls = _rows(frame, key, "control", "seed", measure)
    values = _distinct(rows, key)
    ax = _axes(ax)
    for k, control in enumerate(controls):
        means, halves = [], []
        for value in values:
            seeds: dict[int, list[float]] = {}
            for r in rows:
                if (r["control"], r[key]) == (control, value) and r[measure] is not None:
                    seeds.setdefault(r["seed"], []).append(r[measure] * _scale(measure))
            each = [fmean(v) for v in seeds.values()]
            means.append(fmean(each) if each else math.nan)
            halves.append(_half(each))
        ax.errorbar(
            range(len(values)),
            means,
            yerr=halves,
            label=control,
            color=_of(COLOURS, k),
            marker=MARKERS[k % len(MARKERS)],
            linestyle=_of(LINES, k),
            capsize=2,
        )
    ax.set_xticks(range(len(values)), values)
    ax.set_xlabel(key)
    ax.set_ylabel(_label(frame, measure))
    ax.legend(frameon=False)
    return ax


def _unit(measure: str) -> str:
    """Unit in which figures show a measure."""
    return "kbit/s" if measure.endswith("_bps") else {"_s": "s"}.get(measure[-2:], "")


def _scale(measure: str) -> float:
    return 1e-3 if measure.endswith("_bps") else 1.0


def _title(measure: str, unit: str) -> str:
    name = measure.removesuffix("_bps").removesuffix("_s").replace("_", " ")
    return f"{name}, {unit}" if unit else name


def _label(source: Results | Frame, measure: str) -> str:
    frame = source.flows if isinstance(source, Results) else source
    return _title(measure, frame.units.get(measure, "") if _scale(measure) == 1.0 else _unit(measure))


def _axes(ax: Axes | None, width: float = 4.5) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError:
        raise _wrong("plot", "matplotlib is not installed; expected `pip install matplotlib`") from None
    return pyplot.subplots(figsize=(width, 3.2), layout="constrained")[1]


def _rows(source: Results | Frame, *columns: str) -> tuple[list[dict[str, Any]], list[str]]:
    frame = source.flows if isinstance(source, Results) else source
    for column in columns:
        if column not in frame.columns:
            known = ", ".join(frame.columns)
            raise _wrong("frame", f"there is no column {column}; expected one of {known}")
    rows = frame.to_dicts()
    if not rows:
        raise _wrong("frame", "there are no rows; expected results of one run or more")
    return rows, _distinct(rows, "control")


def _distinct(rows: Sequence[dict[str, Any]], column: str) -> list[Any]:
    return list(dict.fromkeys(r[column] for r in rows))


def _half(values: Sequence[float]) -> float:
    """Half-width of the 95 % interval of the mean; 0 for a single value."""
    n = len(values)
    if n < 2:
        return 0.0
    return (_T95[n - 2] if n - 2 < len(_T95) else 1.96) * stdev(values) / math.sqrt(n)


def _of(values: Sequence[str], k: int) -> str:
    return values[k % len(values)]


def _wrong(key: str, problem: str) -> SettingError:
    return SettingError(f"{key}: {problem}", key=key, expected=problem.rpartition("expected ")[2])
