// The page in headless Chromium, made from real runs.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import test, { after, before } from "node:test";
import { chromium } from "playwright-core";
import { HOSTILE, kept, model, page as file } from "./results.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let browser;
const times = {};

before(async () => {
  mkdirSync(kept, { recursive: true });
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    // The shell's own start is not part of what is tested, and a busy machine may take long for it.
    timeout: 180_000,
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
});
after(async () => {
  writeFileSync(join(kept, "times.json"), JSON.stringify(times, null, 2));
  await browser?.close();
});

/** Opens a result; every error and every request but for the file itself fails the test. */
async function open(t, name, { width = 1280, height = 800, dark = false, hash = "", bypass = false } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? "dark" : "light", bypassCSP: bypass, acceptDownloads: true });
  context.setDefaultTimeout(120_000);
  t.after(() => context.close());
  const p = await context.newPage();
  const wrong = [];
  p.on("pageerror", (e) => wrong.push(e.stack));
  p.on("console", (m) => ["error", "warning"].includes(m.type()) && wrong.push(m.text()));
  const path = file(name);
  p.on("request", (r) => !r.url().startsWith(`file://${path}`) && !/^(blob|data):/.test(r.url()) && wrong.push(`request ${r.url()}`));
  await p.goto(`file://${path}${hash ? `#${hash}` : ""}`);
  await p.waitForSelector("h1");
  await settled(p);
  p.wrong = wrong;
  return p;
}

/** Waits until sizes are measured and everything that depends on them is drawn. */
const settled = (p) => p.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)))));
const shot = (p, name, options) => p.screenshot({ path: join(kept, `${name}.png`), ...options });
const quiet = (p) => assert.deepEqual(p.wrong, []);

/** Visible text of what lies within the first screen. */
const firstScreen = (p) =>
  p.evaluate(() => {
    const out = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      const range = document.createRange();
      range.selectNodeContents(walk.currentNode);
      const b = range.getBoundingClientRect();
      const style = getComputedStyle(walk.currentNode.parentElement);
      if (b.width && b.top >= 0 && b.bottom <= innerHeight && b.left >= 0 && b.right <= innerWidth && style.visibility === "visible") out.push(walk.currentNode.textContent);
    }
    return out.join(" ").replace(/\s+/g, " ");
  });

test("the first screen states the starving flows, the reason, the remedy and its cost", async (t) => {
  const m = model("neighbourhood");
  const starving = m.controls[0].results.filter((r) => r.starves).length;
  assert.ok(starving > 0, "the neighbourhood starves under fifo");
  for (const [width, height] of [[1280, 800], [390, 844]]) {
    const p = await open(t, "neighbourhood", { width, height });
    const text = await firstScreen(p);
    assert.match(text, new RegExp(`With fifo ?, ${starving} of 17 flows starve`));
    for (const part of m.answer.facts.flatMap((f) => [f.title, ...f.text.map((x) => x.t.trim())])) {
      assert.ok(text.includes(part.replace(/\s+/g, " ")), `${width} × ${height}: "${part}" is not in the first screen: ${text}`);
    }
    for (const title of ["Who", "Why", "Remedy", "Cost"]) assert.ok(text.includes(title), title);
    await shot(p, `neighbourhood-${width}`);
    quiet(p);
  }
});

