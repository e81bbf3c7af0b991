/**
 * The page's data.
 *
 * The Rust types are in `crates/report/src/explorer/model.rs`; rates are in kbit/s, delays in ms.
 */

export const SCHEMA = 1;

export type Mean = [mean: number, ci95: number | null];

export interface Part {
  t: string;
  r?: "strong" | "bad" | "sharer" | "more" | "dim";
  i?: number;
  g?: string;
}

export interface Node {
  name: string;
  at: [number, number];
  role?: "gateway" | "wired";
}

export interface Sharer {
  label: string;
  ends?: string;
  subscriber?: boolean;
  flows?: string[];
  hops: number;
  home: number;
  paths: number[][];
  fair?: number;
  optimum?: number;
  pauses?: boolean;
}

export interface Result {
  goodput: Mean;
  seeds: number[];
  due?: number;
  share?: number;
  starves?: boolean;
  flows?: number[];
  delay?: [mean: number, p95: number];
  lost: number[];
  answers: number[];
  warmup: number;
  resent?: number;
  worst_hop?: number;
}

export interface NodeResult {
  tx: number;
  busy: number;
  queue: number;
}

export interface Overlap {
  name: string;
  node?: number;
  share: number;
  hidden?: boolean;
  receiver?: boolean;
}

export interface Link {
  from: number;
  to: number;
  frames: number;
  unanswered: number;
  answer_lost?: number;
  clean?: number;
  by?: Overlap[];
}

export interface Decision {
  t: number;
  n: string;
  c: string;
  w: string;
  i?: number;
  r?: number;
  p?: number;
}

export interface Curves {
  goodput: string[];
  limit?: string[];
  window?: string[];
  queue?: string[];
}

export interface Measure {
  name: string;
  value: Mean;
  digits: number;
  unit: string;
}

export interface Control {
  name: string;
  about?: string;
  ours?: boolean;
  starving: number;
  worst: number | null;
  sum: Mean;
  delay: number | null;
  measures: Measure[];
  remarks: string[];
  results: Result[];
  nodes: (NodeResult | null)[];
  links: Link[];
  decisions: { total: number; shown: Decision[] };
  curves: Curves[];
  fingerprints: string[];
}

export interface Model {
  schema: number;
  scenario: string;
  description: string;
  generator: string;
  command: string;
  duration_s: number;
  warmup_s: number;
  seeds: number[];
  noun: { one: string; many: string };
  reference: "fair" | "bound" | "optimum" | "none";
  answer: { headline: Part[][]; facts: { title: string; text: Part[] }[] };
  warnings: string[];
  notes: string[];
  network: {
    nodes: Node[];
    surveyed: boolean;
    schematic?: [number, number][];
    links: [number, number][];
    wires: [number, number][];
  };
  sharers: Sharer[];
  baseline: number;
  controls: Control[];
  sampling?: { first_s: number; every_s: number; number: number };
  settings: [string, string][];
}
