"""Figures with matplotlib.

Each function takes results or a frame, draws into `ax` or new axes, and returns the axes.

Controls differ by colour (Okabe and Ito 2008, safe for colour-blind readers) and by hatch, marker or line, so that
figures are legible in black and white.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from fairmesh._fairmesh import Analysis, Frame, Results
from fairmesh.errors import SettingError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000")
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo", "+++", "---")
MARKERS = "osD^vP*X"
LINES = ("-", "--", "-.", ":")
# Flows up to this number are drawn apart in a topology.
FLOWS = 8
# Lightness rises with the value, also for colour-blind readers and in black and white.
MAP = "cividis"
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


def series(
    results: Results | Frame, quantity: str = "goodput_bps", *, seed: int | None = None, ax: Axes | None = None
) -> Axes:
    """Curves over time of a sampled quantity, a line per control and flow.

    Results need `sample`. A frame is one of `Results.series` or `read_flent`.
    """
    source = results.series if isinstance(results, Results) else results
    lacking = [c for c in ("control", "seed", "quantity", "subject", "time_s", "value") if c not in source.columns]
    if lacking:
        raise _wrong("frame", f"there is no column {lacking[0]}; expected the columns of results.series")
    rows = [r for r in source.to_dicts() if r["quantity"] == quantity]
    if not rows:
        raise _wrong("quantity", f"there are no samples of {quantity}; expected results of a call with `sample`")
    controls = _distinct(rows, "control")
    seed = rows[0]["seed"] if seed is None else seed
    ax = _axes(ax)
    subjects = _distinct(rows, "subject")
    for k, control in enumerate(controls):
        for i, subject in enumerate(subjects):
            curve = [r for r in rows if (r["control"], r["seed"], r["subject"]) == (control, seed, subject)]
            if curve:
                ax.plot(
                    [r["time_s"] for r in curve],
                    [r["value"] * _scale(quantity) for r in curve],
                    label=f"{subject}, {control}" if len(controls) > 1 else subject,
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


def heatmap(
    frame: Frame,
    x: str,
    y: str,
    measure: str = "goodput_bps",
    *,
    control: str | None = None,
    worst: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Mean of a measure over flows and seeds, a cell per combination of two keys' values.

    control: needed if the frame has several.
    worst: True for the smallest value over the flows of a run in place of their mean.
    """
    rows, controls = _rows(frame, x, y, "control", "seed", measure)
    if control is None and len(controls) > 1:
        raise _wrong("control", f"is absent, and the frame has several; expected one of {', '.join(controls)}")
    if control is not None and control not in controls:
        raise _wrong("control", f"there are no runs of {control}; expected one of {', '.join(controls)}")
    rows = [r for r in rows if r["control"] == (control or controls[0]) and r[measure] is not None]
    columns, lines = _distinct(rows, x), _distinct(rows, y)
    runs: dict[tuple[Any, Any, int], list[float]] = {}
    for r in rows:
        runs.setdefault((r[x], r[y], r["seed"]), []).append(r[measure] * _scale(measure))
    cells: dict[tuple[Any, Any], list[float]] = {}
    for (column, line, _), values in runs.items():
        cells.setdefault((column, line), []).append(min(values) if worst else fmean(values))
    means = [[fmean(cells[c, l]) if (c, l) in cells else math.nan for c in columns] for l in lines]
    ax = _axes(ax, width=max(3.4, 1.4 + 0.55 * len(columns)), height=max(2.8, 0.9 + 0.38 * len(lines)))
    image = ax.imshow(means, cmap=MAP, aspect="auto", origin="lower")
    middle = sum(image.get_clim()) / 2
    for i, line in enumerate(means):
        for k, value in enumerate(line):
            if not math.isnan(value):
                colour = "white" if value < middle else "black"
                text = f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
                ax.text(k, i, text, ha="center", va="center", color=colour, fontsize="small")
    turned = max(len(str(c)) for c in columns) * len(columns) > 24
    ax.set_xticks(range(len(columns)), columns, rotation=30 if turned else 0, ha="right" if turned else "center")
    ax.set_yticks(range(len(lines)), lines)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    label = _label(frame, measure)
    bar = ax.figure.colorbar(image, ax=ax)
    bar.set_label(f"{label}, worst flow" if worst else label, fontsize="small")
    return ax