test("the dark style, the whole page and the panel draw without an error", async (t) => {
  const p = await open(t, "neighbourhood", { dark: true });
  await shot(p, "neighbourhood-dark-whole", { fullPage: true });
  await p.click(".facts .lnk");
  await settled(p);
  await shot(p, "neighbourhood-dark-panel");
  await p.keyboard.press("t");
  await settled(p);
  assert.equal(await p.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(246, 246, 243)");
  await shot(p, "neighbourhood-panel");
  quiet(p);
});

test("nothing is requested and the policy forbids it", async (t) => {
  const p = await open(t, "neighbourhood");
  const policy = await p.getAttribute('meta[http-equiv="Content-Security-Policy"]', "content");
  assert.match(policy, /^default-src 'none'/);
  assert.ok(!policy.includes("unsafe"), policy);
  quiet(p);
  const refused = await p.evaluate(async () => {
    const script = document.createElement("script");
    script.textContent = "window.injected = 1";
    document.body.append(script);
    return [window.injected === undefined, await fetch("https://example.invalid/").then(() => false, () => true)];
  });
  assert.deepEqual(refused, [true, true]);
});

test("no violation of accessibility rules, light and dark, with the panel, on a phone", async (t) => {
  for (const options of [{}, { dark: true }, { hash: "flow=orchard+up" }, { dark: true, hash: "flow=farm+up&with=mesh-maxmin&side=1" }, { width: 390, height: 844 }]) {
    // The policy forbids the checker's script, too.
    const p = await open(t, "neighbourhood", { ...options, bypass: true });
    await p.evaluate(axe);
    const result = await p.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], rules: { region: { enabled: false } } }));
    const found = result.violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 160)} ${n.any.map((a) => a.message).join(" ").slice(0, 160)}`).join(" | ")}`);
    assert.deepEqual(found, [], JSON.stringify(options));
  }
});

test("every flow can be reached, opened and closed by keyboard, and the focus returns", async (t) => {
  const p = await open(t, "neighbourhood");
  const rows = await p.$$eval("[data-row]", (all) => all.map((r) => r.dataset.row));
  assert.equal(rows.length, 17);
  await p.focus("[data-row]");
  for (const row of rows) {
    assert.equal(await p.evaluate(() => document.activeElement.dataset.row), row);
    await p.keyboard.press("Enter");
    await p.waitForSelector(".drawer");
    assert.match(await p.evaluate(() => document.activeElement.getAttribute("aria-label")), /^Close/);
    await p.keyboard.press("Escape");
    await p.waitForFunction((r) => !document.querySelector(".drawer") && document.activeElement.dataset.row === r, row);
    await p.keyboard.press("ArrowDown");
  }
  // From the first element on, without a pointer.
  await p.evaluate(() => document.activeElement.blur());
  const seen = new Set();
  for (let i = 0; i < 150; i++) {
    await p.keyboard.press("Tab");
    const at = await p.evaluate(() => document.activeElement.dataset.row ?? "");
    if (at) seen.add(at);
    if (seen.size === rows.length) break;
  }
  assert.equal(seen.size, rows.length);
  for (const [key, check] of [
    ["2", () => document.querySelector('.srow[aria-checked="true"] b').textContent === "pfrc+bursts"],
    ["m", () => document.querySelectorAll("svg.map").length === 3],
    ["l", () => document.querySelector("#flows .seg [aria-checked=true]:is([role=radio])") && location.hash.includes("scale=linear")],
    ["j", () => !!document.querySelector(".drawer")],
    ["Escape", () => !document.querySelector(".drawer")],
    ["?", () => !!document.querySelector("dialog[open]")],
    ["Escape", () => !document.querySelector("dialog[open]")],
    ["/", () => document.activeElement.type === "search"],
  ]) {
    await p.keyboard.press(key);
    await p.waitForFunction(check);
  }
  await p.keyboard.type("orchard");
  await p.waitForFunction(() => document.querySelectorAll("[data-row]").length === 2);
  await p.keyboard.type(" nothing");
  await p.waitForSelector("text=Show all flows");
  await p.click("text=Show all flows");
  await p.waitForFunction(() => document.querySelectorAll("[data-row]").length === 17);
  quiet(p);
});

