// Parts of the program without a browser.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");

async function load(file) {
  const out = await build({ absWorkingDir: root, entryPoints: [`src/${file}`], bundle: true, write: false, format: "esm", jsx: "automatic", jsxImportSource: "preact" });
  return import(`data:text/javascript;base64,${Buffer.from(out.outputFiles[0].text).toString("base64")}`);
}

test("curves are decoded as Rust encodes them (codec.rs: examples_are_kept)", async () => {
  const { decode } = await load("explorer/model/curve.ts");
  assert.deepEqual(decode("1:"), []);
  assert.deepEqual(decode("1:~4D"), Array(120).fill(0));
  assert.deepEqual(decode("1:oGATzFw-B"), [100, 100, 90, 0, 1000]);
  assert.deepEqual(decode("0.002:8uB7uB7uBA").map((v) => +v.toFixed(6)), [1.5, 0, -1.5, -1.5]);
  assert.throws(() => decode("1:o!"), /damaged/);
});

test("a stacked mark stays within a diameter of its place while there is room", async () => {
  const { stack } = await load("explorer/scale/share.ts");
  const places = Array.from({ length: 60 }, (_, i) => 40 + 25 * Math.sin(i * 12.9898));
  const at = stack(places, 8, 64);
  at.forEach((p, i) => {
    assert.ok(Math.abs(p.x - places[i]) <= 8, `${places[i]} → ${p.x}`);
    assert.ok(Math.abs(p.y) <= 32);
  });
  for (const n of [1, 2, 9, 200]) {
    const same = stack(Array(n).fill(100), 8, 64);
    assert.ok(same.every((p) => Math.abs(p.x - 100) <= 8 && Math.abs(p.y) <= 32), `${n}`);
  }
});

test("numbers are printed with three digits at most and a unit", async () => {
  const { rate, percent, ms, nice } = await load("common/format.ts");
  assert.deepEqual([0, 0.64, 99.96, 133, 1234, 99_512].map(rate), ["0 kbit/s", "0.6 kbit/s", "100.0 kbit/s", "133 kbit/s", "1.23 Mbit/s", "99.5 Mbit/s"]);
  assert.deepEqual([null, 0, 0.0004, 0.032, 0.73, 6.5].map(percent), ["–", "0 %", "<0.1 %", "3.2 %", "73 %", "650 %"]);
  assert.deepEqual([129.4, 2600].map(ms), ["129 ms", "2.60 s"]);
  for (const v of [0.3, 7, 101, 2345]) assert.ok(nice(v) >= v * 0.999 && nice(v) <= 2 * v, `${v}`);
});

test("CSV quotes what spreadsheets would take for something else", async () => {
  const { csv } = await load("common/save.ts");
  assert.equal(csv([["a", 1.5, null], ['x,"y"', -2, "=1+1"]]), 'a,1.5,\r\n"x,""y""",-2,\'=1+1\r\n');
});

test("terms are explained in at most 35 words", async () => {
  const { TERMS } = await load("explorer/lib/glossary.ts");
  for (const [title, text] of Object.values(TERMS)) assert.ok(text.split(/\s+/).length <= 35, title);
});

// ---- colours

