import { useMemo } from "preact/hooks";
import { Mark } from "../../common/classes";
import { shorten } from "../../common/format";
import { place, type Box, type Item } from "../../common/labels";
import { useSize } from "../../common/size";
import { tree } from "../tree";
import type { Content, Home } from "../types";
import { BOUNDS, rate, STATES } from "../words";

const GOLDEN = 2.39996;

/** Homes at the distance of their round trip, with their paths as far as known. */
export function Mesh({ content, chosen, choose }: { content: Content; chosen: string | null; choose: (name: string) => void }) {
  const [ref, { width, height }] = useSize<SVGSVGElement>();
  const homes = useMemo(() => [...content.homes.values()].sort((a, b) => a.name.localeCompare(b.name)), [content]);
  const far = Math.max(20, ...homes.map((h) => h.rtt ?? 0)) * 1.1;
  const near = Math.max(1, Math.min(far / 4, ...homes.map((h) => h.rtt ?? Infinity)) / 1.6);
  const reach = Math.max(40, Math.min(width, height) / 2 - 22);
  const unknown = homes.some((h) => h.rtt === null);
  const known = unknown ? reach - 30 : reach;
  const radius = (rtt: number | null) => (rtt === null ? reach : 24 + (Math.log(Math.max(rtt, near) / near) / Math.log(far / near)) * (known - 24));
  const stretch = Math.min(1.5, width / Math.max(1, height));
  const { relays } = content.head;
  const placed = useMemo(() => tree([...homes.map((h) => [h.name, h.via] as const), ...relays.map(([name, node, exact]) => [name, [node, exact]] as [string, Home["via"]])]), [homes, relays]);
  const anyPath = homes.some((h) => h.via);
  const angle = (name: string, i: number) => (anyPath ? placed.get(name)!.angle : i * GOLDEN);
  const point = (angle: number, r: number) => [width / 2 + Math.cos(angle) * r * stretch, height / 2 + Math.sin(angle) * r] as const;
  const places = new Map(homes.map((h, i) => [h.name, point(angle(h.name, i), radius(h.rtt))]));
  // A relay has no round trip of its own: it stands near the gateway.
  relays.forEach(([name]) => places.set(name, point(angle(name, 0), 24 + (known - 24) / 4)));
  /** Line to the next node; without a known path a dotted one to the gateway. */
  const link = (name: string, used: number, key: string) => {
    const [x, y] = places.get(name)!;
    const { via, exact } = placed.get(name)!;
    const [a, b] = (via != null && places.get(via)) || [width / 2, height / 2];
    return <path key={key} class={`link${used > 1000 ? " used" : ""}${via === undefined ? " unknown" : exact ? "" : " part"}`} stroke-width={1 + Math.min(6, Math.sqrt(used / 4e5))} d={`M${a.toFixed(1)} ${b.toFixed(1)}L${x.toFixed(1)} ${y.toFixed(1)}`} />;
  };
  const size = homes.length <= 40 ? 8 : homes.length <= 150 ? 6 : 4;
  const order = homes.map((h, i) => ({ h, i })).sort((a, b) => STATES[b.h.state].rank - STATES[a.h.state].rank);
  const rings = [5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].filter((r) => r > near && r < far);
  const labels = useMemo(() => {
    if (!width) return [];
    const points = homes.map((h) => places.get(h.name)!);
    const marks: Box[] = points.map(([x, y]) => [x - size, y - size, x + size, y + size]);
    marks.push([width / 2 - 11, height / 2 - 11, width / 2 + 11, height / 2 + 11]);
    rings.forEach((r) => marks.push([width / 2 - 24, height / 2 - radius(r) - 14, width / 2 + 24, height / 2 - radius(r)]));
    const item = (i: number): Item => ({ text: shorten(homes[i]!.name, 22), x: points[i]![0], y: points[i]![1], r: size, bold: homes[i]!.name === chosen });
    const all = [...order].reverse().map(({ i }) => item(i));
    return place(all, marks, width, height).slice(0, 120);
  }, [homes, relays, width, height, chosen]);
  return (
    <div class="mapbox1">
      <svg ref={ref} class="map mesh" role="group" aria-label={`${homes.length} homes around the gateway by round trip; the table of homes has the same data.`}>
        {rings.map((r) => (
          <g class="ring">
            <ellipse cx={width / 2} cy={height / 2} rx={radius(r) * stretch} ry={radius(r)} />
            <text x={width / 2} y={height / 2 - radius(r) - 3} text-anchor="middle">
              {r} ms
            </text>
          </g>
        ))}
        {unknown ? (
          <g class="ring none">
            <ellipse cx={width / 2} cy={height / 2} rx={reach * stretch} ry={reach} />
          </g>
        ) : null}
        {relays.map(([name]) => link(name, 0, `relay ${name}`))}
        {order.map(({ h }) => link(h.name, h.ways[0].rate ?? 0, `home ${h.name}`))}
        {relays.map(([name]) => {
          const [x, y] = places.get(name)!;
          return (
            <g class="relay" data-tip={`${name}\nrouter without a home`}>
              <rect x={(x - 4).toFixed(1)} y={(y - 4).toFixed(1)} width="8" height="8" />
            </g>
          );
        })}
        {order.map(({ h }) => {
          const [x, y] = places.get(h.name)!;
          return (
            <g
              key={h.name}
              class="node"
              data-tip={`${h.name}\n${STATES[h.state].name}, ${rate(h.ways[0].rate)} down\n${BOUNDS[h.bound].name}${h.rtt === null ? "\nno round trip known" : `\n${Math.round(h.rtt)} ms`}${!h.via ? "" : `\n${h.via[0] === null ? "next to the gateway" : `by ${h.via[0]}${h.via[1] ? "" : " and maybe others"}`}`}`}
              onClick={() => choose(h.name)}
            >
              <circle cx={x} cy={y} r={size + 5} fill="transparent" />
              {h.name === chosen ? <circle class="halo" cx={x} cy={y} r={size + 5} /> : null}
              <Mark k={STATES[h.state].mark} x={x} y={y} r={size} />
            </g>
          );
        })}
        {width ? (
          <g class="gateway">
            <rect x={width / 2 - 10} y={height / 2 - 10} width="20" height="20" rx="4" />
            <path d={`M${width / 2 - 5} ${height / 2}L${width / 2} ${height / 2 - 5}L${width / 2 + 5} ${height / 2}V${height / 2 + 5}H${width / 2 - 5}Z`} />
          </g>
        ) : null}
        {labels.map((l) => (
          <g class="label">
            <text class={l.item.bold ? "bold" : ""} x={l.x.toFixed(1)} y={l.y.toFixed(1)} text-anchor="middle">
              {l.item.text}
            </text>
          </g>
        ))}
      </svg>
    </div>
  );
}
