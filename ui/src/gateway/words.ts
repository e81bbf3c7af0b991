/** Words and colours of states and bottlenecks. */
import type { Class } from "../common/classes";
import { rate as kbps } from "../common/format";
import type { Bound, Home, StateName } from "./types";

export const STATES: Record<StateName, { name: string; mark: Class; rank: number }> = {
  starving: { name: "starving", mark: "starve", rank: 0 },
  low: { name: "low", mark: "low", rank: 1 },
  short: { name: "short", mark: "short", rank: 2 },
  paused: { name: "paused", mark: "none", rank: 3 },
  boosted: { name: "boosted", mark: "above", rank: 4 },
  served: { name: "served", mark: "fair", rank: 5 },
  idle: { name: "idle", mark: "none", rank: 6 },
};

export const BOUNDS: Record<Bound, { name: string; tip: string }> = {
  control: { name: "mesh share", tip: "The limit that the control sets: the rate that each busy home may use so that none starves." },
  aggregate: { name: "all homes", tip: "The control limits all homes together; they share it in the gateway's queue." },
  plan: { name: "plan", tip: "The rate of the home's plan in the configuration." },
  override: { name: "override", tip: "A limit set by hand. It ends at the time shown and survives a restart." },
  radio: { name: "radio path", tip: "The mesh carries less than the home asks for; a higher limit would not help." },
  mesh: { name: "mesh, no limit", tip: "No limit is in force: other homes or the path through the mesh hold the home back." },
  none: { name: "asks for less", tip: "The home is idle or asks for less than its limit." },
};

export function rate(bits: number | null | undefined): string {
  return bits == null ? "–" : kbps(bits / 1e3);
}

export function limit(bits: number | null): string {
  return bits == null ? "no limit" : rate(bits);
}

/** A time on the daemon's clock as the time of day, or with the weekday if it is not today. */
export function clock(at: number, uptime: number, now: number): string {
  const date = new Date(now - (uptime - at) * 1000);
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const same = date.toDateString() === new Date(now).toDateString();
  return same ? time : `${date.toLocaleDateString([], { weekday: "short", day: "numeric", month: "short" })} ${time}`;
}

export function ago(seconds: number): string {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}

/** True if a home matches a search by name, address, state or reason. */
export function matches(h: Home, query: string): boolean {
  const q = query.trim().toLowerCase();
  return !q || [h.name, ...h.addresses, h.reason, STATES[h.state].name, BOUNDS[h.bound].name].some((t) => t.toLowerCase().includes(q));
}
