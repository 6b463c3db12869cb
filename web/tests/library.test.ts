// `plimsoll ui` in a browser: recordings found, sorted, two compared, one deleted, by the keyboard alone; thousands stay quick.
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { linkSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { type Browser, type Page, chromium } from "playwright-core";
import { axe } from "./axe.js";

const PROGRAM = resolve(process.env.PLIMSOLL ?? "../target/debug/plimsoll");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const GUARD_MS = 120_000;
/** Recordings beside the two that are looked at: the same file by other names. */
const MORE = Number(process.env.MORE ?? 200);

let browser: Browser;
const started: ChildProcess[] = [];
const folder = mkdtempSync(join(tmpdir(), "plimsoll-ui-"));

async function said(args: string[], wanted: RegExp): Promise<string> {
  const child = spawn(PROGRAM, args, { stdio: ["ignore", "pipe", "inherit"] });
  started.push(child);
  let text = "";
  return new Promise((done, failed) => {
    child.stdout.on("data", (bytes: Buffer) => {
      text += bytes.toString();
      const match = wanted.exec(text);
      if (match) done(match[0]);
    });
    child.on("exit", (status) => failed(new Error(`ended with ${status}: ${text}`)));
  });
}

before(async () => {
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  const target = await said(["serve", "http", "--listen", "127.0.0.1:0"], /http:\S+/);
  for (const [name, rate] of [["first", "50"], ["second", "80"]] as const) {
    spawnSync(PROGRAM, ["load", target, "--rate", rate, "-d", "1s", "-c", "2", "-q", "--record", join(folder, `${name}.plimsoll`)]);
  }
  for (let i = 0; i < MORE; i++) linkSync(join(folder, "first.plimsoll"), join(folder, `more-${String(i).padStart(5, "0")}.plimsoll`));
});
after(async () => {
  await browser.close();
  started.forEach((child) => child.kill("SIGKILL"));
  rmSync(folder, { recursive: true });
});

async function shot(page: Page, name: string): Promise<void> {
  if (!process.env.SHOTS) return;
  mkdirSync("shots", { recursive: true });
  await page.screenshot({ path: `shots/${name}.png` });
}

test("recordings are found, sorted, compared and deleted, by the keyboard alone", async () => {
  const url = await said(["ui", "127.0.0.1:0", "--folder", folder], /http:\/\/127\S+/);
  const context = await browser.newContext({ viewport: { width: 1180, height: 700 } });
  const page = await context.newPage();
  page.setDefaultTimeout(GUARD_MS);
  const wrong: string[] = [];
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) wrong.push(message.text()); });
  page.on("pageerror", (error) => wrong.push(String(error.stack)));
  // The first list reads each recording; what comes after has the index.
  await page.goto(url);
  const began = performance.now();
  await page.reload();
  const rows = page.locator("#runs tbody tr:visible");
  assert.equal(await rows.count(), MORE + 2);
  console.log(`a list of ${MORE + 2}: ${(performance.now() - began).toFixed(0)} ms`);
  assert.ok(!page.url().includes("token"));
  const { violations } = await axe(page).analyze();
  assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`), []);
  await shot(page, "library");
  // Sorted by the figure, the highest first.
  const figure = page.locator("#runs thead button", { hasText: "a second" });
  await figure.press("Enter");
  await figure.press("Enter");
  assert.equal(await rows.first().getAttribute("data-id"), "second");
  // Found, ticked, compared.
  await page.locator("#find").fill("second");
  assert.equal(await rows.count(), 1);
  assert.match((await page.textContent("#found")) ?? "", /^1 of/);
  await rows.first().locator("input").press("Space");
  await page.locator("#find").fill("first");
  await rows.first().locator("input").press("Space");
  await page.locator("#compare").press("Enter");
  await page.waitForURL(/compare/);
  await page.waitForFunction(() => document.documentElement.dataset.drawn === "all");
  assert.match((await page.textContent("main")) ?? "", /second\.plimsoll/);
  await page.goBack();
  // Opened.
  await page.locator("#find").fill("second");
  await rows.first().locator("a").press("Enter");
  await page.waitForFunction(() => document.documentElement.dataset.drawn === "all");
  assert.match(await page.title(), /plimsoll/);
  await page.goBack();
  // Deleted, asked twice; the focus goes on.
  await page.locator("#find").fill("second");
  const button = rows.first().locator("button.delete");
  await button.press("Enter");
  assert.ok(readdirSync(folder).includes("second.plimsoll"), "not by one key");
  await button.press("Enter");
  await page.waitForFunction(() => document.getElementById("said")?.textContent?.startsWith("Deleted"));
  assert.ok(!readdirSync(folder).includes("second.plimsoll"));
  assert.equal(await rows.count(), 0);
  // In the dark and on a phone.
  const phone = await browser.newContext({ viewport: { width: 390, height: 700 }, colorScheme: "dark", storageState: await context.storageState() });
  const small = await phone.newPage();
  await small.goto(new URL(page.url()).origin);
  assert.ok(await small.evaluate(() => document.documentElement.scrollWidth <= innerWidth + 1), "fits a phone");
  const found = await axe(small).analyze();
  assert.deepEqual(found.violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`), []);
  await shot(small, "library-phone-dark");
  assert.deepEqual(wrong, []);
  await phone.close();
  await context.close();
});
