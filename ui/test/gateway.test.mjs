// The page of the gateway in headless Chromium, served by the daemon's own server and state machine.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import test, { after, before } from "node:test";
import { chromium } from "playwright-core";
import { daemon, kept, TOKEN } from "./daemon.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let browser;
const running = {};

before(async () => {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    // A busy machine may take long for the shell's own start.
    timeout: 180_000,
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  running.small = await daemon({ homes: 30, map: true });
  running.large = await daemon({ homes: 300, mode: "observe", token: false });
});
after(async () => {
  await browser?.close();
  for (const d of Object.values(running)) await d.stop();
});

/** Opens the page; every error and every request to another place fails the test. */
async function open(t, name, { width = 1280, height = 800, dark = false, hash = "", bypass = false } = {}) {
  const { address } = running[name];
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? "dark" : "light", bypassCSP: bypass, acceptDownloads: true });
  context.setDefaultTimeout(120_000);
  t.after(() => context.close());
  const p = await context.newPage();
  p.wrong = [];
  p.on("pageerror", (e) => p.wrong.push(e.stack));
  p.on("console", (m) => ["error", "warning"].includes(m.type()) && p.wrong.push(m.text()));
  p.on("request", (r) => !r.url().startsWith(address) && !/^(blob|data):/.test(r.url()) && p.wrong.push(`request ${r.url()}`));
  await p.goto(`${address}${hash ? `#${hash}` : ""}`);
  await p.waitForSelector("#homes");
  // Three samples are needed for a verdict.
  await p.waitForFunction(() => !document.querySelector("h1").textContent.startsWith("Watching"));
  await settled(p);
  return p;
}

const settled = (p) => p.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)))));
const shot = (p, name, options) => p.screenshot({ path: join(kept, `${name}.png`), ...options });
const state = async (name) => (await fetch(`${running[name].address}api/state`)).json();

test("the first screen answers which homes starve, and under which mode", async (t) => {
  const small = await open(t, "small");
  assert.match(await small.textContent("h1"), /No home starves\..*Limits are in force\./);
  await shot(small, "gateway-30-light");
  const large = await open(t, "large", { dark: true });
  const answer = await large.textContent("h1");
  // Near homes take all of the mesh, since observe sets no limit.
  assert.match(answer, /of 300 homes starve: .* and \d+ more\..*not set \(observe\)/);
  await shot(large, "gateway-300-dark");
  for (const [name, p] of [["small", small], ["large", large]]) {
    const box = await p.locator("h1").boundingBox();
    assert.ok(box && box.y + box.height < 800, name);
    assert.deepEqual(p.wrong, []);
  }
});

test("on a phone nothing overflows, and the answer is in the first screen", async (t) => {
  for (const [width, height] of [[390, 844], [360, 740]]) {
    const p = await open(t, "small", { width, height });
    assert.ok(await p.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${width}`);
    const box = await p.locator("h1").boundingBox();
    assert.ok(box && box.y + box.height < height);
    await shot(p, `gateway-phone-${width}`);
    await p.locator("tr[data-row]").first().click();
    await p.waitForSelector(".drawer");
    assert.ok(await p.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${width} with details`);
    await shot(p, `gateway-phone-${width}-details`);
    assert.deepEqual(p.wrong, []);
  }
});

test("the table has all homes, sorted and searched, and holds its choice in the address", async (t) => {
  const p = await open(t, "large");
  const rows = () => p.$$eval("tr[data-row]", (all) => all.map((r) => r.dataset.row));
  assert.equal((await rows()).length, 50);
  await p.getByRole("button", { name: /Show 50 more of 250/ }).click();
  assert.equal((await rows()).length, 100);
  await p.click("thead button:has-text('home')");
  const names = await rows();
  const sorted = [...names].sort((a, b) => (a.toLowerCase() < b.toLowerCase() ? -1 : 1));
  assert.deepEqual(names, sorted);
  await p.keyboard.press("/");
  await p.keyboard.type("brook 3");
  await p.waitForFunction(() => document.querySelectorAll("tr[data-row]").length < 30);
  assert.ok((await rows()).every((n) => n.startsWith("Brook 3")));
  assert.match(p.url(), /sort=name.*search=brook/);
  await p.reload();
  await p.waitForSelector("tr[data-row]");
  assert.ok((await rows()).every((n) => n.startsWith("Brook 3")));
  await p.fill("#search", "no such home");
  await p.getByRole("button", { name: "Show all homes" }).click();
  assert.ok((await rows()).length >= 50);
  assert.deepEqual(p.wrong, []);
});

