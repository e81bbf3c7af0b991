/** Files created by this page: tables, pictures, data. */

export function save(name: string, content: BlobPart, type: string) {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(new Blob([content], { type }));
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 4000);
}

/** Returns a table as CSV (RFC 4180); text that looks like a formula is quoted as text. */
export function csv(rows: (string | number | null)[][]): string {
  const cell = (v: string | number | null) => {
    if (v === null) return "";
    if (typeof v === "number") return String(v);
    const safe = /^[=+\-@\t\r]/.test(v) ? `'${v}` : v;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return rows.map((r) => r.map(cell).join(",")).join("\r\n") + "\r\n";
}

const KEPT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap",
  "stroke-linejoin", "opacity", "font-size", "font-weight", "text-anchor", "paint-order"] as const;

/** Returns a copy of a drawing with the page's style inlined. */
export function standalone(svg: SVGSVGElement): SVGSVGElement {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const from = [svg, ...svg.querySelectorAll("*")];
  const to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    const target = to[i]!;
    for (const key of KEPT) {
      const value = style.getPropertyValue(key);
      if (value && value !== "normal") target.setAttribute(key, value);
    }
    target.removeAttribute("class");
    target.removeAttribute("data-tip");
  });
  return copy;
}

/** A picture of drawings side by side, with a title, a legend and the origin, on an opaque ground. */
export function figure(
  parts: { title: string; svg: SVGSVGElement }[],
  legend: SVGSVGElement,
  origin: string,
  colours: { paper: string; ink: string; soft: string },
): { xml: string; width: number; height: number } {
  const ns = "http://www.w3.org/2000/svg";
  const boxes = parts.map((p) => p.svg.getBoundingClientRect());
  const band = legend.getBoundingClientRect();
  const width = Math.max(boxes.reduce((w, b) => w + b.width, 0), band.width + 24, 480);
  const tall = Math.max(...boxes.map((b) => b.height));
  const height = tall + 40 + band.height + 40;
  const root = document.createElementNS(ns, "svg");
  const set = (e: Element, values: Record<string, string | number>) =>
    Object.entries(values).forEach(([k, v]) => e.setAttribute(k, String(v)));
  const add = (name: string, values: Record<string, string | number>, text?: string) => {
    const e = document.createElementNS(ns, name);
    set(e, values);
    if (text !== undefined) e.textContent = text;
    root.append(e);
  };
  set(root, { xmlns: ns, width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, sans-serif" });
  add("rect", { width, height, fill: colours.paper });
  let x = 0;
  parts.forEach((p, i) => {
    add("text", { x: x + 14, y: 24, "font-size": 14, "font-weight": 650, fill: colours.ink }, p.title);
    const copy = standalone(p.svg);
    set(copy, { x, y: 36, width: boxes[i]!.width, height: boxes[i]!.height });
    root.append(copy);
    x += boxes[i]!.width;
  });
  const keys = standalone(legend);
  set(keys, { x: 12, y: tall + 44, width: band.width, height: band.height });
  root.append(keys);
  add("text", { x: 14, y: height - 12, "font-size": 10.5, fill: colours.soft }, origin);
  return { xml: new XMLSerializer().serializeToString(root), width, height };
}

export function savePng(name: string, xml: string, width: number, height: number): Promise<void> {
  return new Promise((done, fail) => {
    const image = new Image();
    const url = URL.createObjectURL(new Blob([xml], { type: "image/svg+xml" }));
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = Math.round(width * 2);
      canvas.height = Math.round(height * 2);
      canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
      URL.revokeObjectURL(url);
      canvas.toBlob((blob) => {
        if (!blob) return fail(new Error("no picture"));
        save(name, blob, "image/png");
        done();
      });
    };
    image.onerror = () => fail(new Error("no picture"));
    image.src = url;
  });
}
