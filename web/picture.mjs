// A picture of the first screen of a page: node picture.mjs PAGE FILE.
import { pathToFileURL } from "node:url";
import { resolve } from "node:path";
import { chromium } from "playwright-core";

const [, , page_file = "", picture = ""] = process.argv;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1080, height: 1200 }, colorScheme: "light" });
await page.goto(pathToFileURL(resolve(page_file)).href);
await page.waitForFunction(() => document.documentElement.dataset.drawn === "all");
await page.screenshot({ path: picture });
await browser.close();
