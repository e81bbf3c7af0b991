/** Directions of nodes on the map, so that each branch of the mesh has a sector. */

import type { Home } from "./types";

export interface Placed {
  /** Angle, in radians. */
  angle: number;
  /** Next node towards the gateway, null for the gateway; undefined: not known. */
  via?: string | null;
  exact: boolean;
}

/** Places nodes by their next nodes; those of a circle or behind unknown nodes have no path. */
export function tree(nodes: (readonly [name: string, via: Home["via"]])[]): Map<string, Placed> {
  const vias = new Map(nodes);
  const children = new Map<string | null, string[]>();
  for (const [name, via] of vias) {
    const next = via && (via[0] === null || vias.has(via[0])) ? via[0] : undefined;
    if (next === undefined) continue;
    const below = children.get(next);
    if (below) below.push(name);
    else children.set(next, [name]);
  }
  const order: string[] = [];
  const stack = [...(children.get(null) ?? [])].reverse();
  while (stack.length) {
    const name = stack.pop()!;
    order.push(name);
    [...(children.get(name) ?? [])].reverse().forEach((child) => stack.push(child));
  }
  const known = new Set(order);
  const unknown = [...vias.keys()].filter((name) => !known.has(name));
  const leaves = [...order.filter((name) => !children.has(name)), ...unknown];
  const angles = new Map(leaves.map((name, i) => [name, (2 * Math.PI * i) / leaves.length]));
  // Children stand after their parents: from the end, all of them are placed already.
  for (const name of [...order].reverse()) {
    const below = children.get(name);
    if (below) angles.set(name, below.reduce((sum, child) => sum + angles.get(child)!, 0) / below.length);
  }
  return new Map([...vias].map(([name, via]) => [name, { angle: angles.get(name) ?? 0, via: known.has(name) ? via![0] : undefined, exact: via?.[1] ?? false }]));
}