test("names are text, whatever they contain", async (t) => {
  const hostile = (await state("small")).homes.map((h) => h.name).find((n) => n.includes("<b"));
  assert.ok(hostile);
  const p = await open(t, "small", { hash: `home=${encodeURIComponent(hostile)}` });
  assert.equal(await p.textContent(".drawer h2"), hostile);
  await p.waitForSelector(".drawer pre");
  assert.ok((await p.textContent(".drawer pre")).startsWith(hostile));
  assert.equal(await p.locator("[onmouseover]").count(), 0);
  assert.deepEqual(p.wrong, []);
});

test("every home is reached, opened and closed by keyboard, and the focus returns", async (t) => {
  const p = await open(t, "small");
  await p.focus("tr[data-row]");
  for (let i = 0; i < 8; i++) {
    const row = await p.evaluate(() => document.activeElement.dataset.row);
    await p.keyboard.press("Enter");
    await p.waitForSelector(".drawer");
    assert.equal(await p.textContent(".drawer h2"), row);
    await p.waitForFunction(() => /^Close/.test(document.activeElement.getAttribute("aria-label") ?? ""));
    await p.keyboard.press("Escape");
    await p.waitForFunction((r) => !document.querySelector(".drawer") && document.activeElement.dataset.row === r, row);
    await p.keyboard.press("ArrowDown");
  }
  await p.keyboard.press("p");
  await p.waitForFunction(() => document.querySelector("#link").textContent === "paused");
  assert.deepEqual(p.wrong, []);
});

test("no violation of accessibility rules: light, dark, details, phone", async (t) => {
  const home = encodeURIComponent((await state("small")).homes[0].name);
  for (const [name, options] of [["small", {}], ["large", { dark: true }], ["small", { hash: `home=${home}` }], ["small", { dark: true, hash: `home=${home}` }], ["small", { width: 390, height: 844 }]]) {
    // The policy forbids the checker's script, too.
    const p = await open(t, name, { ...options, bypass: true });
    await p.evaluate(axe);
    const result = await p.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], rules: { region: { enabled: false } } }));
    const found = result.violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 160)} ${n.any.map((a) => a.message).join(" ").slice(0, 160)}`).join(" | ")}`);
    assert.deepEqual(found, [], `${name} ${JSON.stringify(options)}`);
  }
});

test("values change while the page is open, and a home under the pointer stays", async (t) => {
  const p = await open(t, "small");
  const text = () => p.textContent("#homes tbody");
  const first = await text();
  await p.waitForFunction((before) => document.querySelector("#homes tbody").textContent !== before, first);
  await p.hover("tr[data-row]");
  await settled(p);
  const held = await text();
  const number = (await state("small")).number;
  while ((await state("small")).number < number + 3) await settled(p);
  assert.equal(await text(), held);
  await p.hover("h1");
  await p.waitForFunction((before) => document.querySelector("#homes tbody").textContent !== before, held);
  assert.deepEqual(p.wrong, []);
});

test("the map draws the paths that the sources show, and states where there are none", async (t) => {
  const p = await open(t, "small");
  const head = (page) => page.textContent(".mapcard header");
  assert.match(await head(p), /paths of 30 of 30 homes: the cheapest by .*map\.json/);
  const homes = (await state("small")).homes;
  assert.equal(homes.filter((h) => h.via[0] === null).length, 4);
  assert.equal(homes.filter((h) => h.via[0] === "tower").length, 2);
  // Every other home is behind a home.
  assert.equal(homes.filter((h) => homes.some((other) => other.name === h.via[0])).length, 24);
  assert.equal(await p.locator(".mesh .relay").count(), 1);
  assert.equal(await p.locator(".mesh .link.unknown").count(), 0);
  const begins = await p.$$eval(".mesh .link", (all) => new Set(all.map((l) => l.getAttribute("d").split("L")[0])).size);
  assert.ok(begins > 10, `lines begin at ${begins} places`);
  const large = await open(t, "large");
  assert.match(await head(large), /no source shows next hops, so paths are not known/);
  assert.equal(await large.locator(".mesh .link.unknown").count(), 300);
  assert.deepEqual([...p.wrong, ...large.wrong], []);
});

