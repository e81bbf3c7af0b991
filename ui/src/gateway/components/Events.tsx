import { Segmented } from "../../common/Segmented";
import type { GatewayEvent } from "../types";
import { clock } from "../words";

export type EventKind = "all" | "faults" | "by hand" | "other";

export function kindOf(e: GatewayEvent): EventKind {
  if (e.level !== "info") return "faults";
  return e.code.startsWith("override") || e.code.startsWith("config") ? "by hand" : "other";
}

/** Events of one name and text, but for numbers and names, in a row. */
export function grouped(events: GatewayEvent[]): { event: GatewayEvent; times: number; since: number }[] {
  const shape = (e: GatewayEvent) => `${e.code} ${e.text.replace(/"[^"]*"|[\d.,]+/g, "")}`;
  const out: { event: GatewayEvent; times: number; since: number }[] = [];
  for (const event of events) {
    const last = out.at(-1);
    if (last && shape(last.event) === shape(event)) {
      last.times += 1 + (event.more ?? 0);
      last.since = event.at;
    } else out.push({ event, times: 1 + (event.more ?? 0), since: event.at });
  }
  return out;
}

export function EventList({ events, uptime, now }: { events: GatewayEvent[]; uptime: number; now: number }) {
  return (
    <ul class="evs">
      {grouped(events).map(({ event: e, times, since }) => (
        <li class={e.level}>
          <time>{clock(e.at, uptime, now)}</time>
          <span>
            {e.text}{" "}
            {times > 1 ? (
              <span class="chip">
                × {times} since {clock(since, uptime, now)}
              </span>
            ) : null}
            <code class="mono dim">{e.code}</code>
          </span>
        </li>
      ))}
      {events.length === 0 ? <li class="dim">None.</li> : null}
    </ul>
  );
}

export function Events(p: { events: GatewayEvent[]; uptime: number; now: number; kind: EventKind; setKind: (k: EventKind) => void }) {
  const shown = p.events.filter((e) => p.kind === "all" || kindOf(e) === p.kind);
  const kinds: EventKind[] = ["all", "faults", "by hand", "other"];
  return (
    <section class="card" id="events">
      <header>
        <h2>Events</h2>
        <span class="sp" />
        <Segmented label="Kind of event" options={kinds.map((k) => [k, k])} value={p.kind} change={p.setKind} />
      </header>
      <EventList events={shown} uptime={p.uptime} now={p.now} />
    </section>
  );
}
