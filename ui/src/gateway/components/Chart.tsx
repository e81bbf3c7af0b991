import { useState } from "preact/hooks";
import { Segmented } from "../../common/Segmented";
import { rate as kbps } from "../../common/format";
import { line, starved, useHome } from "../past";
import type { Curve, Home } from "../types";
import { ago } from "../words";
import { Absent, Starved } from "./Spark";

const WIDTH = 400;
const HEIGHT = 74;

/** Rate, limit and starved time of one direction. */
function Chart({ curve, step, way }: { curve: Curve; step: number; way: string }) {
  const limits = curve.limit ?? [];
  const values = [...curve.rate, ...limits].filter((v): v is number => v !== null);
  const rates = curve.rate.filter((v): v is number => v !== null);
  const top = Math.max(...values, 1);
  const slot = WIDTH / Math.max(1, curve.rate.length - 1);
  const x = (i: number) => i * slot;
  const y = (v: number) => HEIGHT - 5 - (v / top) * (HEIGHT - 8);
  const time = starved(curve);
  const mean = rates.length ? rates.reduce((a, b) => a + b, 0) / rates.length : 0;
  const gap = step * (curve.rate.length - 1 - rates.length);
  const text = [
    rates.length ? `mean ${kbps(mean)}, at most ${kbps(Math.max(...rates))}` : "nothing recorded",
    ...(time ? [`starved for ${ago(time)}`] : rates.length ? ["not starved"] : []),
    ...(gap > 0 && rates.length ? [`${ago(gap)} not recorded`] : []),
  ].join("; ");
  return (
    <figure class="past">
      <figcaption class="xs">
        <b>{way}</b> {text}
      </figcaption>
      <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${way}: ${text}`}>
        <path d={line(curve.rate, x, y)} />
        {limits.length ? <path class="limit" d={line(limits, x, y, true)} /> : null}
        <Starved curve={curve} x={x} width={slot} height={HEIGHT} />
      </svg>
    </figure>
  );
}

function clock(end: number, step: number): string {
  const date = new Date(end * 1000);
  return step < 3600 ? date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : date.toLocaleDateString([], { weekday: "short", day: "numeric", month: "short" });
}

/** The last hour or week of a home, as the daemon recorded it. */
export function PastOf({ home }: { home: Home }) {
  const [length, set] = useState<"hour" | "week">("hour");
  const past = useHome(home.name);
  const shown = past && past !== "none" ? past[length] : null;
  const limited = shown?.ways.some((w) => w.limit);
  return (
    <section id="past">
      <h3>
        Last {length} <Segmented label="Length" options={[["hour", "hour", "The last hour by minutes"], ["week", "week", "The last week by hours"]]} value={length} change={set} />
      </h3>
      {shown ? (
        <>
          <Chart curve={shown.ways[0]} step={shown.step} way="down" />
          <Chart curve={shown.ways[1]} step={shown.step} way="up" />
          <p class="xs dim axis">
            <span>{clock(shown.end - shown.step * shown.ways[0].rate.length, shown.step)}</span>
            <span>
              {limited ? `dashed: limit${home.ways[0].enforced ? "" : ", not in force"}; ` : ""}red: starved
            </span>
            <span>{clock(shown.end, shown.step)}</span>
          </p>
        </>
      ) : (
        <Absent of={past} />
      )}
    </section>
  );
}