def topology(
    results: Results, *, control: str | None = None, seed: int | None = None, names: bool = True, ax: Axes | None = None
) -> Axes:
    """Map of one run: nodes by airtime, radio links, flows as wide as their goodput.

    With more than 8 flows, each link is as wide as the goodput of its flows. A flow below a tenth of its due rate
    starves: its path is dashed and its end has a ring. Without positions the nodes are arranged by hops.

    control, seed: the run; the first of the results by default.
    names: False to omit the names of nodes.
    """
    control = results.controls[0] if control is None else control
    runs = [r for r in results.records() if r["control"] == control]
    if not runs:
        raise _wrong("control", f"there are no runs of {control}; expected one of {', '.join(results.controls)}")
    chosen = [r for r in runs if seed is None or r["seed"] == seed]
    if not chosen:
        known = ", ".join(str(r["seed"]) for r in runs)
        raise _wrong("seed", f"there is no run with seed {seed}; expected one of {known}")
    run = chosen[0]
    flows = [f for f in results.flows.to_dicts() if (f["control"], f["seed"]) == (control, run["seed"])]
    # Wired hosts have no place.
    places = _places(run)
    paths = {f["name"]: [n for n in f["path"] if n in places] for f in run["flows"]}
    starving = [f for f in flows if f["over_fair"] is not None and f["over_fair"] < 0.1]
    xs, ys = zip(*places.values())
    across, up = max(xs) - min(xs) or 1.0, max(ys) - min(ys)
    ax = _axes(ax, width=4.5, height=min(5.0, max(2.2, 3.2 * up / across)) + (0.8 if len(flows) <= FLOWS else 0.3))
    for link in run.get("links", ()):
        if link["from"] in places and link["to"] in places:
            pair = places[link["from"]], places[link["to"]]
            ax.plot(*zip(*pair), color="#bbbbbb", linewidth=0.8, zorder=1)
    if len(flows) <= FLOWS:
        _draw_flows(ax, flows, paths, places, starving)
    else:
        _draw_loads(ax, flows, paths, places)
    drawn = [n for n in run["nodes"] if n["name"] in places]
    at = [places[n["name"]] for n in drawn]
    dots = ax.scatter(
        [x for x, _ in at],
        [y for _, y in at],
        c=[n["airtime_tx"] for n in drawn],
        cmap=MAP,
        vmin=0,
        s=70,
        edgecolors=["black"] * len(drawn),
        linewidths=0.8,
        zorder=3,
    )
    ends = [_far_end(paths[f["flow"]], paths.values()) for f in starving if paths[f["flow"]]]
    if ends:
        rx, ry = zip(*(places[n] for n in dict.fromkeys(ends)))
        ax.scatter(rx, ry, s=200, facecolors="none", edgecolors="black", linewidths=1.2, zorder=3, label="starves")
    if names:
        order = sorted(range(len(drawn)), key=lambda i: at[i])
        for k, i in enumerate(order):
            below = len(drawn) > 6 and k % 2
            ax.annotate(
                drawn[i]["name"],
                at[i],
                (0, -9 if below else 8),
                textcoords="offset points",
                ha="center",
                va="top" if below else "bottom",
                fontsize="small",
                zorder=4,
            )
    pad = 0.12 * max(across, up)
    ax.set_xlim(min(xs) - pad, max(xs) + pad)
    # A line of nodes has no height of its own.
    middle, half = (max(ys) + min(ys)) / 2, max(up / 2, across / 6)
    ax.set_ylim(middle - half - 1.4 * pad, middle + half + 1.4 * pad)
    if any(n["position"] is not None for n in run["nodes"]):
        ax.set_aspect("equal")
        ax.set_xlabel("x, m")
        ax.set_ylabel("y, m")
    else:
        ax.set_axis_off()
    ax.set_title(f"{results.scenario}, {control}", fontsize="medium")
    ax.figure.colorbar(dots, ax=ax, label="time transmitting", shrink=0.8)
    if ax.get_legend_handles_labels()[1]:
        low = -0.28 if ax.axison else 0.0
        ax.legend(
            frameon=False, fontsize="x-small", markerscale=0.5, loc="upper center", bbox_to_anchor=(0.5, low), ncols=2
        )
    return ax


