import { useEffect, useRef } from "preact/hooks";
import { Swatch } from "../../common/classes";
import { count } from "../../common/format";
import { csv, save } from "../../common/save";
import { hourOf, type Hours, type Past } from "../past";
import type { Bound, Content, Home } from "../types";
import { BOUNDS, limit, matches, rate, STATES } from "../words";
import { Spark } from "./Spark";

export type SortKey = "state" | "name" | "rate" | "up" | "limit" | "bound" | "rtt";

const COLUMNS: [key: SortKey | null, title: string, kind: string][] = [
  ["name", "home", ""],
  ["state", "state", ""],
  ["rate", "down, of limit", ""],
  ["up", "up", "num hide-s"],
  ["limit", "limit", "num hide-s"],
  ["bound", "bottleneck", "hide-s"],
  ["rtt", "RTT", "num"],
  [null, "last hour", "hide-s"],
  [null, "reason", "why hide-d"],
];

const KEYS: Record<SortKey, (h: Home) => number | string> = {
  state: (h) => STATES[h.state].rank,
  name: (h) => h.name.toLowerCase(),
  rate: (h) => -(h.ways[0].rate ?? -1),
  up: (h) => -(h.ways[1].rate ?? -1),
  limit: (h) => h.ways[0].limit ?? Infinity,
  bound: (h) => BOUNDS[h.bound].name,
  rtt: (h) => -(h.rtt ?? -1),
};

/** Homes in the order of the table. */
export function ordered(c: Content, v: { sort: SortKey; down: boolean; query: string; bound: Bound | null }): Home[] {
  const key = KEYS[v.sort];
  const list = [...c.homes.values()].filter((h) => matches(h, v.query) && (!v.bound || h.bound === v.bound));
  const sign = v.down ? -1 : 1;
  return list.sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    const by = x < y ? -1 : x > y ? 1 : 0;
    return by * sign || (b.ways[0].rate ?? 0) - (a.ways[0].rate ?? 0) || a.name.localeCompare(b.name);
  });
}

function Bar({ h }: { h: Home }) {
  const [w] = h.ways;
  const top = w.limit ?? w.share ?? w.rate ?? 0;
  const part = top > 0 ? Math.min(1, (w.rate ?? 0) / top) : 0;
  const mark = STATES[h.state].mark;
  return (
    <span class="bar">
      <svg class={`fillbar ${mark}`} viewBox="0 0 120 10" preserveAspectRatio="none" aria-hidden="true">
        <rect class="all" width="120" height="10" rx="2" />
        <rect width={part * 120} height="10" rx="2" />
        {w.limit !== null ? <rect class={w.enforced ? "limit" : "limit off"} x="118" width="2" height="10" /> : null}
      </svg>
      <span class="xs">{rate(w.rate)}</span>
    </span>
  );
}

