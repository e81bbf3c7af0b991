import { useMemo } from "preact/hooks";
import { Mark } from "../../common/classes";
import { shorten } from "../../common/format";
import { place, type Box, type Item } from "../../common/labels";
import { useSize } from "../../common/size";
import type { Content, Home } from "../types";
import { BOUNDS, rate, STATES } from "../words";

const GOLDEN = 2.39996;

/** Homes around the gateway at the distance of their round trip; paths are not known here. */
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
  const at = (h: Home, i: number) => {
    const r = radius(h.rtt);
    return [width / 2 + Math.cos(i * GOLDEN) * r * stretch, height / 2 + Math.sin(i * GOLDEN) * r] as const;
  };
  const size = homes.length <= 40 ? 8 : homes.length <= 150 ? 6 : 4;
  const order = homes.map((h, i) => ({ h, i })).sort((a, b) => STATES[b.h.state].rank - STATES[a.h.state].rank);
  const rings = [5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].filter((r) => r > near && r < far);
  const labels = useMemo(() => {
    if (!width) return [];
    const points = homes.map(at);
    const marks: Box[] = points.map(([x, y]) => [x - size, y - size, x + size, y + size]);
    marks.push([width / 2 - 11, height / 2 - 11, width / 2 + 11, height / 2 + 11]);
    rings.forEach((r) => marks.push([width / 2 - 24, height / 2 - radius(r) - 14, width / 2 + 24, height / 2 - radius(r)]));
    const item = (i: number): Item => ({ text: shorten(homes[i]!.name, 22), x: points[i]![0], y: points[i]![1], r: size, bold: homes[i]!.name === chosen });
    const all = [...order].reverse().map(({ i }) => item(i));
    return place(all, marks, width, height).slice(0, 120);
  }, [homes, width, height, chosen]);
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
        {order.map(({ h, i }) => {
          const [x, y] = at(h, i);
          return (
            <path class={`link${(h.ways[0].rate ?? 0) > 1000 ? " used" : ""}`} stroke-width={1 + Math.min(6, Math.sqrt((h.ways[0].rate ?? 0) / 4e5))} d={`M${width / 2} ${height / 2}L${x.toFixed(1)} ${y.toFixed(1)}`} />
          );
        })}
        {order.map(({ h, i }) => {
          const [x, y] = at(h, i);
          return (
            <g
              key={h.name}
              class="node"
              data-tip={`${h.name}\n${STATES[h.state].name}, ${rate(h.ways[0].rate)} down\n${BOUNDS[h.bound].name}${h.rtt === null ? "\nno round trip known" : `\n${Math.round(h.rtt)} ms`}`}
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
