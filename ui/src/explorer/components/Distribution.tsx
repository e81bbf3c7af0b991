import { ms, nice, percent, rate } from "../../common/format";
import { memo } from "../../common/memo";
import { useSize } from "../../common/size";
import { lost, median, type View } from "../model/derive";
import type { Model } from "../model/types";
import { classOf, Mark } from "../../common/classes";
import { logPlace, TICKS } from "../scale/share";
import type { MeasureKey } from "../state";
import { Segmented } from "../../common/Segmented";

const DASHES = ["", "7 4", "2 3", "10 3 2 3", "1 4", "14 4"];

const OPTIONS: [MeasureKey, string][] = [
  ["share", "share"],
  ["goodput", "goodput"],
  ["delay", "delay"],
  ["lost", "lost packets"],
];

function values(m: Model, v: View, control: number, measure: MeasureKey): (number | null)[] {
  const results = m.controls[control]!.results;
  if (measure === "share") return v.share;
  if (measure === "goodput") return v.goodput;
  return results.map((r) => (measure === "delay" ? (r.delay?.[0] ?? null) : lost(r)));
}

function show(measure: MeasureKey, v: number): string {
  return measure === "share" ? percent(v) : measure === "goodput" ? rate(v) : measure === "delay" ? ms(v) : v.toFixed(0);
}

/** A measure by hops, and its distribution. */
export const Distribution = memo(function Distribution({
  model,
  views,
  controls,
  measure,
  sharer,
  change,
  select,
}: {
  model: Model;
  views: View[];
  controls: number[];
  measure: MeasureKey;
  sharer: number;
  change: (m: MeasureKey) => void;
  select: (i: number) => void;
}) {
  const [ref, { width }] = useSize<HTMLDivElement>();
  const columns = width < 560 ? 1 : Math.min(controls.length, 3);
  const wide = Math.max(160, Math.floor((width - 6 * (columns - 1)) / columns));
  const hops = Math.max(1, ...model.sharers.map((s) => s.hops));
  const all = controls.map((c) => values(model, views[c]!, c, measure));
  const most = nice(Math.max(1e-9, ...all.flat().filter((v): v is number => v !== null)));
  const H = 236;
  const left = 54;
  const place = (v: number) => (measure === "share" ? logPlace(v) : v / most);
  const y = (v: number) => 24 + (1 - place(v)) * (H - 62);
  const ticks: [number, string][] = measure === "share" ? TICKS : [0, 0.5, 1].map((q) => [most * q, show(measure, most * q)]);
  // A fixed shift, so that flows with equal hops do not hide each other.
  const shift = (i: number) => (((i * 0.618034) % 1) - 0.5) * 0.6;
  const r = model.sharers.length > 200 ? 2 : 3.6;
  return (
    <section class="card" id="distribution">
      <header>
        <h2>Distribution</h2>
        <Segmented label="Measure" options={OPTIONS} value={measure} change={change} />
        <span class="sm mut">Does distance decide? Each dot is a {model.noun.one}; bars are medians of those with as many hops.</span>
      </header>
      <div class="two">
        <div>
          <div class="hops" ref={ref}>
          {controls.map((c, n) => {
            const x = (h: number) => left + ((h - 0.5) / hops) * (wide - left - 8);
            return (
              <svg width={wide} height={H} class="chart" role="img" aria-label={`${measure} by hops with ${model.controls[c]!.name}`}>
                <text class="title" x={left} y="14">
                  {model.controls[c]!.name}
                </text>
                {measure === "share" ? (
                  <>
                    <rect class="zone starve" x={left} y={y(0.1)} width={wide - left - 8} height={y(0.001) - y(0.1)} />
                    <rect class="zone fair" x={left} y={y(1.25)} width={wide - left - 8} height={y(0.8) - y(1.25)} />
                  </>
                ) : null}
                {ticks.map(([v, text]) => (
                  <g>
                    <path class="grid" d={`M${left} ${y(v)}H${wide - 8}`} />
                    <text x={left - 6} y={y(v) + 4} text-anchor="end">
                      {text}
                    </text>
                  </g>
                ))}
                {Array.from({ length: hops }, (_, h) => h + 1).map((h) => {
                  const own = all[n]!.filter((v, i): v is number => v !== null && model.sharers[i]!.hops === h);
                  const w = ((wide - left - 8) / hops) * 0.36;
                  return (
                    <g>
                      <text x={x(h)} y={H - 20} text-anchor="middle">
                        {h}
                      </text>
                      {own.length ? <path class="median" d={`M${x(h) - w} ${y(median(own))}H${x(h) + w}`} /> : null}
                    </g>
                  );
                })}
                <text x={left + (wide - left) / 2} y={H - 4} text-anchor="middle">
                  hops
                </text>
                {all[n]!.map((v, i) =>
                  v === null || model.sharers[i]!.hops < 1 ? null : (
                    <g
                      class={`dot${i === sharer ? " sel" : ""}`}
                      data-tip={`${model.sharers[i]!.label}\n${show(measure, v)}, ${model.sharers[i]!.hops} hops`}
                      onClick={() => select(i)}
                    >
                      {i === sharer ? <circle class="halo" cx={x(model.sharers[i]!.hops + shift(i))} cy={y(v)} r={r + 4} /> : null}
                      <Mark k={classOf(views[c]!.share[i])} x={x(model.sharers[i]!.hops + shift(i))} y={y(v)} r={r} />
                    </g>
                  ),
                )}
              </svg>
            );
          })}
          </div>
        </div>
        <Cumulative model={model} controls={controls} all={all} measure={measure} most={most} />
      </div>
    </section>
  );
});

