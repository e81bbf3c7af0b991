import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Tooltip } from "../common/Tooltip";
import { useTheme } from "../common/colours";
import { Detail, type Ask } from "./components/Detail";
import { Events, type EventKind } from "./components/Events";
import { Homes, ordered, type SortKey } from "./components/Homes";
import { Mesh } from "./components/Mesh";
import { Text } from "./components/Text";
import { Bounds, Known, Mode } from "./components/Tiles";
import { Unlock } from "./components/Unlock";
import { useLive, type Link } from "./live";
import { useHours } from "./past";
import type { Bound } from "./types";
import { ago } from "./words";

const STEP = 50;

const LINKS: Record<Link, string> = {
  connecting: "connecting",
  live: "live",
  polling: "updated every 10 s",
  lost: "no answer",
};

/** The choice of the reader; the address holds it. */
interface View {
  home: string | null;
  sort: SortKey;
  down: boolean;
  query: string;
  bound: Bound | null;
}

const SORTS: SortKey[] = ["state", "name", "rate", "up", "limit", "bound", "rtt"];
const BOUND: Bound[] = ["control", "aggregate", "plan", "override", "radio", "mesh", "none"];

function read(): View {
  const p = new URLSearchParams(location.hash.slice(1));
  return {
    home: p.get("home"),
    sort: SORTS.find((s) => s === p.get("sort")) ?? "state",
    down: p.get("down") === "1",
    query: p.get("search") ?? "",
    bound: BOUND.find((b) => b === p.get("bound")) ?? null,
  };
}

function write(v: View) {
  const p = new URLSearchParams();
  if (v.home !== null) p.set("home", v.home);
  if (v.sort !== "state") p.set("sort", v.sort);
  if (v.down) p.set("down", "1");
  if (v.query) p.set("search", v.query);
  if (v.bound) p.set("bound", v.bound);
  const hash = p.toString();
  history.replaceState(null, "", hash ? `#${hash}` : location.pathname);
}

