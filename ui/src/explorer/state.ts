/** State of the page, stored in its address so that a link or a reload restores it. */
import type { Model } from "./model/types";
import { isClass, type Class } from "../common/classes";

export type SortKey = "name" | "hops" | "share" | "rate" | "gain" | "delay" | "p95" | "lost" | "resent";
export type MeasureKey = "share" | "goodput" | "delay" | "lost";
export type CurveKey = "goodput" | "window" | "queue";
export type LayoutKey = "spread" | "real" | "hops";

export interface State {
  control: number;
  /** Place of the seed, or -1 for the mean over all. */
  seed: number;
  /** The control to compare with, or -1. */
  other: number;
  side: boolean;
  scale: "log" | "linear";
  sort: SortKey;
  down: boolean;
  query: string;
  filter: Class | null;
  sharer: number;
  measure: MeasureKey;
  curve: CurveKey;
  layout: LayoutKey;
  all: boolean;
}

const SORTS: SortKey[] = ["name", "hops", "share", "rate", "gain", "delay", "p95", "lost", "resent"];
const MEASURES: MeasureKey[] = ["share", "goodput", "delay", "lost"];
const CURVES: CurveKey[] = ["goodput", "window", "queue"];
const LAYOUTS: LayoutKey[] = ["spread", "real", "hops"];

export function initial(m: Model): State {
  return {
    control: m.baseline,
    seed: -1,
    other: -1,
    side: false,
    scale: "log",
    sort: "share",
    down: false,
    query: "",
    filter: null,
    sharer: -1,
    measure: "share",
    curve: "goodput",
    layout: "spread",
    all: false,
  };
}

/** Reads the address; unknown values leave the state unchanged. */
export function read(m: Model, hash: string): State {
  const s = initial(m);
  const p = new URLSearchParams(hash.replace(/^#/, ""));
  const one = <T extends string>(key: string, known: readonly T[], fallback: T): T =>
    known.find((k) => k === p.get(key)) ?? fallback;
  const named = (key: string, fallback: number) => {
    const name = p.get(key);
    const at = name === null ? -1 : m.controls.findIndex((c) => c.name === name);
    return at < 0 ? fallback : at;
  };
  s.control = named("control", s.control);
  s.other = named("with", -1);
  if (s.other === s.control) s.other = -1;
  s.sharer = p.has("flow") ? m.sharers.findIndex((f) => f.label === p.get("flow")) : -1;
  s.seed = p.has("seed") ? m.seeds.findIndex((v) => String(v) === p.get("seed")) : -1;
  s.side = p.get("side") === "1";
  s.scale = one("scale", ["log", "linear"] as const, s.scale);
  s.sort = one("sort", SORTS, s.sort);
  s.down = p.get("down") === "1";
  s.query = p.get("search") ?? "";
  const filter = p.get("class");
  s.filter = isClass(filter) ? filter : null;
  s.measure = one("measure", MEASURES, s.measure);
  s.curve = one("curve", CURVES, s.curve);
  s.layout = one("layout", LAYOUTS, s.layout);
  return s;
}

/** Writes the values that differ from the initial state. */
export function write(m: Model, s: State): string {
  const start = initial(m);
  const p = new URLSearchParams();
  if (s.control !== start.control) p.set("control", m.controls[s.control]!.name);
  if (s.other >= 0) p.set("with", m.controls[s.other]!.name);
  if (s.sharer >= 0) p.set("flow", m.sharers[s.sharer]!.label);
  if (s.seed >= 0) p.set("seed", String(m.seeds[s.seed]));
  if (s.side) p.set("side", "1");
  if (s.query) p.set("search", s.query);
  if (s.filter) p.set("class", s.filter);
  if (s.down) p.set("down", "1");
  for (const key of ["scale", "sort", "measure", "curve", "layout"] as const) {
    if (s[key] !== start[key]) p.set(key, s[key]);
  }
  return p.toString();
}