function Cumulative({ model, controls, all, measure, most }: { model: Model; controls: number[]; all: (number | null)[][]; measure: MeasureKey; most: number }) {
  const [ref, { width }] = useSize<HTMLDivElement>();
  const H = 236;
  const left = 40;
  const room = Math.max(60, width - left - 12);
  const x = (v: number) => left + (measure === "share" ? logPlace(v) : v / most) * room;
  const y = (q: number) => 24 + (1 - q) * (H - 62);
  const ticks: [number, string][] = measure === "share" ? TICKS : [0, 0.5, 1].map((q) => [most * q, show(measure, most * q)]);
  return (
    <div class="cdf">
      <div ref={ref}>
      {width ? (
        <svg width={width} height={H} class="chart" role="img" aria-label={`Cumulative distribution of ${measure}`}>
          <text class="title" x={left} y="14">
            part of the {model.noun.many} with at most …
          </text>
          {[0, 0.5, 1].map((q) => (
            <g>
              <path class="grid" d={`M${left} ${y(q)}H${left + room}`} />
              <text x={left - 6} y={y(q) + 4} text-anchor="end">
                {q * 100} %
              </text>
            </g>
          ))}
          {ticks.map(([v, text]) => (
            <text x={x(v)} y={H - 20} text-anchor={v === most && measure !== "share" ? "end" : "middle"}>
              {text}
            </text>
          ))}
          {all.map((values, n) => {
            const sorted = values.filter((v): v is number => v !== null).sort((a, b) => a - b);
            let d = `M${x(0)} ${y(0)}`;
            sorted.forEach((v, k) => (d += `H${x(v).toFixed(1)}V${y((k + 1) / sorted.length).toFixed(1)}`));
            return <path class="cdfline" d={`${d}H${left + room}`} stroke-dasharray={DASHES[n % DASHES.length]} />;
          })}
        </svg>
      ) : null}
      </div>
      <div class="keys sm">
        {controls.map((c, n) => (
          <span>
            <svg width="34" height="8" class="key" aria-hidden="true">
              <path d="M0 4H34" stroke-width="1.8" stroke-dasharray={DASHES[n % DASHES.length]} />
            </svg>
            {model.controls[c]!.name}
          </span>
        ))}
      </div>
    </div>
  );
}
