import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { count, ms, percent, rate } from "../../common/format";
import { TERMS, type Term } from "../lib/glossary";
import { memo } from "../../common/memo";
import { useSize } from "../../common/size";
import { decode } from "../model/curve";
import { lost, type View } from "../model/derive";
import type { Model } from "../model/types";
import { className, ClassName } from "../../common/classes";
import { linearTop } from "../scale/share";
import type { SortKey, State } from "../state";
import { LossBar, lossTip, ShareBar, Sparkline } from "./bars";

/** Number of rows above which only visible ones are drawn. */
const WINDOWED = 120;
const ROW = 38;
const PHONE_ROW = 50;

/** Returns the matching rows of the table, in their order. */
export function rows(m: Model, s: State, views: View[]): number[] {
  const v = views[s.control]!;
  const other = views[s.other];
  const results = m.controls[s.control]!.results;
  const words = s.query.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (i: number) => `${m.sharers[i]!.label} ${className(v.class[i]!)} ${m.network.nodes[m.sharers[i]!.home]?.name ?? ""}`.toLowerCase();
  const key: Record<SortKey, (i: number) => number | string> = {
    name: (i) => m.sharers[i]!.label,
    hops: (i) => m.sharers[i]!.hops,
    share: (i) => v.share[i] ?? Infinity,
    rate: (i) => v.goodput[i]!,
    gain: (i) => (other ? v.goodput[i]! - other.goodput[i]! : 0),
    delay: (i) => results[i]!.delay?.[0] ?? Infinity,
    p95: (i) => results[i]!.delay?.[1] ?? Infinity,
    lost: (i) => lost(results[i]!),
    resent: (i) => results[i]!.resent ?? -1,
  };
  const of = key[s.sort];
  const names = new Intl.Collator(undefined, { numeric: true });
  const compare = (a: number, b: number) => {
    const [x, y] = [of(a), of(b)];
    if (typeof x === "string" || typeof y === "string") return names.compare(String(x), String(y));
    return x < y ? -1 : x > y ? 1 : 0;
  };
  return m.sharers
    .map((_, i) => i)
    .filter((i) => (!s.filter || v.class[i] === s.filter) && words.every((w) => text(i).includes(w)))
    .sort((a, b) => (s.down ? -1 : 1) * compare(a, b) || names.compare(m.sharers[a]!.label, m.sharers[b]!.label));
}

interface Props {
  model: Model;
  state: State;
  views: View[];
  order: number[];
  narrow: boolean;
  sort: (key: SortKey) => void;
  select: (sharer: number) => void;
  clear: () => void;
}