test("the address keeps what was chosen, and ignores what it does not know", async (t) => {
  const hash = "control=mesh-maxmin&with=fifo&flow=farm+up&seed=2&side=1&search=up&class=fair&scale=linear&sort=delay&down=1&measure=delay&curve=window&layout=hops";
  const p = await open(t, "neighbourhood", { hash });
  const state = () => p.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
  const wanted = Object.fromEntries(new URLSearchParams(hash));
  assert.deepEqual(await state(), wanted);
  await p.reload();
  await p.waitForSelector("h1");
  assert.deepEqual(await state(), wanted);
  assert.equal(await p.textContent(".drawer h2"), "farm up");
  assert.equal(await p.$$eval("svg.map", (all) => all.length), 3);
  quiet(p);
  const odd = await open(t, "neighbourhood", { hash: "control=nothing&flow=%3Cb%3E&seed=x&scale=cubic&class=none&layout=&sort=__proto__&measure=constructor" });
  assert.equal(await odd.evaluate(() => location.hash), "");
  assert.equal(await odd.$$eval("[data-row]", (r) => r.length), 17);
  quiet(odd);
});

test("each control has a scale of its own", async (t) => {
  const p = await open(t, "neighbourhood");
  const scales = await p.$$eval(".tcw", (all) => all.map((e) => e.textContent.match(/own scale: 0 to ([\d.]+ [kM]bit\/s)/)[1]));
  assert.equal(scales.length, 3);
  assert.notEqual(scales[0], scales[2], "fifo’s largest flow takes several times as much");
  await p.locator("#time").scrollIntoViewIfNeeded();
  await shot(p, "neighbourhood-time", { fullPage: true });
  quiet(p);
});

test("a flow that asks for little is fair in every view", async (t) => {
  const m = model("little");
  assert.ok(m.controls.every((c) => c.starving === 0 && c.results[0].share > 0.95), JSON.stringify(m.controls.map((c) => c.results)));
  const p = await open(t, "little", { hash: "flow=meter" });
  assert.match(await p.textContent("h1"), /The only flow does not starve with/);
  assert.match(await p.textContent(".drawer header"), /fair/);
  assert.equal(await p.$$eval(".map .node .mark", (all) => all.filter((n) => n.classList.contains("fair")).length), 1);
  for (const bad of ["starve", "low", "short"]) assert.equal(await p.$$eval(`.mark.${bad}`, (all) => all.filter((e) => !e.closest(".lg, .legendpicture")).length), 0, bad);
  quiet(p);
});

test("labels overlap neither each other nor a gateway", async (t) => {
  for (const [name, width] of [["neighbourhood", 1280], ["neighbourhood", 390], ["hundred", 1280], ["hundred", 390]]) {
    const p = await open(t, name, { width, height: 844 });
    for (const zoom of [1, 3, 12]) {
      if (zoom > 1) {
        for (let k = 1; k < zoom; k *= 1.4) await p.keyboard.press("+");
        await settled(p);
      }
      const overlaps = await p.evaluate(() => {
        const box = (e) => {
          const b = e.getBoundingClientRect();
          // The line's box is taller than its letters.
          return [b.left + 1, b.top + 2, b.right - 1, b.bottom - 2];
        };
        const labels = [...document.querySelectorAll(".map .label text")].map((e) => ({ text: e.textContent, b: box(e) }));
        const all = [...labels, ...[...document.querySelectorAll(".map .gateway rect")].map((e) => ({ text: "the gateway’s mark", b: box(e) }))];
        const found = [];
        for (let i = 0; i < labels.length; i++)
          for (let j = i + 1; j < all.length; j++) {
            const [a, b] = [all[i].b, all[j].b];
            if (a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]) found.push(`${all[i].text} on ${all[j].text}`);
          }
        return { found, labels: labels.length };
      });
      assert.deepEqual(overlaps.found, [], `${name}, ${width} px, zoom ${zoom}`);
      if (zoom === 1) assert.ok(overlaps.labels >= (name === "neighbourhood" ? 10 : 5), `${overlaps.labels} labels`);
    }
  }
});

