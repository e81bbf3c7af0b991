/** Numbers in words: three significant digits, kbit/s below 1 Mbit/s, ms below 1 s. */

export function rate(kbps: number): string {
  if (kbps >= 9950) return `${(kbps / 1e3).toFixed(1)} Mbit/s`;
  if (kbps >= 1000) return `${(kbps / 1e3).toFixed(2)} Mbit/s`;
  if (kbps >= 100) return `${kbps.toFixed(0)} kbit/s`;
  return kbps >= 0.05 ? `${kbps.toFixed(1)} kbit/s` : "0 kbit/s";
}

export function percent(share: number | null | undefined): string {
  if (share == null) return "–";
  if (share <= 0) return "0 %";
  if (share < 0.001) return "<0.1 %";
  return share < 0.0995 ? `${(share * 100).toFixed(1)} %` : `${Math.round(share * 100)} %`;
}

export function ms(value: number): string {
  return value >= 1000 ? `${(value / 1e3).toFixed(2)} s` : `${Math.round(value)} ms`;
}

export function count(n: number, one: string, many = `${one}s`): string {
  return `${n} ${n === 1 ? one : many}`;
}

export function list(names: string[], most = 4): string {
  if (names.length <= 1) return names[0] ?? "";
  if (names.length <= most) return `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
  return `${names.slice(0, most - 1).join(", ")} and ${names.length - most + 1} more`;
}

export function shorten(text: string, most: number): string {
  const letters = [...text];
  return letters.length <= most ? text : `${letters.slice(0, most - 1).join("")}…`;
}

/** A round number at least as large, for axes. */
export function nice(top: number): number {
  if (top <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(top));
  return [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10].map((m) => m * power).find((v) => v >= top * 0.9999) ?? top;
}