const tokens = (() => {
  const css = readFileSync(join(root, "src/common/tokens.css"), "utf8");
  const of = (block) => Object.fromEntries([...block.matchAll(/--([a-z0-9-]+): (#[0-9a-f]{3,6})\b/g)].map((m) => [m[1], m[2]]));
  const [light, media, dark] = css.split(/(?=@media|:root\[data-theme="dark"\])/);
  return { light: of(light), dark: of(dark), media: of(media) };
})();

const linear = (hex) => {
  const full = hex.length === 4 ? [...hex.slice(1)].map((c) => c + c) : hex.slice(1).match(/../g);
  return full.map((c) => parseInt(c, 16) / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
};
const times = (m, v) => m.map((r) => r[0] * v[0] + r[1] * v[1] + r[2] * v[2]);
const oklab = (rgb) => {
  const lms = times([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566], [0.0883024619, 0.2817188376, 0.6299787005]], rgb);
  return times([[0.2104542553, 0.793617785, -0.0040720468], [1.9779984951, -2.428592205, 0.4505937099], [0.0259040371, 0.7827717662, -0.808675766]], lms.map(Math.cbrt));
};
// Machado, Oliveira, Fernandes 2009, severity 1.
const VISION = {
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};
const distance = (a, b, vision) => {
  const [x, y] = [a, b].map((h) => oklab((vision ? times(VISION[vision], linear(h)) : linear(h)).map((v) => Math.max(0, v))));
  return Math.hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]);
};
const lightness = (hex) => oklab(linear(hex))[0];
const contrast = (a, b) => {
  const [x, y] = [a, b].map((h) => times([[0.2126, 0.7152, 0.0722], [0, 0, 0], [0, 0, 0]], linear(h))[0] + 0.05);
  return Math.max(x, y) / Math.min(x, y);
};

test("classes stay apart for colour-blind readers and in grey", () => {
  assert.deepEqual(tokens.dark, tokens.media, "both ways to the dark style agree");
  for (const [theme, t] of [["light", tokens.light], ["dark", tokens.dark]]) {
    for (const vision of ["protanopia", "deuteranopia"]) {
      const d = distance(t.starve, t.fair, vision);
      assert.ok(d >= 0.11, `${theme}, ${vision}: starving and fair are ${d.toFixed(3)} apart`);
    }
    const d = distance(t.starve, t.fair, "tritanopia");
    assert.ok(d >= 0.29, `${theme}, tritanopia: ${d.toFixed(3)}`);
    const [a, b, c] = [t.starve, t.low, t.short].map(lightness);
    assert.ok(b - a >= 0.05 && c - b >= 0.05, `${theme}: lightness ${a.toFixed(2)}, ${b.toFixed(2)}, ${c.toFixed(2)}`);
  }
});

test("text has contrast", () => {
  for (const t of [tokens.light, tokens.dark]) {
    for (const ground of ["panel", "bg", "panel2"]) {
      for (const ink of ["ink", "ink2", "ink3", "accent", "starve", "fair"]) {
        const c = contrast(t[ink], t[ground]);
        assert.ok(c >= 4.5, `${ink} on ${ground}: ${c.toFixed(2)}`);
      }
    }
    assert.ok(contrast(t.warn, t["warn-bg"]) >= 4.5);
  }
});

test("repeated events are one line with their number", async () => {
  const { grouped } = await load("gateway/components/Events.tsx");
  const event = (at, code, text, more) => ({ at, code, level: "info", text, more });
  const all = [event(9, "a.b", 'flow "x" at 15 %'), event(8, "a.b", 'flow "y" at 20 %', 3), event(7, "a.b", "another"), event(6, "a.b", 'flow "x" at 1 %')];
  assert.deepEqual(grouped(all).map((g) => [g.event.at, g.times, g.since]), [[9, 5, 8], [7, 1, 7], [6, 1, 6]]);
});

test("changes of the gateway's page keep the homes that did not change", async () => {
  const { whole, changed } = await load("gateway/live.ts");
  const home = (name, rate) => ({ name, ways: [{ rate }, { rate: 0 }] });
  const start = whole({ number: 1, uptime: 100, head: {}, homes: [home("a", 1000), home("b", 2000)], events: [] });
  const same = changed(start, { number: 2, uptime: 110, head: {}, homes: [home("a", 3000)], gone: [], events: [] });
  assert.deepEqual([same.homes.get("a").ways[0].rate, same.homes.get("b").ways[0].rate], [3000, 2000]);
  const later = changed(same, { number: 3, uptime: 125, head: {}, homes: [], gone: ["b"], events: [{ at: 124, code: "c" }] });
  assert.deepEqual([later.homes.has("a"), later.homes.has("b"), later.events.length], [true, false, 1]);
});

test("the recorded hour ends with the present rate, and lines break where nothing was recorded", async () => {
  const { hourOf, line } = await load("gateway/past.ts");
  const home = (name) => ({ name, ways: [{ rate: 7000 }, { rate: 0 }] });
  const hours = { idle: [null, 0, null], more: false, homes: new Map([["a", { rate: [1, 2, null], starved: [0, 60, 0] }]]) };
  assert.deepEqual(hourOf(hours, home("a")), { rate: [1, 2, 7], starved: [0, 60, 0] });
  assert.deepEqual(hourOf(hours, home("constructor")).rate, [null, 0, 7]);
  assert.equal(hourOf({ ...hours, more: true }, home("b")), null);
  assert.equal(hourOf("none", home("a")), null);
  const of = (values, steps) => line(values, (i) => i, (v) => v, steps);
  assert.equal(of([1, 2, null, 3]), "M0.0 1.0h.1L1.0 2.0M3.0 3.0h.1");
  assert.equal(of([1, 2], true), "M0.0 1.0h.1H1.0V2.0");
});

test("branches of a mesh have sectors, and circles or unknown nodes have no path", async () => {
  const { tree } = await load("gateway/tree.ts");
  const placed = tree([
    ["a", [null, true]],
    ["b", ["a", true]],
    ["c", ["a", false]],
    ["d", ["relay", true]],
    ["relay", [null, true]],
    ["e", undefined],
    ["x", ["y", true]],
    ["y", ["x", true]],
    ["z", ["nowhere", true]],
  ]);
  const of = (name) => placed.get(name);
  assert.deepEqual([of("a").via, of("b").via, of("c").via, of("d").via, of("relay").via], [null, "a", "a", "relay", null]);
  assert.equal(of("c").exact, false);
  assert.equal(of("a").angle, (of("b").angle + of("c").angle) / 2);
  assert.equal(of("relay").angle, of("d").angle);
  assert.deepEqual(["e", "x", "y", "z"].map((name) => of(name).via), Array(4).fill(undefined));
  assert.equal(new Set(["b", "c", "d", "e", "x", "y", "z"].map((name) => of(name).angle)).size, 7);
  // Long chains need no deep stack.
  const chain = Array.from({ length: 20_000 }, (_, i) => [`n${i}`, [i ? `n${i - 1}` : null, true]]);
  assert.equal(tree(chain).get("n19999").via, "n19998");
});