test("names are shown as text", async (t) => {
  const p = await open(t, "hostile", { hash: new URLSearchParams({ flow: `${HOSTILE.rtl} up` }).toString() });
  assert.equal(await p.evaluate(() => window.broken), undefined);
  assert.equal(await p.$$eval("img", (all) => all.length), 0);
  const text = await p.textContent("#flows");
  for (const name of Object.values(HOSTILE)) assert.ok(text.includes(name), name);
  assert.equal(await p.textContent(".drawer h2"), `${HOSTILE.rtl} up`);
  assert.equal(await p.title(), HOSTILE.tag);
  await p.evaluate(() => dispatchEvent(new Event("x")));
  await p.hover(".map .node .mark");
  await shot(p, "hostile");
  quiet(p);
  const phone = await open(t, "hostile", { width: 360, height: 740 });
  assert.equal(await phone.evaluate(() => document.documentElement.scrollWidth), 360);
});

test("a phone has no overflow; targets are large enough", async (t) => {
  const p = await open(t, "neighbourhood", { width: 360, height: 740 });
  assert.equal(await p.evaluate(() => document.documentElement.scrollWidth), 360);
  const small = await p.$$eval(".btn, .seg button, .choice, .search", (all) => all.filter((e) => e.offsetHeight && e.getBoundingClientRect().height < 34).map((e) => e.outerHTML.slice(0, 80)));
  assert.deepEqual(small, []);
  await shot(p, "phone-whole", { fullPage: true });
  await p.click("[data-row]");
  await settled(p);
  await shot(p, "phone-panel");
  quiet(p);
});

