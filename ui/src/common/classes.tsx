/**
 * The only scale of colours: share of the reference rate.
 *
 * Each class also has a shape.
 */

export const CLASSES = [
  { key: "starve", name: "starving", range: "below 10 %" },
  { key: "low", name: "low", range: "10 to 50 %" },
  { key: "short", name: "short", range: "50 to 80 %" },
  { key: "fair", name: "fair", range: "80 to 125 %" },
  { key: "above", name: "above fair", range: "over 125 %" },
] as const;

export type Class = (typeof CLASSES)[number]["key"] | "none";

export const STARVING = 0.1;

export function classOf(share: number | null | undefined): Class {
  if (share == null) return "none";
  if (share < STARVING) return "starve";
  if (share < 0.5) return "low";
  if (share < 0.8) return "short";
  return share <= 1.25 ? "fair" : "above";
}

export function className(k: Class): string {
  return CLASSES.find((c) => c.key === k)?.name ?? "no reference";
}

export function isClass(text: string | null): text is Class {
  return CLASSES.some((c) => c.key === text);
}

/** The mark of a class around the origin, in a group that its user places. */
export function Mark({ k, x, y, r }: { k: Class; x: number; y: number; r: number }) {
  const at = `translate(${x.toFixed(1)} ${y.toFixed(1)})`;
  if (k === "starve") {
    const q = r * 1.28;
    return (
      <g class="mark starve" transform={at}>
        <path d={`M0 ${-q}L${q} 0L0 ${q}L${-q} 0Z`} />
        <path class="sign" d={`M0 ${-q * 0.42}v${q * 0.45}M0 ${q * 0.34}v${q * 0.12}`} style={{ strokeWidth: Math.max(1.2, r * 0.24) }} />
      </g>
    );
  }
  if (k === "low") {
    const q = r * 1.22;
    return (
      <g class="mark low" transform={at}>
        <path d={`M0 ${q}L${q} ${-q * 0.78}H${-q}Z`} />
      </g>
    );
  }
  if (k === "short") {
    const q = r * 0.95;
    return (
      <g class="mark short" transform={at}>
        <circle class="ring" r={q} style={{ strokeWidth: Math.max(1.2, r * 0.2) }} />
        <path d={`M${-q} 0a${q} ${q} 0 0 0 ${2 * q} 0z`} />
      </g>
    );
  }
  if (k === "above") {
    return (
      <g class="mark above" transform={at}>
        <circle class="ring" r={r * 1.15} style={{ strokeWidth: Math.max(1.3, r * 0.22) }} />
        <circle r={r * 0.68} />
      </g>
    );
  }
  return (
    <g class={`mark ${k}`} transform={at}>
      <circle r={k === "fair" ? r : r * 0.62} />
    </g>
  );
}

/** A class's mark beside text. */
export function Swatch({ k, r = 5 }: { k: Class; r?: number }) {
  const size = r * 2 + 6;
  return (
    <svg class="swatch" width={size} height={size} aria-hidden="true">
      <Mark k={k} x={size / 2} y={size / 2} r={r} />
    </svg>
  );
}

export function ClassName({ k }: { k: Class }) {
  return (
    <span class="st">
      <Swatch k={k} />
      {className(k)}
    </span>
  );
}

/** Draws a class's mark on a canvas, for maps with too many nodes for elements. */
export function drawMark(c: CanvasRenderingContext2D, k: Class, x: number, y: number, r: number, colour: string, paper: string) {
  c.fillStyle = colour;
  c.strokeStyle = paper;
  c.lineWidth = 1;
  c.beginPath();
  if (k === "starve") {
    const q = r * 1.4;
    c.moveTo(x, y - q);
    c.lineTo(x + q, y);
    c.lineTo(x, y + q);
    c.lineTo(x - q, y);
    c.closePath();
  } else if (k === "low") {
    const q = r * 1.25;
    c.moveTo(x, y + q);
    c.lineTo(x + q, y - q * 0.8);
    c.lineTo(x - q, y - q * 0.8);
    c.closePath();
  } else {
    c.arc(x, y, k === "none" ? r * 0.62 : r, 0, 2 * Math.PI);
  }
  c.fill();
  c.stroke();
  if (k === "short" || k === "above") {
    c.beginPath();
    c.fillStyle = paper;
    if (k === "short") c.arc(x, y, r * 0.7, Math.PI, 0);
    else c.arc(x, y, r * 0.72, 0, 2 * Math.PI);
    c.fill();
    if (k === "above") {
      c.beginPath();
      c.fillStyle = colour;
      c.arc(x, y, r * 0.45, 0, 2 * Math.PI);
      c.fill();
    }
  }
}