def _draw_flows(
    ax: Axes,
    flows: Sequence[Mapping[str, Any]],
    paths: Mapping[str, Sequence[str]],
    places: Mapping[str, tuple[float, float]],
    starving: Sequence[Mapping[str, Any]],
) -> None:
    """Each flow along its path, beside the others, as wide as its goodput."""
    most = max(f["goodput_bps"] for f in flows) or 1.0
    for k, flow in enumerate(flows):
        path = [places[n] for n in paths[flow["flow"]]]
        line = ax.plot(
            [p[0] for p in path],
            [p[1] for p in path],
            color=_of(COLOURS, k),
            linewidth=1.0 + 3.0 * flow["goodput_bps"] / most,
            linestyle=(0, (2, 1.5)) if flow in starving else "-",
            solid_capstyle="round",
            zorder=2,
            label=f"{flow['flow']}: {flow['goodput_bps'] / 1e3:.0f} kbit/s",
        )[0]
        line.set_transform(_shifted(ax, (k - (len(flows) - 1) / 2) * 1.6))


def _draw_loads(
    ax: Axes,
    flows: Sequence[Mapping[str, Any]],
    paths: Mapping[str, Sequence[str]],
    places: Mapping[str, tuple[float, float]],
) -> None:
    """Each link as wide as the goodput of all flows over it."""
    loads: dict[tuple[str, str], float] = {}
    for flow in flows:
        path = paths[flow["flow"]]
        for a, b in zip(path, path[1:]):
            pair = (min(a, b), max(a, b))
            loads[pair] = loads.get(pair, 0.0) + flow["goodput_bps"]
    most = max(loads.values(), default=0.0) or 1.0
    for pair, load in loads.items():
        ends = [places[n] for n in pair]
        ax.plot(*zip(*ends), color=COLOURS[0], linewidth=0.5 + 5.5 * load / most, solid_capstyle="round", zorder=2)
    ax.plot([], [], color=COLOURS[0], linewidth=6, label=f"goodput of a link: {most / 1e3:.0f} kbit/s")


