/** Placement of labels beside their marks, without overlap with each other and the edge. */

export interface Item {
  text: string;
  x: number;
  y: number;
  /** Radius of the mark. */
  r: number;
  /** Placed away from its mark with a line where there is no room beside it. */
  must?: boolean;
  bold?: boolean;
}

export interface Placed {
  item: Item;
  x: number;
  y: number;
  box: Box;
  leader?: [number, number, number, number];
}

export type Box = [left: number, top: number, right: number, bottom: number];

const hit = (a: Box, b: Box) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];

/** Finds boxes by area, so that hundreds of labels cost no more than their neighbours. */
class Grid {
  private cells = new Map<string, Box[]>();
  private static size = 64;

  private *keys(b: Box) {
    const s = Grid.size;
    for (let x = Math.floor(b[0] / s); x <= Math.floor(b[2] / s); x++)
      for (let y = Math.floor(b[1] / s); y <= Math.floor(b[3] / s); y++) yield `${x},${y}`;
  }
  add(b: Box) {
    for (const k of this.keys(b)) {
      const cell = this.cells.get(k);
      if (cell) cell.push(b);
      else this.cells.set(k, [b]);
    }
  }
  free(b: Box): boolean {
    for (const k of this.keys(b)) if (this.cells.get(k)?.some((other) => hit(other, b))) return false;
    return true;
  }
}

let context: CanvasRenderingContext2D | null | undefined;
const widths = new Map<string, number>();

export function textWidth(text: string, bold = false): number {
  const key = bold ? `*${text}` : text;
  let width = widths.get(key);
  if (width === undefined) {
    context ??= document.createElement("canvas").getContext("2d");
    const font = getComputedStyle(document.body).fontFamily;
    if (context) {
      context.font = `${bold ? 650 : 400} 12px ${font}`;
      width = context.measureText(text).width;
    } else {
      width = text.length * 7;
    }
    widths.set(key, width);
  }
  return width;
}

/** Places items in order of priority; labels avoid `marks` if possible. */
export function place(items: Item[], marks: Box[], width: number, height: number): Placed[] {
  const taken = new Grid();
  const soft = new Grid();
  marks.forEach((b) => soft.add(b));
  const out: Placed[] = [];
  const inside = (b: Box) => b[0] > 2 && b[1] > 2 && b[2] < width - 2 && b[3] < height - 2;
  const put = (item: Item, b: Box, leader?: Placed["leader"]) => {
    taken.add(b);
    out.push({ item, x: (b[0] + b[2]) / 2, y: b[1] + 11, box: b, leader });
    return true;
  };
  const beside = (item: Item, avoidMarks: boolean) => {
    const w = textWidth(item.text, item.bold) + 4;
    const h = 14;
    const gap = item.r + 3;
    const corners: [number, number][] = [
      [item.x - w / 2, item.y + gap],
      [item.x + gap + 1, item.y - h / 2],
      [item.x - gap - 1 - w, item.y - h / 2],
      [item.x - w / 2, item.y - gap - h],
    ];
    for (const [x, y] of corners) {
      const b: Box = [x, y, x + w, y + h];
      if (inside(b) && taken.free(b) && (!avoidMarks || soft.free(b))) return put(item, b);
    }
    return false;
  };
  const away = (item: Item) => {
    const w = textWidth(item.text, item.bold) + 4;
    for (let d = 34; d < 170; d += 12)
      for (let a = 0; a < 8; a++) {
        const x = item.x + Math.cos(a * 0.785) * d * 1.3;
        const y = item.y + Math.sin(a * 0.785) * d;
        const b: Box = [x - w / 2, y - 8, x + w / 2, y + 8];
        if (inside(b) && taken.free(b) && soft.free(b)) {
          return put(item, b, [item.x, item.y, item.x + (x - item.x) * (1 - 9 / d), item.y + (y - item.y) * (1 - 9 / d)]);
        }
      }
    return false;
  };
  for (const item of items) {
    if (item.x < -40 || item.y < -40 || item.x > width + 40 || item.y > height + 40) continue;
    if (beside(item, true)) continue;
    if (item.must) away(item) || beside(item, false);
  }
  return out;
}
