/** The recorded past of the homes, from the daemon's history. */
import { useEffect, useState } from "preact/hooks";
import type { Curve, Home, HomeCurves, Hour } from "./types";

/** Time between two requests, and after one without an answer, ms. */
const AGAIN = 60_000;
const SOON = 5_000;

export type Past<T> = T | "none" | null;

/** Follows an endpoint of the history; "none": the daemon keeps no history. */
function useEndpoint<T>(path: string, read: (value: unknown) => T): Past<T> {
  const [past, set] = useState<Past<T>>(null);
  useEffect(() => {
    let ended = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async () => {
      let wait = SOON;
      try {
        // A tab in the background needs no curves.
        if (!document.hidden) {
          const answer = await fetch(path, { cache: "no-store" });
          if (answer.ok && !ended) set(read(await answer.json()));
          else if (answer.status === 404 && !ended) set("none");
          wait = answer.status === 404 ? 0 : answer.ok ? AGAIN : SOON;
        }
      } catch {
        // The daemon is away; the curves stay.
      }
      // Without a history there will be none before the daemon's restart.
      if (!ended && wait > 0) timer = setTimeout(ask, wait);
    };
    void ask();
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [path]);
  return past;
}

export interface Hours {
  idle: (number | null)[];
  more: boolean;
  homes: Map<string, Curve>;
}

export function useHours(): Past<Hours> {
  return useEndpoint("api/history", (value) => {
    const { idle, more, homes } = value as Hour;
    return { idle, more, homes: new Map(Object.entries(homes)) };
  });
}

export function useHome(name: string): Past<{ hour: HomeCurves; week: HomeCurves }> {
  return useEndpoint(`api/history?home=${encodeURIComponent(name)}`, (value) => value as { hour: HomeCurves; week: HomeCurves });
}

/** The last hour of a home with its present rate; `null` until it is known. */
export function hourOf(hours: Past<Hours>, home: Home): Curve | null {
  if (hours === null || hours === "none") return null;
  const curve = hours.homes.get(home.name) ?? (hours.more ? null : { rate: hours.idle });
  return curve && { ...curve, rate: [...curve.rate.slice(0, -1), (home.ways[0].rate ?? 0) / 1e3] };
}

/** Parts of a line without a gap, as SVG; steps between values for `steps`. */
export function line(values: (number | null)[], x: (i: number) => number, y: (v: number) => number, steps = false): string {
  let open = false;
  return values
    .map((v, i) => {
      if (v === null) {
        open = false;
        return "";
      }
      const to = `${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
      // A value between two gaps is a point.
      const text = open ? (steps ? `H${x(i).toFixed(1)}V${y(v).toFixed(1)}` : `L${to}`) : `M${to}h.1`;
      open = true;
      return text;
    })
    .join("");
}

/** Sum of the starved time, in s. */
export function starved(curve: Curve): number {
  return (curve.starved ?? []).reduce((sum, s) => sum + s, 0);
}
