// Builds the page into one file, dist/explorer.html: program, style, policy and licences, with marks for the data.
// With --check, compares the result with the committed file instead.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = dirname(fileURLToPath(import.meta.url));
const target = join(root, "dist/explorer.html");

const common = {
  absWorkingDir: root,
  bundle: true,
  minify: true,
  write: false,
  metafile: true,
  legalComments: "none",
  charset: "utf8",
  target: ["es2022"],
};

const script = await build({
  ...common,
  entryPoints: ["src/main.tsx"],
  format: "iife",
  jsx: "automatic",
  jsxImportSource: "preact",
  define: { "process.env.NODE_ENV": '"production"' },
});
const style = await build({ ...common, entryPoints: ["src/style/main.css"] });

// What ends an element would end the page's program.
const js = script.outputFiles[0].text.trim().replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
const css = style.outputFiles[0].text.trim();
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const policy = [
  "default-src 'none'",
  `script-src ${hash(js)}`,
  `style-src ${hash(css)}`,
  "img-src data: blob:",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

/** Names and licence texts of the packages in the bundle. */
function licences() {
  const files = [...Object.keys(script.metafile.inputs), ...Object.keys(style.metafile.inputs)];
  const names = new Set(files.flatMap((f) => f.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1] ?? []));
  return [...names].sort().map((name) => {
    const folder = join(root, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = ["LICENSE", "LICENSE.md", "LICENSE.txt", "LICENCE"].map((f) => join(folder, f)).find(existsSync);
    if (!file) throw new Error(`${name} has no licence text`);
    return `${name} ${version} (${license})\n\n${readFileSync(file, "utf8").trim()}`;
  });
}

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="color-scheme" content="light dark">
<title><!--title--></title>
<style>${css}</style>
</head>
<body>
<noscript><main class="wrap"><!--without-script--></main></noscript>
<div id="app"></div>
<script type="application/json" id="data"><!--data--></script>
<script>${js}</script>
</body>
</html>
<!-- This page contains:

${licences().join("\n\n----\n\n").replaceAll("--", "- -")}
-->
`;

for (const mark of ["<!--title-->", "<!--without-script-->", "<!--data-->"]) {
  if (page.split(mark).length !== 2) throw new Error(`${mark} must stand once in the page`);
}
if (process.argv.includes("--check")) {
  const kept = existsSync(target) ? readFileSync(target, "utf8") : "";
  if (kept !== page) {
    console.error("crates/report/explorer/dist/explorer.html is out of date; run `npm run build` in crates/report/explorer");
    process.exit(1);
  }
} else {
  mkdirSync(dirname(target), { recursive: true });
  writeFileSync(target, page);
  console.log(`${target}: ${page.length} bytes (program ${js.length}, style ${css.length})`);
}