export const FlowTable = memo(function FlowTable({ model, state, views, order, narrow, sort, select, clear }: Props) {
  const [ref, size] = useSize<HTMLDivElement>();
  const phone = size.width > 0 && size.width < 720;
  const row = phone ? PHONE_ROW : ROW;
  const windowed = order.length > WINDOWED;
  const [top, setTop] = useState(0);
  const scroller = useRef<HTMLDivElement | null>(null);
  const v = views[state.control]!;
  const other = state.other >= 0 ? views[state.other] : undefined;
  const c = model.controls[state.control]!;
  const linear = useMemo(() => linearTop([...v.share, ...(other?.share ?? [])]), [v, other]);
  const from = windowed ? Math.max(0, Math.floor(top / row) - 8) : 0;
  const until = windowed ? Math.min(order.length, from + 36) : order.length;
  const barWidth = phone ? Math.max(92, size.width - 250) : 230;
  const curves = c.curves[Math.max(0, state.seed)];
  useEffect(() => {
    if (!windowed || state.sharer < 0) return;
    const at = order.indexOf(state.sharer);
    const box = scroller.current;
    if (at < 0 || !box) return;
    if (at * row < box.scrollTop || (at + 2) * row > box.scrollTop + box.clientHeight) box.scrollTop = Math.max(0, (at - 3) * row);
  }, [state.sharer]);

  const head = (key: SortKey, text: string, numeric: boolean, term?: Term, hide = false) =>
    hide ? null : (
      <th scope="col" class={numeric ? "num" : ""} aria-sort={state.sort === key ? (state.down ? "descending" : "ascending") : undefined}>
        <button type="button" onClick={() => sort(key)} data-tip={term && `${TERMS[term][0]}\n${TERMS[term][1]}`}>
          {text}
          {state.sort === key ? (state.down ? " ▼" : " ▲") : ""}
        </button>
      </th>
    );
  const columns = phone ? 3 : narrow ? 7 : 9;
  const nav = (e: KeyboardEvent, i: number) => {
    if (e.key === "Enter" || e.key === " ") {
      e.preventDefault();
      select(i);
    } else if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      const next = e.key === "ArrowDown" ? "nextElementSibling" : "previousElementSibling";
      const target = (e.currentTarget as HTMLElement)[next] as HTMLElement | null;
      if (target?.dataset.row !== undefined) {
        e.preventDefault();
        target.focus();
      }
    }
  };
  return (
    <div ref={ref}>
      <div class="scroll tbl" ref={scroller} tabIndex={-1} onScroll={windowed ? (e) => setTop(e.currentTarget.scrollTop) : undefined}>
        <table class="t" aria-rowcount={order.length + 1}>
          <thead>
            <tr>
              {head("name", model.noun.one, false)}
              {head("hops", "hops", true, undefined, phone)}
              {head("share", "share of reference", false, "reference")}
              {head("rate", "goodput", true, undefined, phone)}
              {other ? head("gain", "difference", true, undefined, phone) : null}
              {phone || narrow ? null : <th scope="col">over time</th>}
              {head("delay", "delay", true, "delay", phone)}
              {head("p95", "95 %", true, undefined, phone || narrow)}
              {head("lost", "lost packets", false, undefined, phone)}
              {head("resent", "resent", true, "resent", phone || narrow)}
            </tr>
          </thead>
          <tbody>
            {from > 0 ? (
              <tr class="spacer" aria-hidden="true">
                <td colSpan={columns + 1} style={{ height: `${from * row}px` }} />
              </tr>
            ) : null}
            {order.slice(from, until).map((i, n) => {
              const s = model.sharers[i]!;
              const r = c.results[i]!;
              const gain = other ? v.goodput[i]! - other.goodput[i]! : 0;
              return (
                <tr
                  key={i}
                  tabIndex={0}
                  data-row={i}
                  aria-rowindex={from + n + 2}
                  aria-selected={state.sharer === i}
                  class={state.sharer === i ? "sel" : ""}
                  onClick={() => select(i)}
                  onKeyDown={(e) => nav(e, i)}
                >
                  <th scope="row">
                    <span class="name">{s.label}</span>
                    {phone ? (
                      <span class="xs dim under">
                        {rate(v.goodput[i]!)} · {count(s.hops, "hop")}
                      </span>
                    ) : s.pauses ? (
                      <span class="chip" data-tip={"Pauses\nIts application pauses. It is judged by the time in which it had data to send."}>
                        pauses
                      </span>
                    ) : null}
                  </th>
                  {phone ? null : <td class="num">{s.hops}</td>}
                  <td>
                    <span class="st">
                      <ShareBar result={r} share={v.share[i]!} other={other?.share[i]} width={barWidth} scale={state.scale} top={linear} seed={state.seed} />
                      <span class="pct">
                        {v.share[i] == null ? <ClassName k="none" /> : percent(v.share[i])}
                        <span class="vh"> {className(v.class[i]!)}</span>
                      </span>
                    </span>
                  </td>
                  {phone ? null : <td class="num">{rate(v.goodput[i]!)}</td>}
                  {other && !phone ? (
                    <td class="num">
                      {gain < 0 ? "−" : "+"}
                      {rate(Math.abs(gain))}
                    </td>
                  ) : null}
                  {phone || narrow ? null : (
                    <td>
                      <Sparkline values={decode(curves?.goodput[i])} warmup={model.warmup_s / model.duration_s} />
                    </td>
                  )}
                  {phone ? null : <td class="num">{r.delay ? ms(r.delay[0]) : "–"}</td>}
                  {phone || narrow ? null : <td class="num dim">{r.delay ? ms(r.delay[1]) : "–"}</td>}
                  {phone ? null : (
                    <td data-tip={lossTip(r)}>
                      <span class="st">
                        <LossBar lost={r.lost.map((n, k) => n + (r.answers[k] ?? 0))} />
                        <span class="lossn">{lost(r).toFixed(0)}</span>
                      </span>
                    </td>
                  )}
                  {phone || narrow ? null : <td class="num dim">{r.resent == null ? "–" : percent(r.resent)}</td>}
                </tr>
              );
            })}
            {until < order.length ? (
              <tr class="spacer" aria-hidden="true">
                <td colSpan={columns + 1} style={{ height: `${(order.length - until) * row}px` }} />
              </tr>
            ) : null}
            {order.length ? null : (
              <tr>
                <td colSpan={columns + 1}>
                  No {model.noun.one} matches.{" "}
                  <button type="button" class="btn" onClick={clear}>
                    Show all {model.noun.many}
                  </button>
                </td>
              </tr>
            )}
          </tbody>
        </table>
      </div>
    </div>
  );
});