export function Homes(p: {
  content: Content;
  hours: Past<Hours>;
  rows: Home[];
  most: number;
  more: () => void;
  sort: SortKey;
  down: boolean;
  setSort: (key: SortKey) => void;
  query: string;
  setQuery: (q: string) => void;
  bound: Bound | null;
  clear: () => void;
  chosen: string | null;
  choose: (name: string) => void;
}) {
  const { rows, most } = p;
  const box = useRef<HTMLDivElement | null>(null);
  const shown = rows.slice(0, most);
  // Columns of the reason fade where a row is narrow; the drawer repeats it.
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      const row = (e.target as HTMLElement).closest<HTMLElement>("tr[data-row]");
      if (!row) return;
      const step = e.key === "ArrowDown" ? row.nextElementSibling : e.key === "ArrowUp" ? row.previousElementSibling : null;
      if (step instanceof HTMLElement) {
        e.preventDefault();
        step.focus();
      } else if (e.key === "Enter" || e.key === " ") {
        e.preventDefault();
        p.choose(row.dataset.row!);
      }
    };
    const element = box.current;
    element?.addEventListener("keydown", key);
    return () => element?.removeEventListener("keydown", key);
  }, [p.choose]);
  const total = p.content.homes.size;
  const download = () =>
    save(
      "homes.csv",
      csv([
        ["home", "addresses", "state", "down_bps", "up_bps", "limit_down_bps", "limit_up_bps", "plan_down_bps", "bottleneck", "rtt_ms", "reason"],
        ...rows.map((h) => [h.name, h.addresses.join(" "), STATES[h.state].name, h.ways[0].rate, h.ways[1].rate, h.ways[0].limit, h.ways[1].limit, h.ways[0].plan, BOUNDS[h.bound].name, h.rtt, h.reason]),
      ]),
      "text/csv",
    );
  return (
    <section class="card" id="homes">
      <header>
        <h2>Homes</h2>
        <span class="sm mut">
          {rows.length === total ? count(total, "home") : `${rows.length} of ${count(total, "home")}`}{" "}
          {p.bound ? (
            <button type="button" class="chip" onClick={p.clear} aria-label={`Show homes of every bottleneck, not only ${BOUNDS[p.bound].name}`}>
              {BOUNDS[p.bound].name} ✕
            </button>
          ) : null}
        </span>
        <span class="sp" />
        <input class="search" type="search" id="search" placeholder="Name, address, state  /" aria-label="Search homes" value={p.query} onInput={(e) => p.setQuery(e.currentTarget.value)} />
        <button type="button" class="btn hide-s" onClick={download}>
          CSV
        </button>
      </header>
      <div class="scroll" ref={box}>
        <table class="t">
          <thead>
            <tr>
              {COLUMNS.map(([key, title, kind]) => (
                <th scope="col" class={kind} aria-sort={key && key === p.sort ? (p.down ? "descending" : "ascending") : undefined}>
                  {key ? (
                    <button type="button" onClick={() => p.setSort(key)}>
                      {title}
                      {key === p.sort ? (p.down ? " ▼" : " ▲") : ""}
                    </button>
                  ) : (
                    title
                  )}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((h) => (
              <tr key={h.name} data-row={h.name} tabIndex={0} class={h.name === p.chosen ? "sel" : ""} aria-label={`${h.name}, ${STATES[h.state].name}. Enter opens its details.`} onClick={() => p.choose(h.name)}>
                <th scope="row">
                  <span class="name" dir="auto">{h.name}</span>
                  <span class="addr xs dim">{h.addresses[0] ?? ""}</span>
                </th>
                <td>
                  <span class={`st ${h.state}`}>
                    <Swatch k={STATES[h.state].mark} />
                    {STATES[h.state].name}
                  </span>
                </td>
                <td>
                  <Bar h={h} />
                </td>
                <td class="num hide-s">{rate(h.ways[1].rate)}</td>
                <td class={`num hide-s${h.ways[0].enforced ? "" : " dim"}`} data-tip={h.ways[0].enforced ? undefined : "Not in force\nThe limit that the control would set."}>
                  {limit(h.ways[0].limit)}
                </td>
                <td class="hide-s" data-tip={`${BOUNDS[h.bound].name}\n${BOUNDS[h.bound].tip}`}>{BOUNDS[h.bound].name}</td>
                <td class="num">{h.rtt === null ? "–" : `${Math.round(h.rtt)} ms`}</td>
                <td class="hide-s">
                  <Spark curve={hourOf(p.hours, h)} hours={p.hours} width={120} height={26} mark={STATES[h.state].mark} />
                </td>
                <td class="why hide-d" data-tip={`${h.name}\n${h.reason}`}>
                  {h.reason}
                </td>
              </tr>
            ))}
            {rows.length === 0 ? (
              <tr class="spacer">
                <td colSpan={COLUMNS.length} class="pad">
                  {total ? "No home matches." : "No home is known."}{" "}
                  {total ? (
                    <button type="button" class="btn" onClick={p.clear}>
                      Show all homes
                    </button>
                  ) : null}
                </td>
              </tr>
            ) : null}
          </tbody>
        </table>
      </div>
      {rows.length > most ? (
        <p class="pad">
          <button type="button" class="btn" onClick={p.more}>
            Show {Math.min(50, rows.length - most)} more of {rows.length - most}
          </button>
        </p>
      ) : null}
    </section>
  );
}
