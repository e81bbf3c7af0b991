import type { Class } from "../../common/classes";

/** A curve of the last hour, or "no data yet". */
export function Spark({ values, width, height, mark, limit }: { values: number[]; width: number; height: number; mark: Class; limit?: number | null }) {
  if (values.length < 2) return <span class="xs dim">no data yet</span>;
  const top = Math.max(...values, limit ?? 0, 1);
  const x = (i: number) => width - 1 - ((values.length - 1 - i) * (width - 2)) / 60;
  const y = (v: number) => height - 1 - (v / top) * (height - 3);
  const line = values.map((v, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join("");
  return (
    <svg class={`spark ${mark}`} width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`Rate downstream of the last ${values.length - 1} minutes, at most ${Math.round(Math.max(...values))} kbit/s`}>
      <path class="ground" d={`${line}L${x(values.length - 1)} ${height}L${x(0).toFixed(1)} ${height}Z`} />
      <path d={line} />
      {limit ? <path class="limit" d={`M0 ${y(limit)}H${width}`} /> : null}
    </svg>
  );
}
