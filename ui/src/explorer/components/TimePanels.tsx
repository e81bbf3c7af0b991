import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { colour } from "../../common/colours";
import { count, nice, rate, shorten } from "../../common/format";
import { memo } from "../../common/memo";
import { useSize } from "../../common/size";
import { decode, smooth } from "../model/curve";
import { median, sum, type View } from "../model/derive";
import type { Control, Decision, Model } from "../model/types";
import type { CurveKey } from "../state";
import { Segmented } from "../../common/Segmented";
import { Term } from "./Term";

/** Selected curves, and background curves, that one panel draws. */
export const MOST_PINS = 6;
const MOST_OTHERS = 30;
const MOST_MARKS = 90;
/** Length of the mean that bold lines show, s. */
const SMOOTH_S = 2.5;

const UNITS: Record<CurveKey, (v: number) => string> = {
  goodput: rate,
  window: (v) => `${v.toFixed(v < 10 ? 1 : 0)} kB`,
  queue: (v) => `${v.toFixed(0)} packets`,
};

/** A warning where the median limit moved more than 10 % in the last quarter of the run. */
function moving(limits: number[][], sampleS: number): number {
  const changes = limits
    .filter((l) => l.some((v) => v > 0))
    .map((l) => {
      const n = Math.max(1, Math.round(5 / sampleS));
      const end = l.slice(-n);
      const before = l.slice(-3 * n, -2 * n);
      return sum(end) / end.length / (sum(before) / Math.max(1, before.length) || 1) - 1;
    });
  return changes.length ? median(changes) : 0;
}

interface Panel {
  model: Model;
  control: Control;
  view: View;
  pins: number[];
  seed: number;
  curve: CurveKey;
  theme: number;
}

