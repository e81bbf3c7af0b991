/** Live content: a stream of events, or repeated requests if no stream is free. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Change, Content, GatewayEvent, Whole } from "./types";

const MOST_EVENTS = 200;
/** Times after which values count as old, and between two requests, ms. */
const OLD = 30_000;
const POLL = 10_000;

function sorted(events: GatewayEvent[]): GatewayEvent[] {
  return [...events].sort((a, b) => b.at - a.at).slice(0, MOST_EVENTS);
}

export function whole(w: Whole): Content {
  return {
    head: w.head,
    uptime: w.uptime,
    homes: new Map(w.homes.map((h) => [h.name, h])),
    events: sorted(w.events),
  };
}

export function changed(c: Content, d: Change): Content {
  const homes = new Map(c.homes);
  d.gone.forEach((name) => homes.delete(name));
  d.homes.forEach((h) => homes.set(h.name, h));
  return { head: d.head, uptime: d.uptime, homes, events: sorted([...d.events, ...c.events]) };
}

export type Link = "connecting" | "live" | "polling" | "lost";

export interface Live {
  content: Content | null;
  link: Link;
  /** Time of the last content. */
  at: number;
}

/** Follows the gateway while `on`; content that arrives meanwhile is shown afterwards. */
export function useLive(on: boolean): Live & { again: () => void } {
  const [live, set] = useState<Live>({ content: null, link: "connecting", at: 0 });
  const [round, again] = useState(0);
  const latest = useRef<Live>(live);
  const shown = useRef(on);
  shown.current = on;
  const put = (next: Live) => {
    latest.current = next;
    if (shown.current || !next.content) set(next);
  };
  useEffect(() => {
    if (on) set(latest.current);
  }, [on]);
  useEffect(() => {
    let source: EventSource | null = null;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let ended = false;
    const take = (content: Content, link: Link) => put({ content, link, at: Date.now() });
    const lost = () => put({ ...latest.current, link: latest.current.content ? "lost" : "connecting" });
    const poll = async () => {
      try {
        const answer = await fetch("api/state", { cache: "no-store" });
        if (answer.ok) take(whole((await answer.json()) as Whole), "polling");
        else lost();
      } catch {
        lost();
      }
      if (ended) return;
      // A stream may be free by now, or the daemon may be back.
      timer = setTimeout(open, POLL);
    };
    const open = () => {
      source = new EventSource("api/events");
      source.addEventListener("whole", (e) => take(whole(JSON.parse((e as MessageEvent<string>).data) as Whole), "live"));
      source.addEventListener("change", (e) => {
        const before = latest.current.content;
        if (before) take(changed(before, JSON.parse((e as MessageEvent<string>).data) as Change), "live");
      });
      source.onerror = () => {
        source?.close();
        if (!ended) void poll();
      };
    };
    open();
    const watch = setInterval(() => {
      if (latest.current.link !== "lost" && latest.current.at && Date.now() - latest.current.at > OLD) lost();
    }, 1000);
    return () => {
      ended = true;
      source?.close();
      clearTimeout(timer);
      clearInterval(watch);
    };
  }, [round]);
  return { ...live, again: () => again((n) => n + 1) };
}