test("printed, the answer has one page and each picture names its control", async (t) => {
  const p = await open(t, "neighbourhood", { dark: true });
  await p.emulateMedia({ media: "print" });
  await settled(p);
  assert.equal(await p.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
  assert.ok(await p.isHidden(".top"));
  assert.ok(await p.isVisible(".mapcard h2 .po") && (await p.textContent(".mapcard h2")).includes("fifo"));
  assert.ok((await p.textContent("#flows h2")).includes("fifo"));
  const hero = await p.evaluate(() => document.querySelector(".hero").getBoundingClientRect().height);
  assert.ok(hero < 1000, `the answer is ${hero} px high; an A4 page has 1,000`);
  const pdf = await p.pdf({ path: join(kept, "neighbourhood.pdf"), format: "A4" });
  assert.ok(pdf.length > 10_000);
  quiet(p);
});

test("files have what the page shows", async (t) => {
  const p = await open(t, "neighbourhood");
  const m = model("neighbourhood");
  const get = async (text) => {
    await p.click("text=Download");
    const [download] = await Promise.all([p.waitForEvent("download"), p.click(`[role=menuitem]:has-text("${text}")`)]);
    const path = join(kept, download.suggestedFilename());
    await download.saveAs(path);
    return path;
  };
  const lines = readFileSync(await get("CSV"), "utf8").trim().split("\r\n").map((l) => l.split(","));
  assert.equal(lines.length, 1 + 3 * 17);
  const column = Object.fromEntries(lines[0].map((name, i) => [name, i]));
  m.controls.forEach((c, k) =>
    c.results.forEach((r, i) => {
      const line = lines[1 + k * 17 + i];
      assert.deepEqual([line[0], line[1]], [c.name, m.sharers[i].label]);
      assert.equal(Number(line[column.goodput_kbps]), r.goodput[0]);
      assert.equal(Number(line[column.share]), r.share);
      assert.equal(Number(line[column.lost_queue]), r.lost[0] + r.answers[0]);
    }),
  );
  // The table shows the same numbers.
  const shown = await p.$$eval("[data-row]", (rows) => rows.map((r) => [r.dataset.row, r.querySelector(".pct").firstChild.textContent]));
  for (const [row, text] of shown) assert.equal(text, await p.evaluate((s) => (s < 0.001 ? "<0.1 %" : s < 0.0995 ? `${(s * 100).toFixed(1)} %` : `${Math.round(s * 100)} %`), m.controls[0].results[row].share));
  const svg = readFileSync(await get("map as shown (SVG)"), "utf8");
  for (const part of ["neighbourhood with fifo", "starving (below 10 %)", "5 seeds", m.generator, "orchard"]) assert.ok(svg.includes(part), part);
  assert.ok(!/class=|var\(/.test(svg), "the picture needs no style");
  const png = readFileSync(await get("map as shown (PNG)"));
  assert.deepEqual([...png.subarray(1, 4)], [...Buffer.from("PNG")]);
  assert.ok(png.length > 10_000);
  // Opaque ground.
  const corner = await p.evaluate(async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const c = document.createElement("canvas");
    [c.width, c.height] = [image.width, image.height];
    const g = c.getContext("2d");
    g.drawImage(image, 0, 0);
    return [...g.getImageData(1, 1, 1, 1).data];
  }, png.toString("base64"));
  assert.deepEqual(corner, [255, 255, 255, 255]);
  const json = JSON.parse(readFileSync(await get("JSON"), "utf8"));
  assert.deepEqual(json, m);
  quiet(p);
});

test("sizes stay within their budgets", () => {
  const data = (name) => JSON.stringify(model(name)).length;
  const bare = statSync(file("neighbourhood")).size - data("neighbourhood");
  assert.ok(bare < 500_000, `${bare} bytes without data`);
  assert.ok(data("neighbourhood") < 250_000, `${data("neighbourhood")} bytes of data`);
  assert.ok(statSync(file("hundred")).size < 5_000_000);
});

test("100 nodes, 60 flows and 10 controls", async (t) => {
  const start = performance.now();
  const p = await open(t, "hundred");
  times.hundred_ms = Math.round(performance.now() - start);
  times.hundred_painted_ms = await p.evaluate(() => Math.round(performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? -1));
  assert.equal(await p.$$eval('.srow[role="radio"]', (r) => r.length), 10);
  assert.equal(await p.$$eval("[data-row]", (r) => r.length), 60);
  await p.selectOption("#flows .choice", { index: 1 });
  await p.click("[data-row]");
  await settled(p);
  await shot(p, "hundred-panel");
  await p.keyboard.press("Escape");
  await p.keyboard.press("m");
  await settled(p);
  await shot(p, "hundred-side", { fullPage: true });
  quiet(p);
});

test("700 flows: only rows in sight are drawn, and all can be reached", async (t) => {
  const p = await open(t, "flows700");
  assert.ok((await p.$$eval("[data-row]", (r) => r.length)) < 60);
  await p.$eval(".tbl", (e) => (e.scrollTop = e.scrollHeight));
  await p.waitForFunction(() => [...document.querySelectorAll("[data-row]")].some((r) => r.getAttribute("aria-rowindex") === "701"));
  await p.fill(".search", "f699");
  await p.waitForFunction(() => document.querySelectorAll("[data-row]").length === 1);
  await p.press(".search", "Escape");
  await p.click("[data-row]");
  assert.equal(await p.textContent(".drawer h2"), "f699");
  await shot(p, "flows700");
  quiet(p);
});

test("a map of 10,000 nodes is drawn and its nodes can be chosen", async (t) => {
  const start = performance.now();
  const p = await open(t, "tenthousand");
  times.tenthousand_ms = Math.round(performance.now() - start);
  assert.ok((await p.$$eval(".map > *", (all) => all.length)) < 1500, "nodes are on a canvas");
  const painted = await p.$eval(".mapcanvas", (c) => {
    const data = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
    let n = 0;
    for (let i = 3; i < data.length; i += 4) n += data[i] > 0;
    return n / (data.length / 4);
  });
  assert.ok(painted > 0.05, `${painted} of the map is painted`);
  await p.click("[data-row]");
  await settled(p);
  await shot(p, "tenthousand");
  quiet(p);
});

test("damaged data is an error in words", async (t) => {
  const text = readFileSync(file("little"), "utf8");
  const show = async (content) => {
    const path = join(kept, "results", "damaged.html");
    writeFileSync(path, content);
    const p = await browser.newPage();
    t.after(() => p.close());
    await p.goto(`file://${path}`);
    return p.textContent("#app");
  };
  assert.match(await show(text.replace('"schema":1', '"schema":99')), /layout 99; this program reads layout 1/);
  assert.match(await show(text.replace('"schema":1', '"schema":1,,')), /cannot be read/);
});
