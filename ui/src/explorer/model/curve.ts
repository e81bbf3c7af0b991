/** Decoder of curves; `crates/report/src/explorer/codec.rs` defines the form. */

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const VALUE = new Map([...DIGITS].map((c, i) => [c, i]));

export function decode(text: string | undefined): number[] {
  if (!text) return [];
  const colon = text.indexOf(":");
  const step = Number(text.slice(0, colon));
  const out: number[] = [];
  let at = colon + 1;
  let value = 0;
  const number = () => {
    let n = 0;
    let weight = 1;
    for (;;) {
      const digit = VALUE.get(text[at++] as string);
      if (digit === undefined) throw new Error("a curve is damaged");
      n += (digit & 31) * weight;
      weight *= 32;
      if (digit < 32) return n;
    }
  };
  while (at < text.length) {
    if (text[at] === "~") {
      at++;
      for (let k = number(); k > 0; k--) out.push(value * step);
    } else {
      const n = number();
      value += n % 2 ? -(n + 1) / 2 : n / 2;
      out.push(value * step);
    }
  }
  return out;
}

/** Mean over up to `width` samples around each, for bold lines. */
export function smooth(values: number[], width: number): number[] {
  const half = Math.max(0, Math.floor(width / 2));
  return values.map((_, i) => {
    const from = Math.max(0, i - half);
    const to = Math.min(values.length, i + half + 1);
    let sum = 0;
    for (let k = from; k < to; k++) sum += values[k]!;
    return sum / (to - from);
  });
}
