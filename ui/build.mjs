// Builds each page into one file: program, style, policy and licences, with marks for the data of the explorer.
// With --check, compares the results with the committed files instead.
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = dirname(fileURLToPath(import.meta.url));

/** Pages: folder in src/, file that a crate embeds, and largest size in bytes. */
const PAGES = [
  { name: "explorer", target: "../crates/report/assets/explorer.html", most: 200_000, data: true, connects: false },
  { name: "gateway", target: "../crates/agent/assets/page.html", most: 100_000, data: false, connects: true },
];

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

/** Names and licence texts of the packages in the bundles. */
function licences(bundles) {
  const files = bundles.flatMap((b) => Object.keys(b.metafile.inputs));
  const names = new Set(files.flatMap((f) => f.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1] ?? []));
  return [...names].sort().map((name) => {
    const folder = join(root, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = ["LICENSE", "LICENSE.md", "LICENSE.txt", "LICENCE"].map((f) => join(folder, f)).find(existsSync);
    if (!file) throw new Error(`${name} has no licence text`);
    return `${name} ${version} (${license})\n\n${readFileSync(file, "utf8").trim()}`;
  });
}

async function page({ name, data, connects }) {
  const script = await build({
    ...common,
    entryPoints: [`src/${name}/main.tsx`],
    format: "iife",
    jsx: "automatic",
    jsxImportSource: "preact",
    define: { "process.env.NODE_ENV": '"production"' },
  });
  const style = await build({ ...common, entryPoints: [`src/${name}/style/main.css`] });
  // What ends an element would end the page's program.
  const js = script.outputFiles[0].text.trim().replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
  const css = style.outputFiles[0].text.trim();
  const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
  const policy = [
    "default-src 'none'",
    `script-src ${hash(js)}`,
    `style-src ${hash(css)}`,
    "img-src data: blob:",
    ...(connects ? ["connect-src 'self'"] : []),
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  const title = data ? "<!--title-->" : "fairmesh gateway";
  const without = data ? "<!--without-script-->" : "<p>This page needs JavaScript; `fairmesh-gateway status` shows the same.</p>";
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<style>${css}</style>
</head>
<body>
<noscript><main class="wrap">${without}</main></noscript>
<div id="app"></div>
${data ? '<script type="application/json" id="data"><!--data--></script>\n' : ""}<script>${js}</script>
</body>
</html>
<!-- This page contains:

${licences([script, style]).join("\n\n----\n\n").replaceAll("--", "- -")}
-->
`;
  for (const mark of data ? ["<!--title-->", "<!--without-script-->", "<!--data-->"] : []) {
    if (html.split(mark).length !== 2) throw new Error(`${mark} must stand once in the page`);
  }
  return { html, sizes: `program ${js.length}, style ${css.length}` };
}

for (const p of PAGES) {
  const { html, sizes } = await page(p);
  const target = join(root, p.target);
  const bytes = Buffer.byteLength(html);
  if (bytes > p.most) throw new Error(`${p.name}: ${bytes} bytes; expected at most ${p.most}`);
  if (process.argv.includes("--check")) {
    if (!existsSync(target) || readFileSync(target, "utf8") !== html) {
      console.error(`${p.target.replace("../", "")} is out of date; run \`npm run build\` in ui`);
      process.exitCode = 1;
    }
  } else {
    writeFileSync(target, html);
    console.log(`${target}: ${bytes} bytes (${sizes})`);
  }
}
