/**
 * Content that the daemon sends (crates/agent/src/gateway/page/model.rs).
 *
 * Rates are in bit/s, times in seconds since the daemon's start.
 */

export interface Piece {
  text: string;
  home?: string;
  bad?: boolean;
}

export type StateName = "starving" | "low" | "short" | "paused" | "boosted" | "served" | "idle";

export interface Way {
  rate: number | null;
  limit: number | null;
  enforced: boolean;
  by: string;
  plan: number | null;
  guarantee: number | null;
  share: number | null;
  asks: boolean;
  drops: number;
  change?: [at: number, text: string, code: string];
}

export interface Home {
  name: string;
  addresses: string[];
  weight: number;
  discovered: boolean;
  state: StateName;
  bound: Bound;
  reason: string;
  ways: [Way, Way];
  rtt: number | null;
  base: number | null;
  /** Next node towards the gateway, null for the gateway; true if no node is between. */
  via?: [node: string | null, exact: boolean];
  until?: number;
}

export type Bound = "control" | "aggregate" | "plan" | "override" | "radio" | "mesh" | "none";

export interface Head {
  version: string;
  mode: string;
  enforced: boolean;
  control: string;
  actions: boolean;
  headline: Piece[];
  facts: { title: string; text: Piece[] }[];
  links: [name: string, capacity: number, measured: boolean][];
  sources: [name: string, text: string, failed: boolean][];
  paths: string;
  relays: [name: string, node: string | null, exact: boolean][];
}

export interface GatewayEvent {
  at: number;
  code: string;
  level: "info" | "warning" | "error";
  text: string;
  more?: number;
}

export interface Whole {
  number: number;
  uptime: number;
  head: Head;
  homes: Home[];
  events: GatewayEvent[];
}

export interface Change {
  number: number;
  uptime: number;
  head: Head;
  homes: Home[];
  gone: string[];
  events: GatewayEvent[];
}

/** Values of equal slots, the oldest first; the last one is the present. Rates in kbit/s. */
export interface Curve {
  rate: (number | null)[];
  limit?: (number | null)[];
  starved?: number[];
}

/** The last hour of all homes with traffic (crates/agent/src/gateway/history/curves.rs). */
export interface Hour {
  end: number;
  step: number;
  more: boolean;
  idle: (number | null)[];
  homes: Record<string, Curve>;
}

/** Curves of one home, down and up. */
export interface HomeCurves {
  end: number;
  step: number;
  ways: [Curve, Curve];
}

/** Content as the page keeps it. */
export interface Content {
  head: Head;
  uptime: number;
  homes: Map<string, Home>;
  events: GatewayEvent[];
}