test("a browser that has just opened the page has the recorded hour and week", async (t) => {
  const hours = await (await fetch(`${running.large.address}api/history`)).json();
  assert.equal(hours.step, 60);
  // Near homes take all: others starve in whole minutes.
  const [name, curve] = Object.entries(hours.homes).find(([, c]) => c.starved?.some((s) => s >= 30));
  const recorded = curve.rate.filter((r) => r !== null).length;
  assert.ok(recorded >= 3, JSON.stringify(curve));
  const p = await open(t, "large", { hash: `home=${encodeURIComponent(name)}&search=${encodeURIComponent(name)}` });
  const points = (selector) => p.$eval(selector, (path) => path.getAttribute("d").split(/[ML]/).length - 1);
  for (let i = 0; i < 2; i++) {
    await p.waitForSelector("#past figure");
    await p.waitForSelector("tr[data-row] .spark .starved", { state: "attached" });
    // The present minute is drawn by its present rate.
    assert.ok((await points("tr[data-row] .spark path")) >= recorded);
    assert.ok((await points("#past .spark path")) >= recorded);
    assert.match(await p.textContent("#past figcaption"), /down mean .*; starved for \d+ (s|min)/);
    assert.match(await p.textContent("#past .axis"), /dashed: limit, not in force; red: starved/);
    if (i === 0) await p.reload();
  }
  await shot(p, "gateway-hour");
  await p.click("#past [role=radio]:has-text('week')");
  await p.waitForSelector("#past h3:has-text('Last week')");
  assert.match(await p.textContent("#past figcaption"), /7 days not recorded/);
  await shot(p, "gateway-week");
  assert.deepEqual(p.wrong, []);
});

test("without a token the page only shows", async (t) => {
  const p = await open(t, "large");
  await p.locator("tr[data-row]").first().click();
  await p.waitForSelector(".drawer");
  assert.equal(await p.locator(".drawer .btn.act").count(), 0);
  const answer = await fetch(`${running.large.address}api/override`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${TOKEN}` },
    body: JSON.stringify({ home: "Hill 1", action: "pause", seconds: 60 }),
  });
  assert.equal(answer.status, 403);
});

test("pause and boost need the token, are shown, and can be undone", async (t) => {
  const home = (await state("small")).homes.find((h) => h.state === "served").name;
  const p = await open(t, "small", { hash: `home=${encodeURIComponent(home)}` });
  await p.click(".drawer .btn.act:has-text('Pause')");
  await p.fill("dialog input", "wrong token, but long enough");
  await p.keyboard.press("Enter");
  await p.waitForSelector("dialog [role=alert]:has-text('not the token')");
  await p.fill("dialog input", TOKEN);
  await p.keyboard.press("Enter");
  await p.waitForSelector("#toast.on:has-text('is paused for 60 min')");
  await p.waitForSelector(".drawer .st:has-text('paused')");
  await shot(p, "gateway-paused");
  const paused = (await state("small")).homes.find((h) => h.name === home);
  assert.deepEqual([paused.state, paused.bound], ["paused", "override"]);
  await p.click("#toast button");
  await p.waitForFunction(() => !document.querySelector(".drawer .st").textContent.includes("paused"));
  await p.click(".drawer .btn.act:has-text('Boost')");
  await p.waitForSelector(".drawer .st:has-text('boosted')");
  await p.click(".drawer .btn.act:has-text('End override')");
  await p.waitForFunction(() => !document.querySelector(".drawer .st").textContent.includes("boosted"));
  const events = (await state("small")).events.filter((e) => e.code === "override.set");
  assert.ok(events.length >= 4, JSON.stringify(events));
  // A wrong token is an answer with an error, which the console repeats.
  assert.ok(p.wrong.every((w) => w.includes("401")), p.wrong.join("\n"));
});

test("a daemon that ends is visible, and the values are marked as old", async (t) => {
  running.short = await daemon({ homes: 3 });
  const p = await open(t, "short");
  await running.short.stop();
  delete running.short;
  await p.waitForSelector("main.old");
  assert.match(await p.textContent("#link"), /no answer/);
});

test("the printed page has the answer and the homes", async (t) => {
  const p = await open(t, "small");
  await p.emulateMedia({ media: "print" });
  assert.ok(await p.isVisible("h1") && await p.isVisible("#homes table"));
  assert.ok(!(await p.isVisible("#search")));
  await shot(p, "gateway-print", { fullPage: true });
});

test("the table as CSV has the homes of the table", async (t) => {
  const p = await open(t, "small");
  const [download] = await Promise.all([p.waitForEvent("download"), p.click("#homes button:has-text('CSV')")]);
  const text = readFileSync(await download.path(), "utf8");
  assert.equal(text.trim().split("\r\n").length, 31);
});
