import { useEffect, useMemo, useRef } from "preact/hooks";
import { colour } from "../../common/colours";
import { percent, rate, shorten } from "../../common/format";
import { place, type Box, type Item } from "../../common/labels";
import { memo } from "../../common/memo";
import { usePanZoom, WHOLE, zoomed, type Viewport } from "../../common/panzoom";
import { useSize } from "../../common/size";
import { linkOf, type View } from "../model/derive";
import type { Point } from "../model/layout";
import type { Control, Model } from "../model/types";
import { className, drawMark, Mark, type Class } from "../../common/classes";

/** Number of nodes above which links and nodes are drawn on a canvas. */
const MANY = 400;
const MARGIN = 46;

export interface MapProps {
  model: Model;
  at: Point[];
  view: View;
  control: Control;
  filter: Class | null;
  sharer: number;
  viewport: Viewport;
  theme: number;
  selectNode: (node: number) => void;
}

/** Frames per second over both directions of each link. */
function traffic(m: Model, c: Control): number[] {
  const sums = new Map<string, number>();
  for (const l of c.links) {
    const key = l.from < l.to ? `${l.from}-${l.to}` : `${l.to}-${l.from}`;
    sums.set(key, (sums.get(key) ?? 0) + l.frames);
  }
  return m.network.links.map(([a, b]) => sums.get(a < b ? `${a}-${b}` : `${b}-${a}`) ?? 0);
}