function TimePanel({ model, control, view, pins, seed, curve, theme }: Panel) {
  const [ref, { width }] = useSize<HTMLDivElement>();
  const box = useRef<HTMLDivElement | null>(null);
  const [readout, setReadout] = useState("");
  const sampling = model.sampling!;
  const curves = control.curves[Math.min(seed, control.curves.length - 1)];
  const seedOf = model.seeds[Math.min(seed, control.curves.length - 1)];
  const of = (i: number): number[] => {
    if (curve === "queue") {
      const path = model.sharers[i]!.paths[0] ?? [];
      const node = path.reduce<number>((best, n) => ((control.nodes[n]?.queue ?? -1) > (control.nodes[best]?.queue ?? -1) ? n : best), path[0] ?? 0);
      return decode(curves?.queue?.[node]);
    }
    return decode(curve === "goodput" ? curves?.goodput[i] : curves?.window?.[i]);
  };
  const data = useMemo(() => {
    const width = Math.max(1, Math.round(SMOOTH_S / sampling.every_s));
    const raw = pins.map(of);
    const bold = raw.map((v) => (curve === "goodput" ? smooth(v, width) : v));
    const limits = pins.map((i) => (curve === "goodput" ? decode(curves?.limit?.[i]) : []));
    const rest = model.sharers.map((_, i) => i).filter((i) => !pins.includes(i));
    const others = rest.length <= MOST_OTHERS && curve === "goodput" ? rest.map(of) : [];
    // The scale is that of the bold curves: a limit far above all rates would flatten them.
    const rates = bold.flat();
    const top = Math.max(...rates, 1e-9);
    const near = limits.flatMap((l) => l.slice(Math.round(3 / sampling.every_s))).filter((v) => v < 4 * top);
    const all = (curve === "goodput" ? (curves?.limit ?? []) : []).map(decode);
    return { raw, bold, limits, others, top: nice(1.08 * Math.max(top, ...near)), change: moving(all, sampling.every_s) };
  }, [control, pins.join(), seed, curve]);
  const marks = useMemo(() => {
    const about = (d: Decision) => d.i === undefined || pins.includes(d.i);
    return control.decisions.shown.filter((d) => control.decisions.total < 40 || (about(d) && d.i !== undefined)).slice(0, MOST_MARKS);
  }, [control, pins.join()]);
  const height = width < 600 ? 160 : 178;

  useEffect(() => {
    const element = box.current;
    if (!element || width < 80) return;
    const time = Array.from({ length: sampling.number }, (_, k) => sampling.first_s + k * sampling.every_s);
    const pad = (v: number[]) => time.map((_, k) => v[k] ?? null);
    const line = (i: number) => colour(view.class[i]! === "none" ? "ink2" : view.class[i]!);
    const faint = `${colour("ink3")}2a`;
    const series: uPlot.Series[] = [{}];
    const values: (number | null)[][] = [];
    data.others.forEach((v) => {
      series.push({ stroke: faint, width: 1, points: { show: false } });
      values.push(pad(v));
    });
    pins.forEach((i, n) => {
      if (data.limits[n]!.some((v) => v > 0)) {
        series.push({ stroke: line(i), width: 1.4, dash: [5, 3], points: { show: false } });
        values.push(pad(data.limits[n]!).map((v) => (v ? v : null)));
      }
      series.push({ stroke: `${line(i)}40`, width: 1, points: { show: false } });
      values.push(pad(data.raw[n]!));
      series.push({ stroke: line(i), width: 2, points: { show: false } });
      values.push(pad(data.bold[n]!));
    });
    const labelled = width >= 600;
    const font = `11px ${getComputedStyle(document.body).fontFamily}`;
    const plot = new uPlot(
      {
        width,
        height,
        padding: [20, labelled ? 126 : 8, 0, 0],
        legend: { show: false },
        cursor: { sync: { key: "fairmesh" }, drag: { x: true, y: false }, points: { show: false } },
        scales: { x: { time: false, range: (_, a, b) => (a === time[0] ? [0, b] : [a, b]) }, y: { range: () => [0, data.top] } },
        axes: [
          { stroke: colour("ink3"), font, grid: { show: false }, ticks: { show: false }, size: 24, gap: 2, values: (_, t) => t.map((v) => `${v} s`) },
          {
            stroke: colour("ink3"),
            font,
            grid: { stroke: colour("line"), width: 1 },
            ticks: { show: false },
            size: 58,
            splits: () => [0, data.top / 2, data.top],
            values: (_, t) => t.map((v) => (v === 0 ? "0" : curve === "goodput" ? (v >= 1000 ? `${+(v / 1e3).toFixed(2)} M` : `${+v.toFixed(1)} k`) : `${+v.toFixed(1)}`)),
          },
        ],
        series,
        hooks: {
          drawClear: [
            (u) => {
              const g = u.ctx;
              const end = u.valToPos(model.warmup_s, "x", true);
              const from = u.bbox.left;
              if (end > from) {
                g.fillStyle = colour("line2");
                g.fillRect(from, u.bbox.top, Math.min(end - from, u.bbox.width), u.bbox.height);
                g.fillStyle = colour("ink3");
                g.font = `${11 * devicePixelRatio}px ${getComputedStyle(document.body).fontFamily}`;
                g.textAlign = "left";
                if (end - from > 70 * devicePixelRatio) g.fillText("warm-up", from + 5 * devicePixelRatio, u.bbox.top + 13 * devicePixelRatio);
              }
            },
          ],
          draw: [
            (u) => {
              const g = u.ctx;
              const d = devicePixelRatio;
              g.save();
              for (const m of marks) {
                const x = u.valToPos(m.t, "x", true);
                if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
                const up = m.r !== undefined && m.p !== undefined && m.r > m.p;
                const lower = m.r !== undefined && m.p !== undefined && m.r < m.p;
                g.fillStyle = colour("ink2");
                g.strokeStyle = `${colour("ink3")}${marks.length < 40 ? "80" : "30"}`;
                g.setLineDash([2 * d, 3 * d]);
                g.lineWidth = d;
                g.beginPath();
                g.moveTo(x, u.bbox.top);
                g.lineTo(x, u.bbox.top + u.bbox.height);
                g.stroke();
                g.setLineDash([]);
                const y = u.bbox.top - 9 * d;
                g.beginPath();
                const q = 4.5 * d;
                if (up) {
                  g.moveTo(x - q, y + q);
                  g.lineTo(x + q, y + q);
                  g.lineTo(x, y - q);
                } else if (lower) {
                  g.moveTo(x - q, y - q);
                  g.lineTo(x + q, y - q);
                  g.lineTo(x, y + q);
                } else {
                  g.moveTo(x, y - q * 0.7);
                  g.lineTo(x + q * 0.7, y);
                  g.lineTo(x, y + q * 0.7);
                  g.lineTo(x - q * 0.7, y);
                }
                g.fill();
              }
              if (labelled) {
                const ends = pins.map((i, n) => {
                  const last = data.bold[n]!.slice(-10);
                  const mean = last.length ? sum(last) / last.length : 0;
                  return { i, y: u.valToPos(Math.min(mean, data.top), "y", true) };
                });
                ends.sort((a, b) => a.y - b.y);
                let above = -Infinity;
                for (const e of ends) above = e.y = Math.max(e.y, above + 14 * d);
                const over = above - (u.bbox.top + u.bbox.height);
                g.font = `600 ${11 * d}px ${getComputedStyle(document.body).fontFamily}`;
                g.textAlign = "left";
                for (const e of ends) {
                  g.fillStyle = view.class[e.i] === "short" ? colour("ink2") : line(e.i);
                  g.fillText(shorten(model.sharers[e.i]!.label, 20), u.bbox.left + u.bbox.width + 8 * d, e.y - Math.max(0, over) + 4 * d);
                }
              }
              g.restore();
            },
          ],
          setCursor: [
            (u) => {
              const k = u.cursor.idx;
              if (k == null || (u.cursor.left ?? -1) < 0) return setReadout("");
              const t = u.data[0][k]!;
              const near = marks.find((m) => Math.abs(u.valToPos(m.t, "x") - u.cursor.left!) < 4 && u.root.matches(":hover"));
              const shown = pins.slice(0, 4).map((i, n) => `${model.sharers[i]!.label} ${UNITS[curve](data.raw[n]![k] ?? 0)}`);
              setReadout(`${t.toFixed(1)} s · ${shown.join(" · ")}${near ? ` · ${near.n}: ${near.w}` : ""}`);
            },
          ],
        },
      },
      [time, ...values] as uPlot.AlignedData,
      element,
    );
    return () => plot.destroy();
  }, [data, width, theme]);

  const { total } = control.decisions;
  return (
    <div class="tcw" ref={ref}>
      <div class="th">
        <h3>{control.name}</h3>
        <span class="dim sm">own scale: 0 to {UNITS[curve](data.top)}</span>
        {curve === "goodput" && Math.abs(data.change) > 0.1 ? (
          <span class="chip warn" data-tip={`Still moving\nThe median limit changed by ${Math.round(Math.abs(data.change) * 100)} % within 10 s of the end. Run longer with --duration.`}>
            limits still {data.change > 0 ? "rising" : "falling"} at the end
          </span>
        ) : null}
        <span class="sp" />
        <span class="dim sm">
          {total ? `${count(total, "decision")}${total < 40 ? "" : "; those about the selected shown"}` : "no decisions"}
          {control.curves.length ? `, seed ${seedOf}` : ""}
        </span>
      </div>
      <div ref={box} class="plot" role="img" aria-label={`${curve} over time with ${control.name}: ${pins.map((i) => model.sharers[i]!.label).join(", ")}`} />
      <p class="readout xs" aria-hidden="true">
        {readout}
      </p>
    </div>
  );
}

