/** Positions on the map, in a box of 1000 units, y downwards. */
import type { LayoutKey } from "../state";
import type { Model } from "./types";

export type Point = [x: number, y: number];

/** Distance below which marks hide each other. */
const APART = 44;
/** Number of nodes above which maps are too crowded without moving nodes apart. */
const CROWDED = 40;
/** Number of nodes up to which moving them apart is fast. */
const QUICK = 600;

export function layouts(m: Model): [LayoutKey, string, string][] {
  const all: [LayoutKey, string, string][] = [];
  const { nodes, surveyed, schematic } = m.network;
  if (crowded(m)) all.push(["spread", "spread", "Spread\nNodes are moved apart so that none hides another."]);
  all.push(["real", surveyed ? "real" : "by hops", surveyed ? "Real\nThe positions of the scenario." : "By hops\nThe scenario has no positions."]);
  if (surveyed && schematic && schematic.length === nodes.length) {
    all.push(["hops", "by hops", "By hops\nDistances resemble hops; positions are not used."]);
  }
  return all;
}

export function crowded(m: Model): boolean {
  const n = m.network.nodes.length;
  return n > CROWDED && n <= QUICK;
}

export function positions(m: Model, layout: LayoutKey): Point[] {
  const { nodes, schematic } = m.network;
  const given = layout === "hops" && schematic?.length === nodes.length ? schematic : nodes.map((n) => n.at);
  const boxed = fit(given);
  return layout === "spread" && crowded(m) ? apart(boxed) : boxed;
}

function fit(points: Point[]): Point[] {
  if (!points.length) return [];
  const [xs, ys] = [points.map((p) => p[0]), points.map((p) => p[1])];
  const range = (v: number[]): Point => v.reduce<Point>(([a, b], x) => [Math.min(a, x), Math.max(b, x)], [Infinity, -Infinity]);
  const [left, right] = range(xs);
  const [bottom, top] = range(ys);
  const size = Math.max(right - left, top - bottom) || 1;
  return points.map(([x, y]) => [((x - left) / size) * 1000, ((top - y) / size) * 1000]);
}

function apart(points: Point[]): Point[] {
  const p = points.map(([x, y]) => [x, y] as Point);
  const rounds = Math.min(300, Math.ceil(3e6 / (p.length * p.length)));
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < p.length; i++) {
      for (let j = 0; j < i; j++) {
        let dx = p[i]![0] - p[j]![0];
        let dy = p[i]![1] - p[j]![1];
        if (dx === 0 && dy === 0) [dx, dy] = [Math.cos(i), Math.sin(i)];
        const d = Math.hypot(dx, dy);
        if (d < APART) {
          const s = ((APART - d) / d / 2) * 0.5;
          p[i]![0] += dx * s;
          p[i]![1] += dy * s;
          p[j]![0] -= dx * s;
          p[j]![1] -= dy * s;
        }
      }
      p[i]![0] += (points[i]![0] - p[i]![0]) * 0.02;
      p[i]![1] += (points[i]![1] - p[i]![1]) * 0.02;
    }
  }
  return p;
}