export function App() {
  const [view, setView] = useState<View>(read);
  const [kind, setKind] = useState<EventKind>("all");
  const [most, setMost] = useState(STEP);
  const [paused, setPaused] = useState(false);
  const [over, setOver] = useState(false);
  const [now, setNow] = useState(Date.now());
  const [token, setToken] = useState<string | null>(null);
  const [asking, setAsking] = useState<Ask | "open" | null>(null);
  const [problem, setProblem] = useState("");
  const [toast, setToast] = useState<{ text: string; undo?: Ask } | null>(null);
  const [, toggle] = useTheme();
  // Rows do not move under the pointer.
  const live = useLive(!paused && !over);
  const { content, link } = live;
  const hours = useHours();
  const opener = useRef<string | null>(null);

  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  useEffect(() => write(view), [view]);
  useEffect(() => {
    if (!toast) return;
    const timer = setTimeout(() => setToast(null), 8000);
    return () => clearTimeout(timer);
  }, [toast]);
  useEffect(() => {
    const again = () => setView(read());
    addEventListener("hashchange", again);
    return () => removeEventListener("hashchange", again);
  }, []);

  const set = useCallback((change: Partial<View>) => setView((v) => ({ ...v, ...change })), []);
  const choose = useCallback((home: string) => {
    opener.current = home;
    setView((v) => ({ ...v, home }));
  }, []);
  const close = useCallback(() => {
    setView((v) => ({ ...v, home: null }));
    const row = [...document.querySelectorAll<HTMLElement>("tr[data-row]")].find((r) => r.dataset.row === opener.current);
    requestAnimationFrame(() => row?.focus({ preventScroll: true }));
  }, []);
  const rows = useMemo(() => (content ? ordered(content, view) : []), [content, view.sort, view.down, view.query, view.bound]);

  const send = async (ask: Ask, key: string) => {
    try {
      const answer = await fetch("api/override", {
        method: "POST",
        headers: { "Content-Type": "application/json", Authorization: `Bearer ${key}` },
        body: JSON.stringify(ask),
      });
      const text = (await answer.text()).trim();
      if (answer.ok) {
        setToken(key);
        setAsking(null);
        setProblem("");
        const done = { pause: "is paused", boost: "is boosted", limit: "is limited", clear: "has no override any more" }[ask.action];
        const time = ask.seconds ? ` for ${ago(ask.seconds)}` : "";
        setToast({ text: `${ask.home} ${done}${time}.`, undo: ask.action === "clear" ? undefined : { home: ask.home, action: "clear" } });
      } else if (answer.status === 401 || answer.status === 429) {
        setToken(null);
        setProblem(text);
        setAsking(ask);
      } else {
        setAsking(null);
        setToast({ text: `Refused: ${text}` });
      }
    } catch {
      setToast({ text: "No answer from the gateway; nothing was changed." });
    }
  };
  const act = (ask: Ask) => (token === null ? setAsking(ask) : void send(ask, token));

  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      const field = (e.target as HTMLElement).matches("input, select, textarea");
      if (e.key === "Escape") {
        if (field) (e.target as HTMLElement).blur();
        else if (view.home !== null && !asking) close();
        return;
      }
      if (field || e.ctrlKey || e.metaKey || e.altKey || asking) return;
      if (e.key === "/") {
        e.preventDefault();
        document.querySelector<HTMLElement>("#search")?.focus();
      } else if (e.key === "t") toggle();
      else if (e.key === "p") setPaused((v) => !v);
      else if (e.key === "j" || e.key === "k") {
        const i = rows.findIndex((h) => h.name === view.home);
        const next = rows[Math.max(0, Math.min(rows.length - 1, i + (e.key === "j" ? 1 : -1)))];
        if (next) choose(next.name);
      }
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  });

  const chosen = content && view.home !== null ? content.homes.get(view.home) : undefined;
  const age = live.at ? Math.round((now - live.at) / 1000) : 0;
  return (
    <div class={chosen ? "det" : ""}>
      <a class="skip" href="#homes">
        Skip to the homes
      </a>
      <div class="top">
        <div class="wrap">
          <span class="brand">
            <svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true">
              <path d="M4 5L10 15L16 5" />
              <circle cx="4" cy="5" r="3" />
              <circle cx="16" cy="5" r="3" />
              <rect x="7" y="12" width="6" height="6" rx="1.4" />
            </svg>
            <span class="hide-s">fairmesh gateway</span>
          </span>
          <span class={`sm ${link === "lost" ? "bad" : "mut"}`} id="link" role="status">
            {paused ? "paused" : link === "lost" ? `no answer for ${ago(age)}; values are old` : `${LINKS[link]}${age > 2 ? `, ${ago(age)} ago` : ""}`}
          </span>
          <button type="button" class="btn ic noprint" aria-pressed={paused} aria-label="Pause updates (p)" data-tip="Pause updates" onClick={() => setPaused(!paused)}>
            {paused ? "▶" : "❚❚"}
          </button>
          <span class="sp" />
          {content?.head.actions ? (
            <button type="button" class="btn" aria-pressed={token !== null} onClick={() => (token === null ? setAsking("open") : setToken(null))}>
              {token === null ? "Actions locked" : "Actions unlocked"}
            </button>
          ) : (
            <span class="chip hide-s" data-tip={"Read-only\nSet page.token_file in the configuration to allow pause and boost."}>
              read-only
            </span>
          )}
          <button type="button" class="btn ic" aria-label="Light or dark (t)" data-tip="Light or dark" onClick={toggle}>
            ◐
          </button>
        </div>
      </div>
      <main class={`wrap${link === "lost" ? " old" : ""}`}>
        {content ? (
          <>
            <div class="hero">
              <div class="words">
                <div class="answer" aria-live="polite">
                  <h1>
                    <Text of={content.head.headline} choose={choose} />
                  </h1>
                </div>
                <dl class="facts">
                  {content.head.facts.map((f) => (
                    <>
                      <dt>{f.title}</dt>
                      <dd>
                        <Text of={f.text} choose={choose} />
                      </dd>
                    </>
                  ))}
                </dl>
                <Mode content={content} />
                <Bounds homes={[...content.homes.values()]} value={view.bound} change={(bound) => set({ bound })} />
              </div>
              <div class="card mapcard">
                <header>
                  <h2>Mesh as known</h2>
                  <span class="sm mut">{content.head.paths}</span>
                </header>
                <Mesh content={content} chosen={view.home} choose={choose} />
                <Known content={content} />
              </div>
            </div>
            <div onPointerEnter={(e) => e.pointerType === "mouse" && setOver(true)} onPointerLeave={() => setOver(false)}>
              <Homes
                content={content}
                hours={hours}
                rows={rows}
                most={most}
                more={() => setMost(most + STEP)}
                sort={view.sort}
                down={view.down}
                setSort={(sort) => set({ sort, down: sort === view.sort ? !view.down : false })}
                query={view.query}
                setQuery={(query) => set({ query })}
                bound={view.bound}
                clear={() => set({ query: "", bound: null })}
                chosen={view.home}
                choose={choose}
              />
            </div>
            <Events events={content.events} uptime={content.uptime} now={live.at} kind={kind} setKind={setKind} />
            <footer class="xs dim">
              fairmesh-gateway {content.head.version}, running for {ago(content.uptime)}. Keys: / search, j k home, Esc close, p pause, t light or dark.
            </footer>
          </>
        ) : (
          <h1 class="loading">{link === "connecting" ? "Connecting to the gateway …" : "No answer from the gateway."}</h1>
        )}
      </main>
      {content && chosen ? <Detail key={chosen.name} home={chosen} content={content} now={live.at} unlocked={token !== null} close={close} act={act} /> : null}
      {asking ? (
        <Unlock
          problem={problem}
          close={() => {
            setAsking(null);
            setProblem("");
          }}
          unlock={(key) => {
            if (asking === "open") {
              setToken(key);
              setAsking(null);
            } else void send(asking, key);
          }}
        />
      ) : null}
      <div id="toast" role="status" class={toast ? "on" : ""}>
        {toast?.text}{" "}
        {toast?.undo ? (
          <button type="button" class="btn" onClick={() => act(toast.undo!)}>
            Undo
          </button>
        ) : null}
      </div>
      <Tooltip />
    </div>
  );
}
