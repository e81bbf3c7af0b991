import { useMemo } from "preact/hooks";
import { percent, rate } from "../../common/format";
import { useSize } from "../../common/size";
import type { View } from "../model/derive";
import type { Model } from "../model/types";
import { className, Mark } from "../../common/classes";
import { axis, stack, TICKS } from "../scale/share";
import { Term } from "./Term";
import { memo } from "../../common/memo";

/** The picture of the first screen: a row per control, a mark per flow at its share. */
export const StripPlot = memo(function StripPlot({
  model,
  views,
  control,
  sharer,
  choose,
  select,
}: {
  model: Model;
  views: View[];
  control: number;
  sharer: number;
  choose: (control: number) => void;
  select: (sharer: number) => void;
}) {
  const [ref, { width: full }] = useSize<HTMLDivElement>();
  const phone = full < 520;
  const width = Math.max(200, full - (phone ? 30 : 356));
  const many = model.sharers.length > 40;
  const crowd = model.sharers.length > 200;
  const height = many ? 84 : model.controls.length > 5 ? 52 : 64;
  const r = crowd ? 2.2 : many ? 3 : 4;
  const gutter = many ? 58 : 36;
  const x = axis(width, gutter);
  const rows = useMemo(
    () =>
      full
        ? views.map((v) => {
            const shown = v.share.map((s, i) => ({ s, i })).filter((p): p is { s: number; i: number } => p.s !== null);
            shown.sort((a, b) => a.s - b.s);
            const low = shown.filter((p) => p.s <= 0.001);
            // Marks at the left end share its gutter.
            const columns = Math.max(1, Math.floor((gutter - 2 * r) / (2.1 * r)));
            const places = shown.map((p, k) => (p.s <= 0.001 ? r + 2 + (k % columns) * 2.1 * r : x(p.s)));
            const at = stack(places, 2.1 * r, height - 8);
            return { shown, at, low: low.length };
          })
        : [],
    [views, full],
  );
  const key = (e: KeyboardEvent) => {
    const by = e.key === "ArrowDown" || e.key === "ArrowRight" ? 1 : e.key === "ArrowUp" || e.key === "ArrowLeft" ? -1 : 0;
    if (by) {
      e.preventDefault();
      const next = (control + by + views.length) % views.length;
      choose(next);
      const all = (e.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("[role=radio]");
      requestAnimationFrame(() => all[next]?.focus({ preventScroll: true }));
    } else if (e.key === "Enter" || e.key === " ") {
      e.preventDefault();
    }
  };
  return (
    <div class="strip" ref={ref}>
      <div class="srow hd">
        <span class="c1">{phone ? "" : "control"}</span>
        <svg width={width} height="18" aria-hidden="true" class="axis">
          <text class="starve" x={gutter + 6} y="13">
            starving
          </text>
          <text class="fair" x={x(1)} y="13" text-anchor="middle">
            fair
          </text>
          <text class="above" x={Math.min(x(3.2), width - 58)} y="13">
            above fair
          </text>
        </svg>
        <span class="num">
          <Term of="starving">starving</Term>
        </span>
        <span class="num">
          <Term of="reference">worst</Term>
        </span>
        <span class="num">
          <Term of="sum">Mbit/s</Term>
        </span>
        <span class="num">
          <Term of="delay">ms</Term>
        </span>
      </div>
      <div role="radiogroup" aria-label={`Control; share of the reference rate of every ${model.noun.one}`} onKeyDown={key}>
        {model.controls.map((c, k) => {
          const v = views[k]!;
          const row = rows[k];
          return (
            <div
              class="srow"
              role="radio"
              aria-checked={k === control}
              aria-label={`${c.name}: ${v.starving || "none"} starving, worst ${percent(v.worst)}, sum ${rate(c.sum[0])}${c.delay === null ? "" : `, delay ${Math.round(c.delay)} ms`}`}
              tabIndex={k === control ? 0 : -1}
              onClick={() => choose(k)}
            >
              <span class="c1">
                <b>{c.name}</b>
                {c.ours ? <span data-tip={"* ours\nNot published, or not as it is here."}>{"\u00a0*"}</span> : null}
                <small>{c.about}</small>
              </span>
              <svg width={width} height={height} aria-hidden="true" class="dots">
                <rect class="zone starve" width={x(0.1)} height={height} />
                <path class="gutter" d={`M${gutter} 0V${height}`} />
                <rect class="zone fair" x={x(0.8)} width={x(1.25) - x(0.8)} height={height} />
                <path class="one" d={`M${x(1)} 0V${height}`} />
                {row?.shown.map(({ s, i }, n) => (
                  <g
                    class={`dot${i === sharer ? " sel" : ""}`}
                    data-tip={`${model.sharers[i]!.label}\n${className(v.class[i]!)}: ${percent(s)} of the reference\n${rate(v.goodput[i]!)} with ${c.name}`}
                    onClick={(e) => {
                      e.stopPropagation();
                      select(i);
                    }}
                  >
                    {i === sharer ? <circle class="halo" cx={row.at[n]!.x} cy={height / 2 + row.at[n]!.y} r={r + 4.5} /> : null}
                    <Mark k={v.class[i]!} x={row.at[n]!.x} y={height / 2 + row.at[n]!.y} r={r} />
                  </g>
                ))}
              </svg>
              <span class={`num ${v.starving ? "bad" : "good"}`}>{v.starving || "none"}</span>
              <span class="num">{percent(v.worst)}</span>
              <span class="num">{(c.sum[0] / 1e3).toFixed(c.sum[0] < 99_950 ? 1 : 0)}</span>
              <span class="num">{c.delay === null ? "–" : Math.round(c.delay)}</span>
            </div>
          );
        })}
      </div>
      <div class="srow hd foot" aria-hidden="true">
        <span class="c1" />
        <svg width={width} height="16" class="axis">
          <text x={2} y="12">
            ≤0.1 %
          </text>
          {TICKS.map(([s, text]) => (
            <text x={x(s)} y="12" text-anchor="middle">
              {text}
            </text>
          ))}
        </svg>
      </div>
    </div>
  );
});