export const MeshMap = memo(function MeshMap(p: MapProps) {
  const { model, at, view, control, filter, sharer, viewport, theme } = p;
  const { nodes, links, wires } = model.network;
  const [ref, { width, height }] = useSize<SVGSVGElement>();
  const canvas = useRef<HTMLCanvasElement | null>(null);
  const many = nodes.length > MANY;
  const frames = useMemo(() => traffic(model, control), [model, control]);
  const extent = useMemo(() => {
    const right = at.reduce((m, q) => Math.max(m, q[0]), 1);
    const bottom = at.reduce((m, q) => Math.max(m, q[1]), 1);
    return [right, bottom] as Point;
  }, [at]);
  const scale = Math.max(0.01, Math.min((width - 2 * MARGIN) / extent[0], (height - 2 * MARGIN) / extent[1]));
  const k = viewport.k;
  const x = (q: Point) => width / 2 + (q[0] - extent[0] / 2) * scale * k + viewport.x * width;
  const y = (q: Point) => height / 2 + (q[1] - extent[1] / 2) * scale * k + viewport.y * height;
  const zoomSize = Math.min(1.6, k ** 0.35);
  const r = (nodes.length <= 40 ? 9 : nodes.length <= 150 ? 6.5 : many ? 2.2 : 4) * zoomSize;
  const most = Math.max(1, ...frames);
  const linkWidth = (f: number) => (f > 0 ? 1.2 + (f / most) * (many ? 3 : 10) : 1);
  const chosen = sharer >= 0 ? model.sharers[sharer] : undefined;
  const onPath = new Set(chosen?.paths.flat() ?? []);
  const hop = chosen ? control.links[control.results[sharer]?.worst_hop ?? -1] : undefined;
  const faded = (i: number) => filter !== null && view.node[i] !== filter && nodes[i]!.role !== "gateway" && !onPath.has(i);

  const labels = useMemo(() => {
    if (!width) return [];
    const points = at.map((q) => [x(q), y(q)] as Point);
    const marks: Box[] = points.map(([px, py]) => [px - r, py - r, px + r, py + r]);
    const rank = (i: number) => {
      if (nodes[i]!.role === "gateway") return 0;
      if (onPath.has(i)) return 1;
      if (view.node[i] === "starve") return 2 + (view.nodeShare[i] ?? 0);
      return 4 - (control.nodes[i]?.tx ?? 0);
    };
    const order = nodes.map((_, i) => i).filter((i) => !(many && k < 3 && rank(i) >= 3.5));
    order.sort((a, b) => rank(a) - rank(b));
    const items: Item[] = order.map((i) => {
      const gateway = nodes[i]!.role === "gateway";
      return {
        text: shorten(nodes[i]!.name, 24) + (gateway ? " (gateway)" : ""),
        x: points[i]![0],
        y: points[i]![1],
        r: gateway ? r * 1.2 : r,
        must: gateway && nodes.filter((n) => n.role === "gateway").length <= 8,
        bold: gateway,
      };
    });
    // A map of thousands of nodes has space for few labels.
    return place(items, marks, width, height).slice(0, 400);
  }, [at, width, height, viewport, view, control, sharer]);

  useEffect(() => {
    const c = canvas.current;
    if (!many || !c || !width) return;
    const ratio = Math.min(2, devicePixelRatio || 1);
    c.width = width * ratio;
    c.height = height * ratio;
    const g = c.getContext("2d")!;
    g.scale(ratio, ratio);
    g.clearRect(0, 0, width, height);
    g.strokeStyle = colour("link");
    g.globalAlpha = 0.6;
    links.forEach(([a, b], i) => {
      g.lineWidth = linkWidth(frames[i]!);
      g.beginPath();
      g.moveTo(x(at[a]!), y(at[a]!));
      g.lineTo(x(at[b]!), y(at[b]!));
      g.stroke();
    });
    g.globalAlpha = 1;
    const paper = colour("panel");
    const colours = Object.fromEntries(["starve", "low", "short", "fair", "above", "none", "ink"].map((t) => [t, colour(t)]));
    const order = nodes.map((_, i) => i).sort((a, b) => (view.nodeShare[b] ?? 9) - (view.nodeShare[a] ?? 9));
    for (const i of order) {
      const [px, py] = [x(at[i]!), y(at[i]!)];
      if (px < -9 || py < -9 || px > width + 9 || py > height + 9) continue;
      g.globalAlpha = faded(i) ? 0.18 : 1;
      if (nodes[i]!.role) {
        g.fillStyle = colours.ink!;
        g.fillRect(px - r * 1.3, py - r * 1.3, r * 2.6, r * 2.6);
      } else {
        const kind = view.node[i] ?? "none";
        drawMark(g, kind, px, py, kind === "starve" ? r * 1.5 : r, colours[kind]!, paper);
      }
    }
    g.globalAlpha = 1;
  }, [at, width, height, viewport, view, control, filter, theme, sharer]);

  const nearest = (e: MouseEvent): number | null => {
    const b = ref.current!.getBoundingClientRect();
    let best: number | null = null;
    let least = 14;
    at.forEach((q, i) => {
      const d = Math.hypot(x(q) - (e.clientX - b.left), y(q) - (e.clientY - b.top));
      if (d < least) [least, best] = [d, i];
    });
    return best;
  };
  const tip = (i: number) => nodeTip(model, control, view, i);
  const linkTip = (i: number) => {
    const [a, b] = links[i]!;
    const one = (from: number, to: number) => {
      const l = linkOf(control, from, to);
      return l ? `\n${nodes[from]!.name} → ${nodes[to]!.name}: ${l.frames.toFixed(1)} frames/s, ${percent(l.unanswered)} without ACK` : "";
    };
    return `${nodes[a]!.name} – ${nodes[b]!.name}${one(a, b) + one(b, a) || "\nalmost no frames"}`;
  };

  const paths = chosen
    ? chosen.paths.flatMap((path) => path.slice(0, -1).map((a, i) => [at[a]!, at[path[i + 1]!]!] as [Point, Point]))
    : [];
  const disturb = hop?.by?.filter((o) => o.node !== undefined && o.hidden && o.share >= 0.1) ?? [];
  return (
    <div class="mapbox1">
      {many ? <canvas ref={canvas} class="mapcanvas" aria-hidden="true" /> : null}
      <svg
        ref={ref}
        class="map"
        tabIndex={0}
        role="group"
        aria-roledescription="map"
        aria-label={`Map of ${nodes.length} nodes with ${control.name}; the table of flows has its data. Arrow keys pan, plus and minus zoom.`}
        onClick={
          many
            ? (e) => {
                const i = nearest(e);
                if (i !== null) p.selectNode(i);
              }
            : undefined
        }
        onPointerMove={
          many
            ? (e) => {
                const i = nearest(e);
                if (i === null) delete e.currentTarget.dataset.tip;
                else e.currentTarget.dataset.tip = tip(i);
              }
            : undefined
        }
      >
        <defs>
          <marker id={`arrow${view.control}`} viewBox="0 0 8 8" refX="5" refY="4" markerWidth="4" markerHeight="4" orient="auto-start-reverse">
            <path class="arrow" d="M0 0L8 4L0 8Z" />
          </marker>
        </defs>
        {many
          ? null
          : links.map(([a, b], i) => (
              <path
                class={`link${frames[i] ? " used" : ""}`}
                d={`M${x(at[a]!).toFixed(1)} ${y(at[a]!).toFixed(1)}L${x(at[b]!).toFixed(1)} ${y(at[b]!).toFixed(1)}`}
                stroke-width={linkWidth(frames[i]!) * Math.min(1.5, zoomSize)}
                data-tip={linkTip(i)}
              />
            ))}
        {wires.map(([a, b]) => (
          <path class="wire" d={`M${x(at[a]!)} ${y(at[a]!)}L${x(at[b]!)} ${y(at[b]!)}`} />
        ))}
        {paths.map(([a, b]) => (
          <g class="path">
            <path d={`M${x(a)} ${y(a)}L${x(b)} ${y(b)}`} />
            <path class="head" d={`M${x(a)} ${y(a)}L${(x(a) + x(b)) / 2} ${(y(a) + y(b)) / 2}`} marker-end={`url(#arrow${view.control})`} />
          </g>
        ))}
        {hop
          ? disturb.map((o) => (
              <path
                class="disturb"
                d={`M${x(at[o.node!]!)} ${y(at[o.node!]!)}L${x(at[hop.to]!)} ${y(at[hop.to]!)}`}
                data-tip={`${o.name}\nits frames met ${percent(o.share)} of those that ${nodes[hop.to]!.name} did not receive from ${nodes[hop.from]!.name}`}
              />
            ))
          : null}
        {nodes.map((n, i) => {
          if (many && !onPath.has(i)) return null;
          const [px, py] = [x(at[i]!), y(at[i]!)];
          if (px < -20 || py < -20 || px > width + 20 || py > height + 20) return null;
          const size = r * 1.15;
          return (
            <g class={`node${faded(i) ? " faded" : ""}`} data-node={i} data-tip={tip(i)} onClick={() => p.selectNode(i)}>
              {chosen?.home === i ? <circle class="halo" cx={px} cy={py} r={r + 5} /> : null}
              {n.role === "gateway" ? (
                <g class="gateway">
                  <rect x={px - size} y={py - size} width={2 * size} height={2 * size} rx={size * 0.34} />
                  {size > 5 ? <path d={`M${px - size * 0.5} ${py}L${px} ${py - size * 0.48}L${px + size * 0.5} ${py}V${py + size * 0.5}H${px - size * 0.5}Z`} /> : null}
                </g>
              ) : n.role === "wired" ? (
                <rect class="wired" x={px - size * 0.8} y={py - size * 0.8} width={size * 1.6} height={size * 1.6} rx="2" />
              ) : (
                <Mark k={view.node[i] ?? "none"} x={px} y={py} r={r} />
              )}
            </g>
          );
        })}
        {labels.map((l) => (
          <g class="label">
            {l.leader ? <path class="leader" d={`M${l.leader[0]} ${l.leader[1]}L${l.leader[2]} ${l.leader[3]}`} /> : null}
            <text class={l.item.bold ? "bold" : ""} x={l.x.toFixed(1)} y={l.y.toFixed(1)} text-anchor="middle">
              {l.item.text}
            </text>
          </g>
        ))}
      </svg>
    </div>
  );
});

