// The page of a run that goes on, of the real program: it fills, keeps what is chosen, asks only its own server, becomes the
// report. PLIMSOLL names the program (default: the build for tests).
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { after, before, test } from "node:test";
import { type Browser, type BrowserContext, type Page, chromium } from "playwright-core";
import { axe } from "./axe.js";

const PROGRAM = resolve(process.env.PLIMSOLL ?? "../target/debug/plimsoll");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const GUARD_MS = 120_000;

let browser: Browser;
let target: string;
const started: ChildProcess[] = [];

/** Starts the program, and waits until it has said what is looked for. */
async function program(args: string[], from: "stdout" | "stderr", wanted: RegExp): Promise<{ child: ChildProcess; found: string }> {
  const child = spawn(PROGRAM, args, { stdio: ["ignore", "pipe", "pipe"] });
  started.push(child);
  let text = "";
  (from === "stdout" ? child.stderr : child.stdout)?.resume();
  const found = await new Promise<string>((done, failed) => {
    child[from]?.on("data", (bytes: Buffer) => {
      text += bytes.toString();
      const match = wanted.exec(text);
      if (match) done(match[0]);
    });
    child.on("exit", (status) => failed(new Error(`ended with ${status} before it said ${wanted}: ${text}`)));
  });
  return { child, found };
}

before(async () => {
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  ({ found: target } = await program(["serve", "http", "--listen", "127.0.0.1:0"], "stdout", /http:\S+/));
});
after(async () => {
  await browser.close();
  started.forEach((child) => child.kill("SIGKILL"));
});

interface Looked { page: Page; context: BrowserContext; wrong: string[] }

async function opened(url: string, scheme: "light" | "dark" = "light", width = 1180): Promise<Looked> {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme });
  const page = await context.newPage();
  page.setDefaultTimeout(GUARD_MS);
  const wrong: string[] = [];
  const origin = new URL(url).origin;
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) wrong.push(message.text()); });
  page.on("pageerror", (error) => wrong.push(String(error.stack)));
  page.on("request", (request) => {
    const { origin: asked, protocol } = new URL(request.url());
    if (asked !== origin && protocol !== "data:") wrong.push(`request: ${request.url()}`);
  });
  await page.goto(url);
  return { page, context, wrong };
}

const frames = (page: Page) => page.evaluate(() => Number(document.documentElement.dataset.frames ?? 0));
const until = (page: Page, count: number) => page.waitForFunction((n) => Number(document.documentElement.dataset.frames ?? 0) >= n, count);
/** Where the axis of time of a chart ends, as the keyboard reaches it. */
async function last_of(page: Page, id: string): Promise<number> {
  return Number(await page.locator(`#chart-${id} .plot`).getAttribute("aria-valuemax"));
}
async function shot(page: Page, name: string): Promise<void> {
  if (!process.env.SHOTS) return;
  mkdirSync("shots", { recursive: true });
  await page.screenshot({ path: `shots/${name}.png`, fullPage: true });
}
async function accessible(page: Page): Promise<void> {
  const { violations } = await axe(page).analyze();
  assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`), []);
}

test("the page fills as the run goes, keeps what is chosen, and becomes the report", async () => {
  const run = ["load", target, "--rate", "200", "-d", "300s", "-c", "4", "--live", "127.0.0.1:0", "--no-record"];
  const { child, found } = await program(run, "stderr", /http:\/\/127\S+/);
  const { page, context, wrong } = await opened(found);
  await until(page, 2);
  const early = await last_of(page, "throughput");
  // A part that was opened stays open, a stretch that was chosen stays chosen, the cursor stays.
  await page.locator("#chart-throughput summary").click();
  await page.locator("#chart-throughput .plot").focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("Shift+ArrowRight");
  assert.equal(await page.locator("#selection table").count(), 1);
  const now = await frames(page);
  await until(page, now + 2);
  assert.ok((await last_of(page, "throughput")) > early, "time goes on");
  assert.equal(await page.locator("#chart-throughput details").getAttribute("open"), "");
  assert.ok(await page.locator("#chart-throughput .plot").evaluate((plot) => plot === document.activeElement), "the focus stays");
  assert.equal(await page.locator("#selection table").first().isVisible(), true);
  assert.match((await page.textContent("#live")) ?? "", /Running .* of \d/);
  assert.equal(await page.locator("#chart-throughput .plot canvas").count(), 1, "drawn once");
  assert.equal(await page.locator("#chart-quantiles .plot canvas").count(), 1, "drawn once");
  await accessible(page);
  await shot(page, "live-light");
  // Who comes late has the run from its start, on a phone and in the dark.
  const late = await opened(found, "dark", 390);
  await until(late.page, 1);
  await late.page.locator("#chart-throughput .plot").focus();
  await late.page.keyboard.press("Home");
  const first = (await late.page.locator("#chart-throughput .plot").getAttribute("aria-valuenow")) ?? "";
  assert.ok(Number(first) < 2, `the first point is at ${first}`);
  assert.ok(await late.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth + 1), "fits a phone");
  await accessible(late.page);
  await shot(late.page, "live-phone-dark");
  child.kill("SIGINT");
  for (const one of [page, late.page]) {
    await one.waitForFunction(() => !document.documentElement.classList.contains("live") && document.documentElement.dataset.drawn === "all");
    assert.equal(await one.locator("#live").count(), 0);
    assert.match((await one.textContent("footer")) ?? "", /needs nothing else/);
  }
  assert.deepEqual([...wrong, ...late.wrong], []);
  await context.close();
  await late.context.close();
});

test("orders are given by the keyboard alone, and the token is not left in the address", async () => {
  const run = ["load", target, "--rate", "100", "-d", "100s", "-c", "4", "--live", "127.0.0.1:0", "--live-control", "--no-record"];
  const { child, found } = await program(run, "stderr", /http:\/\/127\S+/);
  const ended = new Promise<number | null>((done) => child.on("exit", done));
  const { page, context, wrong } = await opened(found);
  assert.ok(!page.url().includes("token"), page.url());
  await until(page, 1);
  await page.locator("#order-rate").fill("250");
  await page.locator("#order-rate-set").press("Enter");
  await page.waitForFunction(() => document.getElementById("page")?.textContent?.includes("rate-changed"));
  await page.locator("#order-stop").press("Enter");
  assert.equal(await page.textContent("#order-stop"), "Really end the run");
  await page.locator("#order-stop").press("Enter");
  await page.waitForFunction(() => !document.documentElement.classList.contains("live"));
  assert.deepEqual(wrong, []);
  await context.close();
  assert.equal(await ended, 130);
});

test("a page whose run is killed says so and keeps what it had", async () => {
  const run = ["load", target, "--rate", "100", "-d", "100s", "-c", "4", "--live", "127.0.0.1:0", "--no-record"];
  const { child, found } = await program(run, "stderr", /http:\/\/127\S+/);
  const { page, context } = await opened(found);
  await page.waitForSelector("#chart-throughput .plot canvas");
  child.kill("SIGKILL");
  await page.waitForFunction(() => document.getElementById("live")?.dataset.state === "lost");
  assert.match((await page.textContent("#live-state")) ?? "", /cannot be reached/);
  assert.equal(await page.locator("#chart-throughput .plot canvas").count(), 1);
  await context.close();
});
