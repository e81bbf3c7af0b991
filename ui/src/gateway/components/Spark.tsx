import type { Class } from "../../common/classes";
import { line, starved, type Hours, type Past } from "../past";
import type { Curve } from "../types";
import { ago } from "../words";

/** Marks of starved slots at the foot of a curve. */
export function Starved({ curve, x, width, height }: { curve: Curve; x: (i: number) => number; width: number; height: number }) {
  return <>{(curve.starved ?? []).map((s, i) => (s > 0 ? <rect class="starved" x={x(i).toFixed(1)} y={height - 3} width={width.toFixed(1)} height="3" /> : null))}</>;
}

/** Text for a curve that is not there. */
export function Absent({ of }: { of: Past<unknown> }) {
  return <span class="xs dim">{of === "none" ? "no history (history.size = 0)" : of === null ? "reading the history" : "left out"}</span>;
}

/** The last hour of a home in a row of the table. */
export function Spark({ curve, hours, width, height, mark }: { curve: Curve | null; hours: Past<Hours>; width: number; height: number; mark: Class }) {
  if (!curve) return <Absent of={hours} />;
  const values = curve.rate.filter((v): v is number => v !== null);
  const top = Math.max(...values, 1);
  const slot = (width - 2) / (curve.rate.length - 1);
  const x = (i: number) => 1 + i * slot;
  const y = (v: number) => height - 4 - (v / top) * (height - 6);
  const time = starved(curve);
  return (
    <svg class={`spark ${mark}`} width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`Rate downstream of the last hour, at most ${Math.round(top)} kbit/s${time ? `, starved for ${ago(time)}` : ""}`}>
      <path d={line(curve.rate, x, y)} />
      <Starved curve={curve} x={x} width={slot} height={height} />
    </svg>
  );
}
