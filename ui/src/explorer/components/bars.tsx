/** Small drawings in rows: share, losses, curve. */
import { percent } from "../../common/format";
import { sum } from "../model/derive";
import type { Result } from "../model/types";
import { classOf, Mark } from "../../common/classes";
import { bar } from "../scale/share";

/** A share with its interval, the seeds, the zones, and another control's share. */
export function ShareBar({
  result,
  share,
  other,
  width,
  scale,
  top,
  seed,
}: {
  result: Result;
  share: number | null;
  other?: number | null;
  width: number;
  scale: "log" | "linear";
  top: number;
  seed: number;
}) {
  const x = bar(width, scale, top);
  const k = classOf(share);
  const due = result.due;
  const [mean, ci] = result.goodput;
  return (
    <svg class="sharebar" width={width} height="26" aria-hidden="true">
      <rect class="zone starve" y="3" width={x(0.1)} height="20" />
      <rect class="zone fair" x={x(0.8)} y="3" width={x(1.25) - x(0.8)} height="20" />
      <path class="one" d={`M${x(1)} 1V25`} />
      {share === null || !due ? null : (
        <>
          {scale === "log" ? (
            <path class="stem" d={`M3 13H${x(share)}`} />
          ) : (
            <rect class={`fillbar ${k}`} x="3" y="9" width={Math.max(1, x(share) - 3)} height="8" rx="2" />
          )}
          {ci !== null && seed < 0 ? <path class={`interval ${k}`} d={`M${x(Math.max(0, mean - ci) / due)} 13H${x((mean + ci) / due)}`} /> : null}
          {result.seeds.length > 1 ? result.seeds.map((g) => <circle class="seed" cx={x(g / due)} cy="13" r="1.4" />) : null}
          {other != null ? (
            <g class="other">
              <path d={`M${x(other)} 6V20`} stroke-width="2" />
              <path d={`M${x(other)} 13H${x(share)}`} stroke-dasharray="1 2" />
            </g>
          ) : null}
          <Mark k={k} x={x(share)} y={13} r={4.6} />
        </>
      )}
    </svg>
  );
}

export const CAUSES = [
  { key: "queue", name: "queue" },
  { key: "wire", name: "wired queue" },
  { key: "retry", name: "retry limit" },
  { key: "limiter", name: "limiter" },
] as const;

/** Losses by cause in greys, because colours show shares. */
export function LossBar({ lost, width = 64, height = 8 }: { lost: number[]; width?: number; height?: number }) {
  const all = sum(lost);
  let x = 0;
  return (
    <svg class="lossbar" width={width} height={height} aria-hidden="true">
      {all < 0.5 ? (
        <path class="none" d={`M0 ${height / 2}H${width}`} />
      ) : (
        lost.map((n, i) => {
          const w = (n / all) * width;
          const at = x;
          x += w;
          return <rect class={`cause${i}`} x={at} width={Math.max(0, w - 0.8)} height={height} />;
        })
      )}
    </svg>
  );
}

export function lossTip(r: Result): string {
  const both = CAUSES.map((c, i) => ({ name: c.name, n: (r.lost[i] ?? 0) + (r.answers[i] ?? 0) })).filter((c) => c.n >= 0.05);
  if (!both.length) return "Lost packets\nnone in the measured interval";
  const all = both.reduce((a, c) => a + c.n, 0);
  return ["Lost packets per run", ...both.map((c) => `${c.name}: ${c.n.toFixed(0)} (${percent(c.n / all)})`)].join("\n");
}

/** A curve without axes; the shaded part is the warm-up. */
export function Sparkline({ values, limit, warmup, width = 104, height = 24, kind }: { values: number[]; limit?: number[]; warmup: number; width?: number; height?: number; kind?: string }) {
  if (!values.length) return null;
  const top = Math.max(1e-9, ...values);
  const n = Math.max(1, values.length - 1);
  const path = (v: number[]) =>
    v.map((y, i) => `${i ? "L" : "M"}${((i / n) * width).toFixed(1)} ${(height - 2 - Math.min(1, y / top) * (height - 4)).toFixed(1)}`).join("");
  return (
    <svg class={`spark ${kind ?? ""}`} width={width} height={height} aria-hidden="true">
      <rect class="warm" width={warmup * width} height={height} />
      {limit?.some((v) => v > 0) ? <path class="limit" d={path(limit)} /> : null}
      <path d={path(values)} />
    </svg>
  );
}
