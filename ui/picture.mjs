// Renews docs/img/gateway-page.png: FAIRMESH_PAGE=TEST_PROGRAM node picture.mjs, as `scripts/ui.sh` prepares it.
// The picture is committed, because it needs a browser and the test program of the daemon.
import { join } from "node:path";
import { chromium } from "playwright-core";
import { daemon, root } from "./test/daemon.mjs";

process.env.FAIRMESH_PAGE_PLAIN = "1";
// More than an hour of the daemon's clock before the page is served.
process.env.FAIRMESH_PAGE_SECONDS = "4000";
const gateway = await daemon({ homes: 30, mode: "observe", token: false, map: true });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--headless", "--no-sandbox", "--disable-gpu"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
await page.goto(gateway.address);
await page.waitForFunction(() => document.querySelector("h1")?.textContent.includes("starve:"), undefined, { timeout: 120_000 });
await page.locator("tr[data-row]").first().click();
await page.waitForTimeout(2000);
await page.screenshot({ path: join(root, "docs/img/gateway-page.png") });
await browser.close();
await gateway.stop();