function nodeTip(m: Model, c: Control, v: View, i: number): string {
  const node = m.network.nodes[i]!;
  const own = m.sharers.map((s, k) => ({ s, k })).filter(({ s }) => s.home === i);
  const lines = own
    .slice(0, 6)
    .map(({ s, k }) => `${s.label}: ${rate(v.goodput[k]!)}, ${v.share[k] == null ? "no reference" : `${percent(v.share[k])}, ${className(v.class[k]!)}`}`);
  if (own.length > 6) lines.push(`and ${own.length - 6} more`);
  const n = c.nodes[i];
  if (n) lines.push(`transmits ${percent(n.tx)} of the time`, `air busy ${percent(n.busy)}`, `queue ${n.queue.toFixed(1)} packets`);
  const role = node.role === "gateway" ? " (gateway)" : node.role === "wired" ? " (wired)" : "";
  return [node.name + role, ...lines].join("\n");
}

/** One map or several that move together. */
export function Maps({
  maps,
  viewport,
  setViewport,
}: {
  maps: MapProps[];
  viewport: Viewport;
  setViewport: (of: (v: Viewport) => Viewport) => void;
}) {
  const now = useRef(viewport);
  now.current = viewport;
  const ref = usePanZoom(setViewport, () => now.current);
  return (
    <div class="mapbox" ref={ref} onDblClick={() => setViewport(() => WHOLE)}>
      <div class="maps">
        {maps.map((p) => (
          <div class="mp">
            {maps.length > 1 ? (
              <h3 class="mh">
                {p.control.name} <span class="dim">{p.view.starving ? `${p.view.starving} starving` : "none starving"}</span>
              </h3>
            ) : null}
            <MeshMap {...p} />
          </div>
        ))}
      </div>
      <span class="zoomb noprint">
        <button type="button" class="btn" aria-label="Zoom in" onClick={() => setViewport((v) => zoomed(v, 1.5))}>
          +
        </button>
        <button type="button" class="btn" aria-label="Zoom out" onClick={() => setViewport((v) => zoomed(v, 1 / 1.5))}>
          −
        </button>
        <button type="button" class="btn xs" aria-label="Show the whole map" onClick={() => setViewport(() => WHOLE)}>
          Fit
        </button>
      </span>
    </div>
  );
}
