/** Values that the page computes from its data. */
import { classOf, type Class } from "../../common/classes";
import type { Control, Model, Result } from "./types";

/** Results of a control for one seed or for the mean of all. */
export interface View {
  control: number;
  share: (number | null)[];
  goodput: number[];
  class: Class[];
  /** By node: the worst class among the sharers at home there. */
  node: (Class | null)[];
  nodeShare: (number | null)[];
  count: Record<Class, number>;
  starving: number;
  worst: number | null;
}

export const lost = (r: Result) => sum(r.lost) + sum(r.answers);

export function goodputOf(r: Result, seed: number): number {
  return seed < 0 ? r.goodput[0] : (r.seeds[seed] ?? r.goodput[0]);
}

export function shareOf(r: Result, seed: number): number | null {
  if (seed < 0 || r.share == null) return r.share ?? null;
  return r.due ? goodputOf(r, seed) / r.due : null;
}

export function view(m: Model, control: number, seed: number): View {
  const c = m.controls[control]!;
  const share = c.results.map((r) => shareOf(r, seed));
  const classes = share.map(classOf);
  const nodeShare: (number | null)[] = m.network.nodes.map(() => null);
  const node: (Class | null)[] = m.network.nodes.map(() => null);
  m.sharers.forEach((s, i) => {
    const now = share[i];
    if (now == null) {
      node[s.home] ??= "none";
      return;
    }
    const worst = nodeShare[s.home];
    if (worst == null || now < worst) {
      nodeShare[s.home] = now;
      node[s.home] = classes[i]!;
    }
  });
  const count = { starve: 0, low: 0, short: 0, fair: 0, above: 0, none: 0 };
  classes.forEach((k) => count[k]++);
  const known = share.filter((s): s is number => s != null);
  return {
    control,
    share,
    goodput: c.results.map((r) => goodputOf(r, seed)),
    class: classes,
    node,
    nodeShare,
    count,
    starving: seed < 0 ? c.starving : count.starve,
    worst: known.length ? Math.min(...known) : null,
  };
}

/** Returns the controls to draw in limited space: the chosen ones, the baseline, the best. */
export function shown(m: Model, chosen: number, other: number, most: number): number[] {
  const best = m.controls
    .map((_, i) => i)
    .sort((a, b) => m.controls[a]!.starving - m.controls[b]!.starving || (m.controls[b]!.worst ?? 0) - (m.controls[a]!.worst ?? 0));
  const order = [chosen, other, m.baseline, ...best].filter((i) => i >= 0);
  return [...new Set(order)].slice(0, most).sort((a, b) => a - b);
}

/** Returns the flows that are drawn first: two starving ones and the largest one. */
export function firstPins(m: Model): number[] {
  const results = m.controls[m.baseline]!.results;
  const order = results.map((_, i) => i).sort((a, b) => (results[a]!.share ?? Infinity) - (results[b]!.share ?? Infinity));
  const largest = results.reduce((best, r, i) => (r.goodput[0] > (results[best]?.goodput[0] ?? -1) ? i : best), 0);
  return [...new Set([order[0], order[1], largest])].filter((i): i is number => i !== undefined).slice(0, 3);
}

export function linkOf(c: Control, from: number, to: number) {
  return c.links.find((l) => l.from === from && l.to === to);
}

export function sum(values: number[]): number {
  return values.reduce((a, b) => a + b, 0);
}

export function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const n = sorted.length;
  return n ? (sorted[(n - 1) >> 1]! + sorted[n >> 1]!) / 2 : 0;
}
