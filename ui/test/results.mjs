// The pages that the tests open: made by `fairmesh compare`, once for all tests.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
export const root = resolve(here, "../..");
const target = process.env.CARGO_TARGET_DIR ? resolve(root, process.env.CARGO_TARGET_DIR) : join(root, "target");
/** Screenshots, which continuous integration keeps. */
export const kept = join(target, "explorer");
const program = process.env.FAIRMESH ?? join(target, "release/fairmesh");

/** A mesh on a jittered grid with the gateway in a corner; the same each time. */
export function grid(name, nodes, flows, duration, warmup) {
  const side = Math.ceil(Math.sqrt(nodes));
  let state = 1;
  const jitter = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.round((state / 2 ** 32 - 0.5) * 40);
  };
  const lines = [
    `name = "${name}"`, `duration = "${duration}"`, `warmup = "${warmup}"`, "[radio]", 'phy = "802.11g"', 'rate = "12 Mbit/s"',
    "[topology]", 'gateway = "n0"', "[traffic]", 'traffic = "bulk"',
  ];
  for (let i = 0; i < nodes; i++) {
    const [x, y] = [(i % side) * 180 + jitter(), Math.floor(i / side) * 180 + jitter()];
    lines.push("[[node]]", `id = "n${i}"`, `position = [${x}, ${y}]`);
  }
  for (let k = 0; k < flows; k++) {
    const node = `"n${1 + (k % (nodes - 1))}"`;
    const up = Math.floor(k / (nodes - 1)) % 2 === 0;
    lines.push("[[flow]]", `name = "f${k}"`, `from = ${up ? node : '"n0"'}`, `to = ${up ? '"n0"' : node}`);
  }
  return lines.join("\n") + "\n";
}

const LITTLE = `
name = "a reader on an empty chain"
duration = "21 s"
warmup = "1 s"
[radio]
phy = "802.11b"
rate = "11 Mbit/s"
[topology]
gateway = "c"
[[node]]
id = "a"
position = [400, 0]
[[node]]
id = "b"
position = [200, 0]
[[node]]
id = "c"
position = [0, 0]
[[flow]]
name = "meter"
from = "a"
to = "c"
traffic = { kind = "cbr", rate = "8 kbit/s", packet = "100 B" }
transport = "udp"
`;

export const HOSTILE = {
  tag: '<img src=x onerror="window.broken=1">',
  quotes: `it's "quoted" & more`,
  long: "a-name-of-sixty-characters-that-does-not-fit-beside-any-mark-",
  rtl: "بيت الجيران",
};

const hostile = () => `
name = ${JSON.stringify(HOSTILE.tag)}
duration = "4 s"
warmup = "1 s"
[radio]
phy = "802.11b"
rate = "11 Mbit/s"
[topology]
gateway = "gw"
[traffic]
traffic = "bulk"
[[node]]
id = "gw"
position = [0, 0]
${Object.values(HOSTILE)
  .map((n, i) => `[[node]]\nid = ${JSON.stringify(n)}\nposition = [${150 + 150 * i}, ${30 * i}]\n[[flow]]\nname = ${JSON.stringify(`${n} up`)}\nfrom = ${JSON.stringify(n)}\nto = "gw"\n`)
  .join("")}`;

const PAGES = {
  neighbourhood: ["scenarios/neighbourhood.toml", "fifo,pfrc+bursts,mesh-maxmin", 5],
  hundred: [() => grid("hundred", 100, 60, "6 s", "1 s"), "fifo,fq,red,fred,pfrc,source,static,arc,mesh-maxmin,pfrc+bursts", 1],
  flows700: [() => grid("flows700", 100, 700, "3 s", "1 s"), "fifo,source", 1],
  tenthousand: [() => grid("tenthousand", 10_000, 5, "1 s", "100 ms"), "fifo", 1],
  little: [() => LITTLE, "fifo,fq", 2],
  hostile: [hostile, "fifo,source", 1],
};

const made = new Map();

/** Returns the path of a result's page, made on first use. */
export function page(name) {
  const known = made.get(name);
  if (known) return known;
  const [source, controls, seeds] = PAGES[name];
  const folder = join(kept, "results");
  mkdirSync(folder, { recursive: true });
  const out = join(folder, name);
  rmSync(out, { recursive: true, force: true });
  let scenario = typeof source === "string" ? join(root, source) : join(folder, `${name}.toml`);
  if (typeof source === "function") writeFileSync(scenario, source());
  if (!existsSync(program)) throw new Error(`${program} is missing; run make build-experiments`);
  execFileSync(program, ["compare", scenario, "--control", controls, "--seeds", String(seeds), "--out", out], { stdio: ["ignore", "ignore", "inherit"] });
  made.set(name, join(out, "report.html"));
  return made.get(name);
}

/** The data of a page. */
export function model(name) {
  const text = readFileSync(page(name), "utf8");
  return JSON.parse(text.match(/<script type="application\/json" id="data">(.*?)<\/script>/s)[1]);
}