/** Curves over time: a panel per control, each with its own scale. */
export const TimePanels = memo(function TimePanels({
  model,
  views,
  controls,
  pins,
  seed,
  curve,
  theme,
  all,
  setCurve,
  unpin,
  showAll,
}: {
  model: Model;
  views: View[];
  controls: number[];
  pins: number[];
  seed: number;
  curve: CurveKey;
  theme: number;
  all: boolean;
  setCurve: (k: CurveKey) => void;
  unpin: (i: number) => void;
  showAll: () => void;
}) {
  const first = model.controls[0]!.curves[0];
  if (!model.sampling || !first) {
    return (
      <section class="card" id="time">
        <header>
          <h2>Over time</h2>
        </header>
        <p class="pad mut">{model.sampling ? "The curves of so many runs are too large for this page; they are in series.parquet." : "No curves were sampled."}</p>
      </section>
    );
  }
  const options: [CurveKey, string, string][] = [["goodput", "goodput", "Goodput\nApplication bytes delivered, and the limit that the control sets."]];
  if (model.controls.some((c) => c.curves[0]?.window)) options.push(["window", "window", "Congestion window\nof the sender."]);
  if (model.controls.some((c) => c.curves[0]?.queue)) options.push(["queue", "queue", "Interface queue\nof the node with the longest queue on the path."]);
  const known = options.some((o) => o[0] === curve) ? curve : "goodput";
  return (
    <section class="card" id="time">
      <header>
        <h2>Over time</h2>
        {options.length > 1 ? <Segmented label="Curve" options={options} value={known} change={setCurve} /> : null}
        <span class="pins">
          {pins.map((i) => (
            <button type="button" class="chip" aria-label={`Remove ${model.sharers[i]!.label}`} onClick={() => unpin(i)}>
              {model.sharers[i]!.label} ✕
            </button>
          ))}
          {pins.length < MOST_PINS ? <span class="dim sm"> Select a {model.noun.one} to add it.</span> : null}
        </span>
        <span class="sp" />
        {controls.length < model.controls.length && !all ? (
          <button type="button" class="btn" onClick={showAll}>
            Show all {model.controls.length} controls
          </button>
        ) : null}
      </header>
      {controls.map((k) => (
        <TimePanel key={k} model={model} control={model.controls[k]!} view={views[k]!} pins={pins} seed={Math.max(0, seed)} curve={known} theme={theme} />
      ))}
      <div class="lgd sm mut">
        <span>
          <svg width="26" height="8" class="key" aria-hidden="true">
            <path d="M0 4H26" stroke-width="2" />
          </svg>
          {known}
        </span>
        {known === "goodput" ? (
          <span>
            <svg width="26" height="8" class="key" aria-hidden="true">
              <path d="M0 4H26" stroke-width="1.5" stroke-dasharray="5 3" />
            </svg>
            <Term of="limit">limit</Term>
          </span>
        ) : null}
        <span>▲ limit raised</span>
        <span>▼ lowered</span>
        <span>◆ other decision</span>
        <span class="dim">
          Bold lines are means over {SMOOTH_S} s, in the colour of the result with that control. Drag to zoom, double-click to go back.
          {seed > 0 && model.controls[0]!.curves.length <= seed ? " Curves of this seed are not in this page; they are in series.parquet." : ""}
        </span>
      </div>
    </section>
  );
});
