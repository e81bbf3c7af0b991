/** Axes of shares: logarithmic from 0.1 % to 2,000 % with a gutter below, or linear. */

const LOW = Math.log10(0.001);
const HIGH = Math.log10(20);

export const TICKS: [share: number, label: string][] = [
  [0.01, "1 %"],
  [0.1, "10 %"],
  [1, "100 %"],
  [10, "1000 %"],
];

/** Place of a share between 0 and 1, logarithmic. */
export function logPlace(share: number): number {
  const s = Math.min(20, Math.max(share, 0.001));
  return (Math.log10(s) - LOW) / (HIGH - LOW);
}

/**
 * Returns the position of a share on an axis of `width` pixels.
 *
 * The axis begins with a gutter for all shares up to 0.1 %.
 */
export function axis(width: number, gutter: number): (share: number) => number {
  return (share) => (share <= 0.001 ? gutter / 2 : gutter + logPlace(share) * (width - gutter - 10));
}

/** Returns the place of a share on a bar. */
export function bar(width: number, scale: "log" | "linear", top: number): (share: number) => number {
  const room = width - 6;
  return scale === "log" ? (s) => 3 + logPlace(s) * room : (s) => 3 + (Math.min(Math.max(s, 0), top) / top) * room;
}

/** End of a linear axis for some shares. */
export function linearTop(shares: (number | null)[]): number {
  const most = shares.reduce<number>((m, s) => Math.max(m, s ?? 0), 1.4);
  return Math.min(25, most) * 1.05;
}

/**
 * Stacks marks in columns of one diameter. Where a column is full, marks go to the next one on their own side, so that
 * each stays within one diameter of its place; where that is full too, they overlap.
 */
export function stack(places: number[], diameter: number, height: number): { x: number; y: number }[] {
  const capacity = Math.max(1, Math.floor(height / diameter));
  const columns = new Map<number, number[]>();
  const column = (k: number) => {
    let all = columns.get(k);
    if (!all) columns.set(k, (all = []));
    return all;
  };
  places.forEach((x, i) => {
    const own = Math.round(x / diameter);
    const side = own + (x / diameter >= own ? 1 : -1);
    const full = column(own).length >= capacity && column(side).length < column(own).length;
    column(full ? side : own).push(i);
  });
  const out = places.map((x) => ({ x, y: 0 }));
  for (const [k, all] of columns) {
    if (all.length < 2) {
      if (all[0] !== undefined && Math.round(places[all[0]]! / diameter) !== k) out[all[0]]!.x = k * diameter;
      continue;
    }
    const step = Math.min(diameter, (height - diameter) / (all.length - 1));
    all.forEach((i, n) => {
      out[i] = { x: k * diameter, y: (n - (all.length - 1) / 2) * step };
    });
  }
  return out;
}