def region(analysis: Analysis, results: Results | None = None, *, ax: Axes | None = None) -> Axes:
    """Achievable rate region, with its fair points and the points that results reach.

    A point is the smallest mean rate of a flow of each group.
    """
    report = analysis.to_dict()
    if "section_bps" not in report:
        raise _wrong("analysis", "has no region; expected the result of fairmesh.region")
    boundary = [(a / 1e3, b / 1e3) for a, b in report["section_bps"]]
    if not boundary:
        raise _wrong("analysis", "has one flow; expected a region of two flows or more")
    flows = [f["flow"] for f in analysis.flows.to_dicts() if f["criterion"] == "max-min"]
    first = set(report["first_group"])

    def point(rates: Mapping[str, float]) -> tuple[float, float]:
        groups = [[rates[f] / 1e3 for k, f in enumerate(flows) if (k in first) == side] for side in (True, False)]
        return min(groups[0]), min(groups[1])

    ax = _axes(ax)
    xs, ys = zip(*boundary)
    ax.fill_between([0, *xs], [ys[0], *ys], color="#dddddd", linewidth=0, zorder=0)
    ax.plot(xs, ys, color="black", linewidth=1.2, label="achievable", zorder=1)
    for name, key, marker in (("max-min", "max_min_bps", "*"), ("proportional", "proportional_bps", "P")):
        x, y = point(dict(zip(flows, report[key])))
        ax.plot(x, y, marker, color="black", fillstyle="none", markersize=9, label=name, zorder=3)
    for k, control in enumerate(results.controls if results is not None else ()):
        assert results is not None
        rates: dict[str, list[float]] = {}
        for row in results.flows.to_dicts():
            if row["control"] == control:
                rates.setdefault(row["flow"], []).append(row["goodput_bps"])
        lacking = [f for f in flows if f not in rates]
        if lacking:
            raise _wrong("results", f"have no flow {lacking[0]}; expected results of the scenario {report['scenario']}")
        x, y = point({f: fmean(v) for f, v in rates.items()})
        ax.plot(x, y, MARKERS[k % len(MARKERS)], color=_of(COLOURS, k), label=control, clip_on=False, zorder=3)
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.set_xlabel(_group([f for k, f in enumerate(flows) if k in first]))
    ax.set_ylabel(_group([f for k, f in enumerate(flows) if k not in first]))
    ax.legend(frameon=False, fontsize="small")
    return ax


def _group(flows: Sequence[str]) -> str:
    if len(flows) == 1:
        return f"rate of {flows[0]}, kbit/s"
    named = ", ".join(flows[:3]) + (", …" if len(flows) > 3 else "")
    return f"rate of each of {named}, kbit/s"


def _places(run: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Positions of the nodes of a run; without positions, columns by hops."""
    placed = {n["name"]: tuple(n["position"]) for n in run["nodes"] if n["position"] is not None}
    if placed:
        return placed
    ends: dict[str, int] = {}
    beside: dict[str, set[str]] = {n["name"]: set() for n in run["nodes"]}
    for flow in run["flows"]:
        for end in (flow["from"], flow["to"]):
            ends[end] = ends.get(end, 0) + 1
        for a, b in zip(flow["path"], flow["path"][1:]):
            beside[a].add(b)
            beside[b].add(a)
    for link in run.get("links", ()):
        if link["from"] in beside and link["to"] in beside:
            beside[link["from"]].add(link["to"])
            beside[link["to"]].add(link["from"])
    columns: list[list[str]] = []
    left = [n for n in sorted(beside, key=lambda n: -ends.get(n, 0)) if beside[n]]
    seen: set[str] = set()
    while left:
        front = [left[0]]
        depth = 0
        while front:
            seen.update(front)
            columns += [[]] if depth == len(columns) else []
            columns[depth] += front
            front = list(dict.fromkeys(n for f in front for n in sorted(beside[f]) if n not in seen))
            depth += 1
        left = [n for n in left if n not in seen]
    return {
        name: (float(x), (len(column) - 1) / 2 - y) for x, column in enumerate(columns) for y, name in enumerate(column)
    }


def _far_end(path: Sequence[str], paths: Iterable[Sequence[str]]) -> str:
    """The end of a path that fewer other paths share."""
    ends = [end for p in paths if p for end in (p[0], p[-1])]
    return min(path[0], path[-1], key=ends.count)


def _shifted(ax: Axes, points: float) -> Any:
    """Coordinates of the data, moved aside by some points."""
    from matplotlib.transforms import ScaledTranslation

    figure = ax.get_figure(root=True)
    return ax.transData + ScaledTranslation(points / 72, -points / 72, figure.dpi_scale_trans)  # type: ignore[union-attr]


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


def _axes(ax: Axes | None, width: float = 4.5, height: float = 3.2) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError:
        raise _wrong("plot", "matplotlib is not installed; expected `pip install matplotlib`") from None
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


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
