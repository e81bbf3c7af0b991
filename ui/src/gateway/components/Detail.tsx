import { useEffect, useRef, useState } from "preact/hooks";
import { Swatch } from "../../common/classes";
import type { Content, Home, Way } from "../types";
import { ago, BOUNDS, clock, rate, STATES } from "../words";
import { EventList } from "./Events";
import { PastOf } from "./Chart";

export interface Ask {
  home: string;
  action: "pause" | "boost" | "limit" | "clear";
  seconds?: number;
  bits_per_second?: number;
}

/** Candidates of the limit on one scale; the one in force is bold. */
function Candidates({ w, title }: { w: Way; title: string }) {
  const all: [string, string, number | null][] = [
    ["control", "mesh share", w.by === "control" || w.by === "aggregate" ? w.limit : w.share],
    ["plan", "plan", w.plan],
    ["override", "override", w.by === "override" ? w.limit : null],
  ];
  const top = Math.max(w.rate ?? 0, ...all.map((c) => c[2] ?? 0), 1);
  return (
    <div class="cands">
      <h4>{title}</h4>
      <div class="cand">
        <span>carries</span>
        <i class="now">
          <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
            <rect width={(100 * (w.rate ?? 0)) / top} height="8" rx="1" />
          </svg>
        </i>
        <span class="num">{rate(w.rate)}</span>
      </div>
      {all.map(([key, name, value]) => (
        <div class={`cand${(w.by === "aggregate" ? "control" : w.by) === key ? " win" : ""}`}>
          <span>{name}</span>
          <i>
            {value === null ? null : (
              <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
                <rect width={(100 * value) / top} height="8" rx="1" />
              </svg>
            )}
          </i>
          <span class="num">{value === null ? (key === "override" ? "none" : "–") : rate(value)}</span>
        </div>
      ))}
      {w.change ? (
        <p class="xs mut">
          {w.change[1]} <code class="mono dim">{w.change[2]}</code>
        </p>
      ) : null}
    </div>
  );
}

export function Detail(p: { home: Home; content: Content; now: number; unlocked: boolean; close: () => void; act: (ask: Ask) => void }) {
  const { home, content, unlocked } = p;
  const close = useRef<HTMLButtonElement | null>(null);
  const [why, setWhy] = useState("");
  useEffect(() => {
    close.current?.focus({ preventScroll: true });
    let gone = false;
    setWhy("");
    fetch(`api/why?home=${encodeURIComponent(home.name)}`, { cache: "no-store" })
      .then((answer) => (answer.ok ? answer.text() : ""))
      .then((text) => gone || setWhy(text))
      .catch(() => undefined);
    return () => {
      gone = true;
    };
  }, [home.name]);
  const button = (text: string, ask: Ask) => (
    <button type="button" class={`btn act${unlocked ? "" : " locked"}`} data-tip={unlocked ? undefined : `${text}\nNeeds the token of this gateway.`} onClick={() => p.act(ask)}>
      {text}
    </button>
  );
  const held = home.until !== undefined;
  const own = content.events.filter((e) => e.text.includes(`"${home.name}"`));
  return (
    <div class="drawer" role="dialog" aria-label={`Details of ${home.name}`}>
      <header>
        <div class="grow">
          <span class="st sm">
            <Swatch k={STATES[home.state].mark} />
            {STATES[home.state].name} · {BOUNDS[home.bound].name}
          </span>
          <h2 dir="auto">{home.name}</h2>
          <p class="sm mut">
            {home.addresses.join(", ") || "no address"} · {home.discovered ? "discovered" : "from the configuration"}
            {home.weight === 1 ? "" : ` · weight ${home.weight}`}
          </p>
        </div>
        <button type="button" class="btn ic" ref={close} aria-label="Close (Esc)" onClick={p.close}>
          ✕
        </button>
      </header>
      <div class="body">
        <section>
          <p>{home.reason}</p>
          {content.head.actions ? (
            <p class="acts">
              {held ? button("End override", { home: home.name, action: "clear" }) : null}
              {button("Pause 1 h", { home: home.name, action: "pause", seconds: 3600 })}
              {button("Boost 1 h", { home: home.name, action: "boost", seconds: 3600 })}
            </p>
          ) : (
            <p class="xs dim acts">This page only shows: page.token_file is not set.</p>
          )}
          {held ? <p class="sm mut">The override ends at {clock(home.until!, content.uptime, p.now)}, in {ago(home.until! - content.uptime)}.</p> : null}
        </section>
        <section>
          <h3>Candidates of the limit</h3>
          <Candidates w={home.ways[0]} title="down" />
          <Candidates w={home.ways[1]} title="up" />
          <p class="xs dim">{home.ways[0].drops + home.ways[1].drops} packets dropped</p>
        </section>
        <PastOf home={home} />
        <section>
          <h3>Round trip through the mesh</h3>
          <p class="sm">{home.rtt === null ? "Not known." : `${Math.round(home.rtt)} ms${home.base === null ? "" : `; least ${Math.round(home.base)} ms: ${Math.round(home.rtt - home.base)} ms of it are queues in the mesh`}`}</p>
        </section>
        {why ? (
          <section>
            <h3>As `why` prints it</h3>
            <pre class="xs">{why}</pre>
          </section>
        ) : null}
        <section>
          <h3>Events of this home</h3>
          <EventList events={own} uptime={content.uptime} now={p.now} />
        </section>
      </div>
    </div>
  );
}
