// The views of LuCI (packaging/openwrt/luci) in Chromium, with stand-ins for LuCI's modules and results of the
// gateway's program (fixtures: FAIRMESH_UBUS_FIXTURES in crates/agent/tests/gateway/configuration.rs).
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
const root = resolve(here, "../..");
const kept = join(process.env.CARGO_TARGET_DIR ? resolve(root, process.env.CARGO_TARGET_DIR) : join(root, "target"), "page");
mkdirSync(kept, { recursive: true });
const read = (path) => readFileSync(join(root, path), "utf8");
const fixture = (name) => JSON.parse(readFileSync(join(here, "fixtures", `ubus-${name}.json`), "utf8"));

let browser;
before(async () => {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
});
after(() => browser?.close());

/** Runs in the page: LuCI's modules as far as the views use them, and the view itself. */
function start({ source, results }) {
  // As LuCI's dom.append: elements of an array are text, a bare string is HTML.
  const append = (node, children) => {
    if (Array.isArray(children)) for (const c of children) append.one(node, c);
    else if (children instanceof Node) node.appendChild(children);
    else if (children != null) node.innerHTML = String(children);
  };
  append.one = (node, c) => node.appendChild(c instanceof Node ? c : document.createTextNode(String(c)));
  const E = (tag, attributes, children) => {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes ?? {})) {
      if (typeof value === "function") node.addEventListener(key, value);
      else if (value != null) node.setAttribute(key, value);
    }
    append(node, children);
    return node;
  };
  window.calls = [];
  window.polled = [];
  window.options = [];
  const rpc = {
    declare: ({ object, method, params = [] }) => (...values) => {
      const named = Object.fromEntries(params.map((p, i) => [p, values[i]]));
      window.calls.push([object, method, named]);
      return Promise.resolve(structuredClone(results[method] ?? {}));
    },
  };
  const ui = {
    createHandlerFn: (self, name, ...values) => (event) => self[name](...values, event),
    addNotification: (_title, node) => document.body.prepend(node),
  };
  const dom = { content: (node, children) => { node.replaceChildren(); append(node, children); } };
  const option = () => ({ value() {} });
  const section = (kind, ...words) => ({ option: (type, name, title) => (window.options.push([words[0], name]), option(type, title)) });
  const form = Object.fromEntries(["NamedSection", "GridSection", "Flag", "Value", "ListValue", "DynamicList"].map((k) => [k, k]));
  form.Map = class {
    constructor(config) { this.config = config; }
    section(kind, ...words) { return section(kind, ...(kind === "NamedSection" ? words.slice(1) : words)); }
    render() { return E("div", {}, [`map of ${this.config}`]); }
  };
  const modules = { view: { extend: (v) => v }, rpc, poll: { add: (f, s) => window.polled.push([f, s]) }, ui, dom, form };
  const names = [...source.matchAll(/^'require (\w+)';$/gm)].map((m) => m[1]);
  const L = { bind: (f, self) => f.bind(self) };
  const view = new Function("E", "_", "L", ...names, source)(E, (t) => t, L, ...names.map((n) => modules[n]));
  return Promise.resolve(view.load?.()).then((data) => Promise.resolve(view.render(data))).then((node) => {
    document.body.append(node);
    return names;
  });
}

async function open(t, view, results, width = 1280) {
  const context = await browser.newContext({ viewport: { width, height: 800 } });
  t.after(() => context.close());
  const page = await context.newPage();
  page.wrong = [];
  page.on("pageerror", (e) => page.wrong.push(e.stack));
  page.on("request", (r) => page.wrong.push(`request ${r.url()}`));
  await page.setContent("<meta name=viewport content='width=device-width'><style>table{width:100%} td{vertical-align:top; overflow-wrap:anywhere}</style>");
  await page.evaluate(start, { source: read(`packaging/openwrt/luci/view/${view}.js`), results });
  return page;
}

const results = () => ({ status: fixture("status"), report: fixture("report"), override: {} });

test("the view of homes shows rates, limits and reasons, and refreshes", async (t) => {
  const page = await open(t, "homes", results());
  const text = await page.innerText("body");
  assert.match(text, /Limits are set\. Control: fifo\. State: running\./);
  assert.match(text, /The history of the last 24 hours is empty/, "no verdict without a record");
  const rows = await page.locator("tr").allInnerTexts();
  assert.match(rows[1], /^sub 1[\s\S]*3\.0 Mbit\/s, plan/);
  assert.match(rows[2], /^sub 2[\s\S]*8 kbit\/s, override[\s\S]*60 min left/);
  await page.evaluate(() => window.polled[0][0]());
  assert.equal((await page.locator("tr").count()), rows.length);
  assert.deepEqual(page.wrong, []);
  await page.screenshot({ path: join(kept, "luci-homes.png") });
});

test("buttons pause, boost and end an override, and an error is shown", async (t) => {
  const answers = results();
  answers.override = { error: "there is no subscriber" };
  const page = await open(t, "homes", answers);
  await page.locator("tr").nth(1).getByText("Pause 1 h").click();
  await page.locator("tr").nth(1).getByText("Boost 1 h").click();
  await page.locator("tr").nth(2).getByText("End").click();
  const calls = (await page.evaluate(() => window.calls)).filter((c) => c[1] === "override").map((c) => c[2]);
  const both = { time: "1h", direction: "both" };
  assert.deepEqual(calls, [
    { name: "sub 1", rate: "8 kbit/s", ...both },
    { name: "sub 1", rate: "unlimited", ...both },
    { name: "sub 2", rate: "clear", ...both },
  ]);
  await page.getByText("there is no subscriber").first().waitFor();
});

test("names and reasons from the mesh are text", async (t) => {
  const hostile = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>';
  const answers = results();
  for (const s of answers.status.subscribers) {
    s.name = hostile;
    s.addresses = [hostile];
    for (const w of s.ways) Object.assign(w, { limited_by: hostile, not_in_force_because: hostile, last_change: { age_seconds: 1, reason: hostile } });
  }
  answers.status.faults = [hostile];
  Object.assign(answers.report, { recorded: [0, 60], starved: [{ name: hostile, seconds: 90 }], notes: [hostile] });
  const page = await open(t, "homes", answers, 390);
  assert.equal(await page.evaluate(() => window.hit), undefined);
  assert.equal(await page.locator("img, script").count(), 0);
  assert.match(await page.innerText("body"), /Starved in the last 24 hours: <img .* \(2 min\)/);
  assert.deepEqual(page.wrong, []);
  await page.screenshot({ path: join(kept, "luci-homes-390.png") });
});

test("a daemon that does not respond is one sentence", async (t) => {
  const page = await open(t, "homes", { status: { error: "gateway.sock: No such file; expected a running daemon" }, report: { error: "no history" } });
  assert.match(await page.innerText("body"), /expected a running daemon/);
  assert.equal(await page.locator("table").count(), 0);
});

test("the configuration has only options that the start script reads", async (t) => {
  const page = await open(t, "configuration", {});
  const options = await page.evaluate(() => window.options);
  const script = read("packaging/openwrt/files/uci-to-toml.sh") + read("packaging/openwrt/files/fairmesh-gateway.init");
  assert.ok(options.length > 15);
  for (const [section, name] of options) assert.match(script, new RegExp(`\\b${name}\\b`), `${section}.${name}`);
  assert.deepEqual(page.wrong, []);
});
