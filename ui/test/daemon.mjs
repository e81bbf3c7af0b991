// The gateway's daemon on a virtual clock with invented homes, and its page: crates/agent/src/gateway/service/browser.rs.
import { execFileSync, spawn } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export const root = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
const target = process.env.CARGO_TARGET_DIR ? resolve(root, process.env.CARGO_TARGET_DIR) : join(root, "target");
/** Folder of the pictures. */
export const kept = join(target, "page");
mkdirSync(kept, { recursive: true });

export const TOKEN = "correct horse battery staple";

let program;

/** The test program of the daemon, built if it is not there. */
function built() {
  if (process.env.FAIRMESH_PAGE) return process.env.FAIRMESH_PAGE;
  // Of the whole workspace, as `make test` builds it: with the features of one package every crate would be built again.
  const out = execFileSync(process.env.CARGO ?? "cargo", ["test", "--quiet", "--workspace", "--lib", "--no-run", "--message-format=json"], {
    cwd: root,
    maxBuffer: 1 << 28,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines = out.toString().split("\n").filter((l) => l.startsWith("{"));
  return lines.map((l) => JSON.parse(l)).find((m) => m.executable && m.profile?.test && m.target.name === "fairmesh_agent")?.executable;
}

/** Starts a daemon; `stop` ends it. */
export async function daemon({ homes = 30, mode = "apply", token = true, map = false } = {}) {
  program ??= built();
  const folder = mkdtempSync(join(tmpdir(), "fairmesh-page-"));
  const file = join(folder, "page.token");
  writeFileSync(file, TOKEN);
  chmodSync(file, 0o600);
  const child = spawn(program, ["--ignored", "--exact", "--nocapture", "gateway::service::browser::serve_for_a_browser"], {
    env: { ...process.env, FAIRMESH_PAGE_HOMES: String(homes), FAIRMESH_PAGE_MODE: mode, ...(map ? { FAIRMESH_PAGE_MAP: "1" } : {}), ...(token ? { FAIRMESH_PAGE_TOKEN: file } : {}) },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = new Promise((done) => child.on("exit", done));
  let address;
  for await (const line of createInterface({ input: child.stdout })) {
    address = line.match(/page at (\S+)/)?.[1];
    if (address) break;
  }
  if (!address) throw new Error("the daemon did not start");
  const stop = async () => {
    child.stdin.end();
    child.kill();
    await ended;
    rmSync(folder, { recursive: true, force: true });
  };
  return { address, stop };
}
