import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Answer } from "./components/Answer";
import { Detail } from "./components/Detail";
import { Distribution } from "./components/Distribution";
import { FlowTable, rows } from "./components/FlowTable";
import { Legend, LegendPicture } from "./components/Legend";
import { Measures } from "./components/Measures";
import { About, Download, Help } from "./components/Menus";
import { Maps, type MapProps } from "./components/MeshMap";
import { ControlChoice, Segmented } from "../common/Segmented";
import { StripPlot } from "./components/StripPlot";
import { MOST_PINS, TimePanels } from "./components/TimePanels";
import { Tooltip } from "../common/Tooltip";
import { colour, useTheme } from "../common/colours";
import { count } from "../common/format";
import { WHOLE, zoomed, type Viewport } from "../common/panzoom";
import { csv, figure, save, savePng } from "../common/save";
import { firstPins, shown, view } from "./model/derive";
import { layouts, positions } from "./model/layout";
import type { Model } from "./model/types";
import { className, type Class } from "../common/classes";
import { read, write, type SortKey, type State } from "./state";

/** Controls that are drawn beside each other. */
const BESIDE = 3;
const PANELS = 4;

const RISING: SortKey[] = ["name", "hops", "share"];

export function App({ model }: { model: Model }) {
  const [state, setState] = useState<State>(() => read(model, location.hash));
  const [viewport, setViewport] = useState<Viewport>(WHOLE);
  const [pins, setPins] = useState<number[]>(() => firstPins(model));
  const [help, setHelp] = useState(false);
  const [theme, toggleTheme] = useTheme();
  const search = useRef<HTMLInputElement | null>(null);
  const opener = useRef<HTMLElement | SVGElement | null>(null);
  const set = useCallback((change: Partial<State>) => setState((s) => ({ ...s, ...change })), []);

  useEffect(() => {
    const hash = write(model, state);
    if (location.hash.slice(1) !== hash) history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  }, [state]);
  useEffect(() => {
    const again = () => setState(read(model, location.hash));
    addEventListener("hashchange", again);
    return () => removeEventListener("hashchange", again);
  }, []);

  const views = useMemo(() => model.controls.map((_, i) => view(model, i, state.seed)), [state.seed]);
  const at = useMemo(() => positions(model, state.layout), [state.layout]);
  const order = useMemo(() => rows(model, state, views), [views, state.control, state.other, state.sort, state.down, state.query, state.filter]);
  const beside = useMemo(
    () => (model.controls.length <= BESIDE ? model.controls.map((_, i) => i) : shown(model, state.control, state.other, 2)),
    [state.control, state.other],
  );
  const panels = useMemo(
    () => (state.all ? model.controls.map((_, i) => i) : shown(model, state.control, state.other, PANELS)),
    [state.control, state.other, state.all],
  );
  const few = useMemo(() => shown(model, state.control, state.other, BESIDE), [state.control, state.other]);
  const curvePins = useMemo(
    () => (state.sharer >= 0 && !pins.includes(state.sharer) ? [...pins.slice(-(MOST_PINS - 1)), state.sharer] : pins),
    [pins, state.sharer],
  );

  const select = useCallback((i: number) => {
    opener.current = document.activeElement as HTMLElement | null;
    set({ sharer: i });
  }, []);
  const selectNode = useCallback(
    (node: number) => {
      const own = model.sharers.map((s, i) => ({ s, i })).filter(({ s }) => s.home === node);
      const shares = views[state.control]!.share;
      own.sort((a, b) => (shares[a.i] ?? Infinity) - (shares[b.i] ?? Infinity));
      if (own[0]) select(own[0].i);
    },
    [views, state.control],
  );
  const choose = useCallback((control: number) => setState((s) => ({ ...s, control, other: s.other === control ? -1 : s.other })), []);
  const close = useCallback(() => {
    setState((s) => {
      const before = opener.current;
      requestAnimationFrame(() => {
        const row = document.querySelector<HTMLElement>(`[data-row="${s.sharer}"]`);
        const target = before && before !== document.body && before.isConnected ? before : row;
        target?.focus({ preventScroll: true });
      });
      return { ...s, sharer: -1 };
    });
  }, []);
  const clear = useCallback(() => set({ filter: null, query: "" }), []);
  const more = useCallback(() => {
    set({ filter: "starve" });
    document.getElementById("flows")?.scrollIntoView();
  }, []);
  const sort = useCallback(
    (key: SortKey) => setState((s) => (s.sort === key ? { ...s, down: !s.down } : { ...s, sort: key, down: !RISING.includes(key) })),
    [],
  );
  const unpin = useCallback((i: number) => {
    setPins((p) => (p.length > 1 ? p.filter((k) => k !== i) : p));
    setState((s) => (s.sharer === i ? { ...s, sharer: -1 } : s));
  }, []);
  const showAll = useCallback(() => set({ all: true }), []);
  useEffect(() => {
    if (state.sharer >= 0) setPins((p) => (p.includes(state.sharer) ? p : [...p.slice(-(MOST_PINS - 1)), state.sharer]));
  }, [state.sharer]);

  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      const target = e.target as HTMLElement;
      if (e.ctrlKey || e.metaKey || e.altKey) return;
      if (target.matches?.("input, select, textarea")) {
        if (e.key === "Escape") target.blur();
        return;
      }
      if (document.querySelector("dialog[open]")) return;
      const n = Number(e.key);
      if (n >= 1 && n <= 9 && model.controls[n - 1]) choose(n - 1);
      else if (e.key === "/") {
        e.preventDefault();
        document.getElementById("flows")?.scrollIntoView();
        search.current?.focus();
      } else if (e.key === "t") toggleTheme();
      else if (e.key === "m") set({ side: !state.side });
      else if (e.key === "l") set({ scale: state.scale === "log" ? "linear" : "log" });
      else if (e.key === "+" || e.key === "=") setViewport((v) => zoomed(v, 1.4));
      else if (e.key === "-") setViewport((v) => zoomed(v, 1 / 1.4));
      else if (e.key === "0") setViewport(WHOLE);
      else if (e.key === "?") setHelp(true);
      else if (e.key === "Escape" && state.sharer >= 0) close();
      else if (e.key === "j" || e.key === "k") {
        const now = order.indexOf(state.sharer);
        const next = order[Math.max(0, Math.min(order.length - 1, now + (e.key === "j" ? 1 : -1)))];
        if (next === undefined) return;
        if (state.sharer < 0) opener.current = null;
        set({ sharer: next });
        requestAnimationFrame(() => document.querySelector(`[data-row="${next}"]`)?.scrollIntoView({ block: "nearest" }));
      }
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, [state, order]);

  const control = model.controls[state.control]!;
  const v = views[state.control]!;
  const drawn = state.side ? beside : [state.control];
  const maps: MapProps[] = drawn.map((c) => ({
    model,
    at,
    view: views[c]!,
    control: model.controls[c]!,
    filter: state.filter,
    sharer: state.sharer,
    viewport,
    theme,
    selectNode,
  }));
  const layoutOptions = useMemo(() => layouts(model), []);
  const layout = layoutOptions.some((o) => o[0] === state.layout) ? state.layout : layoutOptions[0]![0];
  const names = model.controls.map((c) => c.name);
  const abouts = model.controls.map((c) => c.about);
  const open = state.sharer >= 0;
  const { nodes, links } = model.network;
  const seeds = count(model.seeds.length, "seed");
  const file = model.scenario.replace(/[^\p{L}\p{N}_-]+/gu, "_") || "result";

  const picture = () => {
    const maps = [...document.querySelectorAll<SVGSVGElement>(".maps svg.map")];
    const parts = maps.map((svg, i) => ({ svg, title: `${model.scenario} with ${model.controls[drawn[i]!]!.name}: worst ${model.noun.one} of each node` }));
    const legend = document.querySelector<SVGSVGElement>(".legendpicture")!;
    const seed = state.seed >= 0 ? `seed ${model.seeds[state.seed]}` : seeds;
    const origin = `Share of the reference rate; width of a link: frames sent. ${model.generator}, ${seed}, ${model.duration_s} s.`;
    return figure(parts, legend, origin, { paper: colour("panel"), ink: colour("ink"), soft: colour("ink3") });
  };
  const table = () =>
    csv([
      ["control", model.noun.one, "hops", "goodput_kbps", "ci95_kbps", "reference_kbps", "share", "class", "delay_ms", "delay_p95_ms",
        "lost_queue", "lost_wire", "lost_retry_limit", "lost_limiter", "resent"],
      ...model.controls.flatMap((c, k) =>
        model.sharers.map((s, i) => {
          const r = c.results[i]!;
          const both = r.lost.map((n, q) => n + (r.answers[q] ?? 0));
          return [c.name, s.label, s.hops, views[k]!.goodput[i]!, state.seed < 0 ? r.goodput[1] : null, r.due ?? null, views[k]!.share[i]!, className(views[k]!.class[i]!),
            r.delay?.[0] ?? null, r.delay?.[1] ?? null, both[0]!, both[1]!, both[2]!, both[3]!, r.resent ?? null];
        }),
      ),
    ]);
  const downloads: [string, () => void][] = [
    [`${model.noun.many}, all controls (CSV)`, () => save(`${file}-flows.csv`, table(), "text/csv")],
    ["map as shown (SVG)", () => save(`${file}-map.svg`, picture().xml, "image/svg+xml")],
    [
      "map as shown (PNG)",
      () => {
        const p = picture();
        void savePng(`${file}-map.png`, p.xml, p.width, p.height);
      },
    ],
    ["data of this page (JSON)", () => save(`${file}.json`, JSON.stringify(model), "application/json")],
    ["print or save as PDF", () => print()],
  ];

  return (
    <div class={`page${open ? " det" : ""}`}>
      <a class="skip" href="#flows" onClick={(e) => (e.preventDefault(), document.getElementById("flows")?.scrollIntoView(), search.current?.focus())}>
        Skip to the table
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
            <span dir="auto" class="scenario">
              {model.scenario}
            </span>
          </span>
          <span class="meta sm mut hide-s">
            {count(nodes.length, "node")} · {count(links.length, "link")} · {count(model.sharers.length, model.noun.one, model.noun.many)} · {model.duration_s} s simulated, measured from {model.warmup_s} s ·{" "}
            {seeds}
          </span>
          <span class="sp" />
          {model.seeds.length > 1 ? (
            <select class="choice" aria-label="Seed" value={state.seed} onChange={(e) => set({ seed: Number(e.currentTarget.value) })}>
              <option value={-1}>all seeds</option>
              {model.seeds.map((s, i) => (
                <option value={i}>seed {s}</option>
              ))}
            </select>
          ) : null}
          <Download items={downloads} />
          <button type="button" class="btn ic" title="Light or dark (t)" aria-label="Light or dark" onClick={toggleTheme}>
            ◐
          </button>
          <button type="button" class="btn ic hide-s" title="Keyboard (?)" aria-label="Keyboard help" onClick={() => setHelp(true)}>
            ?
          </button>
        </div>
      </div>
      <main class="wrap">
        <div class={`hero${state.side ? " side" : ""}`}>
          <div class="words">
            <Answer model={model} select={select} more={more} />
            {model.sharers.length && model.reference !== "none" ? (
              <div class="card stripcard">
                <StripPlot model={model} views={views} control={state.control} sharer={state.sharer} choose={choose} select={select} />
                {state.seed >= 0 ? <p class="xs dim pad">Shares of seed {model.seeds[state.seed]} alone; the text above is about all seeds.</p> : null}
              </div>
            ) : null}
          </div>
          <div class="card mapcard">
            <header>
              <h2>
                Map{" "}
                <span class="po">
                  with {drawn.map((c) => names[c]).join(", ")}
                  {state.seed >= 0 ? `, seed ${model.seeds[state.seed]}` : ""}
                </span>
              </h2>
              <span class="sp" />
              {state.side ? null : <ControlChoice names={names} abouts={abouts} value={state.control} change={choose} label="Control on the map" />}
              {layoutOptions.length > 1 ? <Segmented label="Positions" options={layoutOptions} value={layout} change={(k) => set({ layout: k })} /> : null}
              {model.controls.length > 1 ? (
                <button type="button" class="btn hide-s" aria-pressed={state.side} title="Controls next to each other (m)" onClick={() => set({ side: !state.side })}>
                  Side by side
                </button>
              ) : null}
            </header>
            <Maps maps={maps} viewport={viewport} setViewport={setViewport} />
            <Legend view={v} several={state.side} filter={state.filter} noun={model.noun} change={(filter: Class | null) => set({ filter })} />
            <p class="hint xs dim">
              A node has the class of its worst {model.noun.one}.
              {layout === "spread" ? " Nodes are moved apart so that none hides another." : ""}
              {layout === "hops" || !model.network.surveyed ? " Distances on this map resemble hops." : ""}
              <span class="noprint"> Drag to pan; click, then wheel to zoom.</span>
            </p>
            <LegendPicture />
          </div>
        </div>
        <section class="card" id="flows">
          <header>
            <h2>
              {model.noun.many[0]!.toUpperCase() + model.noun.many.slice(1)} <span class="po">with {control.name}</span>
            </h2>
            <ControlChoice names={names} abouts={abouts} value={state.control} change={choose} label="Control in the table" />
            {model.controls.length > 1 ? (
              <select class="choice" aria-label="Compare with" value={state.other} onChange={(e) => set({ other: Number(e.currentTarget.value) })}>
                <option value={-1}>compare with …</option>
                {names.map((n, i) => (i === state.control ? null : <option value={i}>compare with {n}</option>))}
              </select>
            ) : null}
            <span class="sp" />
            <span class="sm mut" role="status">
              {order.length} of {count(model.sharers.length, model.noun.one, model.noun.many)}
            </span>
            {state.filter ? (
              <button type="button" class="chip" aria-label={`Remove the filter ${className(state.filter)}`} onClick={() => set({ filter: null })}>
                {className(state.filter)} ✕
              </button>
            ) : null}
            <input
              ref={search}
              class="search"
              type="search"
              placeholder="Search  /"
              aria-label={`Search ${model.noun.many}`}
              value={state.query}
              onInput={(e) => set({ query: e.currentTarget.value })}
            />
            <Segmented
              label="Scale"
              options={[
                ["log", "log"],
                ["linear", "linear"],
              ]}
              value={state.scale}
              change={(scale) => set({ scale })}
            />
          </header>
          <FlowTable model={model} state={state} views={views} order={order} narrow={open} sort={sort} select={select} clear={clear} />
        </section>
        <TimePanels
          model={model}
          views={views}
          controls={panels}
          pins={curvePins}
          seed={state.seed}
          curve={state.curve}
          theme={theme}
          all={state.all}
          setCurve={(curve) => set({ curve })}
          unpin={unpin}
          showAll={showAll}
        />
        <Distribution model={model} views={views} controls={few} measure={state.measure} sharer={state.sharer} change={(measure) => set({ measure })} select={select} />
        <Measures model={model} control={state.control} />
        <About model={model} />
      </main>
      {open ? <Detail key="detail" model={model} views={views} control={state.control} sharer={state.sharer} seed={state.seed} choose={choose} close={close} /> : null}
      <Help open={help} close={() => setHelp(false)} />
      <Tooltip />
    </div>
  );
}
