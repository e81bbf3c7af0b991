"""Text and HTML of scenarios, frames and results, for terminals and notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairmesh._fairmesh import Frame, Results, Scenario

ROWS = 12
COLUMNS = 10
Table = tuple[list[str], list[list[str]]]
_MEASURES = [
    ("jain", "Jain", 1.0),
    ("min_over_fair", "worst/fair", 1.0),
    ("utilization_ratio", "utilization", 1.0),
    ("sum_goodput_bps", "sum Mbit/s", 1e-6),
]


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    return str(value)


def _frame(frame: Frame) -> Table:
    columns = frame.columns[:COLUMNS]
    rows = [frame.row(i) for i in range(min(ROWS, len(frame)))]
    return columns, [[_cell(row[c]) for c in columns] for row in rows]


def _rest(frame: Frame) -> str:
    rows, columns = len(frame), len(frame.columns)
    if rows <= ROWS and columns <= COLUMNS:
        return ""
    return f"{rows} rows × {columns} columns: {', '.join(frame.columns)}"


def _results(results: Results) -> Table:
    summary = results.summary.to_dicts()
    head = ["control", *(title for _, title, _ in _MEASURES), "starving"]
    starving: dict[str, list[int]] = {}
    for run in results.runs.to_dicts():
        starving.setdefault(run["control"], []).append(run["starving"])
    rows = []
    for control in results.controls:
        row = [control]
        for measure, _, scale in _MEASURES:
            found = [s for s in summary if s["control"] == control and s["measure"] == measure]
            row.append(_estimate(found[0]["mean"] * scale, found[0]["ci95"], scale) if found else "–")
        counts = starving[control]
        row.append(f"{sum(counts) / len(counts):.3g}")
        rows.append(row)
    return head, rows


def _estimate(mean: float, ci95: float | None, scale: float) -> str:
    return f"{mean:.3f}" if ci95 is None else f"{mean:.3f} ± {ci95 * scale:.3f}"


def _text(table: Table) -> str:
    head, rows = table
    widths = [max(len(line[i]) for line in [head, *rows]) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths))).rstrip()

    return "\n".join(line(cells) for cells in [head, *rows])


def _html(table: Table) -> str:
    head, rows = table
    header = "".join(f"<th>{escape(c)}</th>" for c in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>"


def _title(results: Results) -> str:
    seeds = results.seeds
    of = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    return f"{results.scenario}, {of}"


def frame_text(frame: Frame) -> str:
    """Table of the first rows and columns."""
    rest = _rest(frame)
    return _text(_frame(frame)) + (f"\n{rest}" if rest else "")


def frame_html(frame: Frame) -> str:
    """HTML table of the first rows and columns."""
    rest = _rest(frame)
    return _html(_frame(frame)) + (f"<p>{escape(rest)}</p>" if rest else "")


def results_text(results: Results) -> str:
    """Table of the controls with their main measures."""
    return f"{_title(results)}\n{_text(_results(results))}"


def results_html(results: Results) -> str:
    """HTML table of the controls, with a bar for the goodput of each flow."""
    return f"<p>{escape(_title(results))}</p>{_html(_results(results))}{_bars(results)}"


def _bars(results: Results) -> str:
    """Bars of mean goodput: a group per flow, a bar per control."""
    means: dict[tuple[str, str], list[float]] = {}
    for row in results.flows.to_dicts():
        means.setdefault((row["flow"], row["control"]), []).append(row["goodput_bps"])
    flows = list(dict.fromkeys(flow for flow, _ in means))[:30]
    controls = results.controls
    most = max((sum(v) / len(v) for v in means.values()), default=0.0) or 1.0
    bar, gap, height = 8, 10, 120
    width = len(flows) * (len(controls) * bar + gap)
    colours = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000"]
    parts = []
    for i, flow in enumerate(flows):
        for k, control in enumerate(controls):
            values = means[flow, control]
            mean = sum(values) / len(values)
            tall = height * mean / most
            x = i * (len(controls) * bar + gap) + k * bar
            title = escape(f"{flow}, {control}: {mean / 1e3:.1f} kbit/s")
            parts.append(
                f'<rect x="{x}" y="{height - tall:.1f}" width="{bar - 1}" height="{tall:.1f}" '
                f'fill="{colours[k % len(colours)]}"><title>{title}</title></rect>'
            )
    return (
        f'<svg width="{width}" height="{height}" role="img" aria-label="mean goodput of each flow by control">'
        f"{''.join(parts)}</svg>"
    )


def _scenario(scenario: Scenario) -> str:
    nodes, flows = len(scenario.nodes), len(scenario.flows)
    return (
        f"{scenario.name}: {nodes} nodes, {flows} flows, {scenario.duration:g} s "
        f"measured from {scenario.warmup:g} s, control {scenario.control}"
    )


def scenario_text(scenario: Scenario) -> str:
    """One line: name, size, times, control."""
    return f"<fairmesh.Scenario {_scenario(scenario)}>"


def scenario_html(scenario: Scenario) -> str:
    """The line and a sketch of the positions, where they are known."""
    places = [(n["x_m"], n["y_m"], n["node"], n["gateway"]) for n in scenario.nodes.to_dicts() if n["x_m"] is not None]
    return f"<p>{escape(_scenario(scenario))}</p>{_sketch(places) if places else ''}"


def _sketch(places: list[tuple[float, float, str, int]]) -> str:
    xs, ys = [p[0] for p in places], [p[1] for p in places]
    span = max(max(xs) - min(xs), max(ys) - min(ys)) or 1.0
    scale, margin = 360 / span, 16
    parts = []
    for x, y, name, gateway in places:
        px, py = margin + (x - min(xs)) * scale, margin + (max(ys) - y) * scale
        fill = "#d55e00" if gateway else "#0072b2"
        parts.append(f'<circle cx="{px:.0f}" cy="{py:.0f}" r="5" fill="{fill}"><title>{escape(name)}</title></circle>')
    width, height = (max(xs) - min(xs)) * scale + 2 * margin, (max(ys) - min(ys)) * scale + 2 * margin
    return f'<svg width="{width:.0f}" height="{height:.0f}" role="img" aria-label="nodes">{"".join(parts)}</svg>'
