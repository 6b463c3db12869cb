// Every page in target/pages, in a browser: no error, no request, nothing that axe finds, the JSON's numbers, one cursor, the
// keyboard alone. SHOTS=1 leaves pictures in web/shots. No test asserts a time: that of opening a day is printed.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, readdirSync } from "node:fs";
import { resolve } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { inflateSync } from "node:zlib";
import { type Browser, type Page, chromium } from "playwright-core";
import { grouped as shown_count, shown } from "../src/figures.js";
import { Data, type Periods } from "../src/unpack.js";
import { axe } from "./axe.js";

const FOLDER = resolve(process.env.PLIMSOLL_PAGES ?? "../target/pages");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
/** Long enough for a machine that does much else: what hangs longer has hung. */
const GUARD_MS = 120_000;
const names = readdirSync(FOLDER).filter((name) => name.endsWith(".html")).sort();

interface Look { scheme?: "light" | "dark"; width?: number; print?: boolean }

let browser: Browser;
before(async () => {
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
});
after(() => browser.close());

/** Opens a page, hands it over, and sees to it that nothing went wrong in it and nobody was asked for anything. */
async function opened(name: string, look: Look, use: (page: Page) => Promise<void>): Promise<void> {
  const context = await browser.newContext({
    viewport: { width: look.width ?? 1180, height: 900 },
    colorScheme: look.scheme ?? "light",
  });
  const page = await context.newPage();
  page.setDefaultTimeout(GUARD_MS);
  const wrong: string[] = [];
  const file = pathToFileURL(resolve(FOLDER, name)).href;
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) wrong.push(message.text()); });
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("dialog", (dialog) => { wrong.push(`dialog: ${dialog.message()}`); void dialog.dismiss(); });
  page.on("request", (request) => { if (request.url() !== file && !request.url().startsWith("data:")) wrong.push(`request: ${request.url()}`); });
  if (look.print) await page.emulateMedia({ media: "print" });
  await page.goto(file);
  await page.waitForFunction(() => document.documentElement.dataset.drawn === "all");
  await use(page);
  assert.deepEqual(wrong, [], name);
  await context.close();
}

async function shot(page: Page, name: string): Promise<void> {
  if (!process.env.SHOTS) return;
  mkdirSync("shots", { recursive: true });
  await page.screenshot({ path: `shots/${name}.png`, fullPage: true });
}

/** Axe finds nothing on the page as it stands; leaves a picture of the flame graphs of stretches. */
async function looks(page: Page, name: string): Promise<void> {
  const result = await axe(page).include("#course").analyze();
  assert.deepEqual(result.violations.map((one) => `${one.id}: ${one.nodes[0]?.html.slice(0, 200)} ${one.nodes[0]?.failureSummary}`), [], name);
  if (!process.env.SHOTS) return;
  mkdirSync("shots", { recursive: true });
  await page.evaluate(() => document.querySelector("#selection")?.scrollIntoView({ block: "start" }));
  await page.screenshot({ path: `shots/${name}.png` });
  await page.locator("#stacks").screenshot({ path: `shots/${name}-stacks.png` });
}

/** What tests read of the document of a run, of a search and of a comparison. */
interface OfRun { intervals: { t_s: number; length_s: number; ok: number; failed: number }[]; latency: { response: { p99_us: number | null } } }
interface OfSearch {
  objectives: { allowed: number }[];
  capacity: { load_line: number };
  steps: { asked: number; load: number; response_p99_us: number; blocks: { requests: number; bad: number[] }[] }[];
}
interface OfComparison { slices: { figures: Record<string, number> }[] }

/** The document in the page, as its button saves it. */
async function document_of<T>(page: Page): Promise<T> {
  const text = await page.evaluate(async () => {
    const packed = Uint8Array.from(atob(document.getElementById("document")?.textContent ?? ""), (c) => c.charCodeAt(0));
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
  });
  return JSON.parse(text) as T;
}

/** What a page carries for its script, unpacked here. */
function packed_of(name: string): Data {
  const [, text] = /id="data"[^>]*>([^<]*)</.exec(readFileSync(resolve(FOLDER, name), "utf8")) ?? [];
  const all = inflateSync(Buffer.from(text ?? "", "base64"));
  const length = all.readUInt32LE(0);
  return new Data(JSON.parse(all.toString("utf8", 4, 4 + length)), all.subarray(4 + length));
}

/** What was counted in the periods whose middle lies in a stretch: of all nodes, and of those with a name on their way. */
function counted(data: Data, kind: string, from: number, to: number): { all: number; with_name: (name: string) => number } {
  const flame = data.head.flames.find(({ id }) => id === kind)!;
  const { from_s, to_s, lengths, nodes, counts } = flame.periods as Periods;
  const [starts, ends, sizes] = [from_s, to_s, lengths].map((column) => data.whole(column)) as [number[], number[], number[]];
  const [numbers, times] = [data.whole(nodes), data.whole(counts)];
  const [parents, of_names] = [data.whole(flame.parents), data.whole(flame.of_names)];
  const taken: [number, number][] = [];
  let at = 0;
  sizes.forEach((size, i) => {
    const middle = (starts[i]! + ends[i]!) / 2;
    if (middle >= from && middle <= to) for (let k = at; k < at + size; k++) taken.push([numbers[k]!, times[k]!]);
    at += size;
  });
  const sum = (some: [number, number][]) => some.reduce((all, [, count]) => all + count, 0);
  const has = (node: number, name: string): boolean => flame.names[of_names[node]!] === name || (parents[node]! > 0 && has(parents[node]! - 1, name));
  return { all: sum(taken), with_name: (name) => sum(taken.filter(([node]) => has(node, name))) };
}

/** Chooses seconds by the keyboard alone: as many steps from the start of the axis, then as many with Shift. */
async function choose(page: Page, steps: number, length: number, beside = false): Promise<void> {
  await page.locator("#chart-throughput .plot").focus();
  await page.keyboard.press("Home");
  for (let i = 0; i < steps; i++) await page.keyboard.press("ArrowRight");
  for (let i = 0; i < length; i++) await page.keyboard.press(beside ? "Control+Shift+ArrowRight" : "Shift+ArrowRight");
}

/** The stretch that a title of the table of means names. */
async function chosen(page: Page, name: "A" | "B"): Promise<[number, number]> {
  const text = (await page.locator("#selection thead th").filter({ hasText: `${name}:` }).textContent()) ?? "";
  const [from, to] = [...text.matchAll(/([\d.]+) s/g)].map(([, s]) => Number(s));
  return [from!, to!];
}

/** All points of a picture, by the keyboard alone: where each is, and what is said of it. */
async function points_of(page: Page, id: string): Promise<{ x: number; y: number; text: string }[]> {
  const plot = page.locator(`#chart-${id} .plot`);
  await plot.focus();
  await page.keyboard.press("Home");
  const points = [];
  for (let before = ""; ; ) {
    const at = await plot.evaluate((place) => (place as HTMLElement).dataset.point ?? "");
    const text = (await plot.getAttribute("aria-valuetext")) ?? "";
    if (at + text === before) return points;
    before = at + text;
    const [x, y] = at.split(" ").map(Number);
    points.push({ x: x!, y: y!, text });
    await page.keyboard.press("ArrowRight");
  }
}

/** Near enough for columns that keep so many digits. */
function alike(is: number[], wanted: number[], what: string): void {
  const sorted = (all: number[]) => [...all].sort((a, b) => a - b);
  assert.equal(is.length, wanted.length, what);
  sorted(is).forEach((value, i) => assert.ok(Math.abs(value - sorted(wanted)[i]!) <= 1e-4 * Math.abs(value) + 0.006, `${what}: ${value}`));
}

test("there are pages to look at", () => {
  assert.ok(names.length > 5, `expected pages in ${FOLDER}, found ${names.length}: cargo test -p plimsoll-report --test pages writes them`);
});

/** Axe takes seconds on a busy machine: of pages of one make some. All those of experiments have what runs have; of them some that differ. */
const of_experiments = /^experiment-(?!(canary|held|name-service-crash-wait|nginx|spike|stress-neighbour|two-loads)\.html)/;
const looked_at = names.filter((name) => !of_experiments.test(name) && !/^(all_failed|few|generator_lag|nothing|partial|quiet|ten_million|undetermined|unfinished|day|capacity-interrupted|capacity-nothing|comparison-single)\.html$/.test(name));

const first = names.find((name) => name.startsWith("healthy")) ?? names[0] ?? "";
const others = ["hostile.html", "capacity.html", "capacity-connections.html", "capacity-hostile.html", "comparison.html", "comparison-hostile.html"];
const all = [first, ...others.filter((name) => names.includes(name))];

/** Two pages at once: opening one is waiting for several processes in turn. */
describe("every page", { concurrency: 2 }, () => {
  for (const name of names) {
    const is_looked_at = looked_at.includes(name);
    test(`${name} opens without an error or a request${is_looked_at ? ", and axe finds nothing" : ""}`, async () => {
      await opened(name, {}, async (page) => {
        if (!is_looked_at) return;
        const result = await axe(page).analyze();
        assert.deepEqual(result.violations.map((one) => `${one.id}: ${one.nodes[0]?.html.slice(0, 200)} ${one.nodes[0]?.failureSummary}`), []);
        await shot(page, `${name}-light`);
      });
    });
  }

  for (const name of all) {
    test(`${name} in the dark, on a phone, on paper`, async () => {
      await opened(name, { scheme: "dark" }, async (page) => {
        const result = await axe(page, "color-contrast").analyze();
        assert.deepEqual(result.violations.map((one) => one.nodes.map((node) => node.failureSummary)), []);
        await shot(page, `${name}-dark`);
      });
      await opened(name, { width: 390 }, async (page) => {
        const room = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
        assert.ok((room[0] ?? 0) <= (room[1] ?? 0), `${name} is wider than a phone: ${room}`);
        await shot(page, `${name}-phone`);
      });
      await opened(name, { print: true }, async (page) => {
        assert.equal(await page.locator("nav").isVisible(), false);
        await shot(page, `${name}-print`);
      });
    });
  }
});

test("charts hold the document's numbers, and all cursors are at one moment", async () => {
  await opened(first, {}, async (page) => {
    const { intervals } = await document_of<OfRun>(page);
    assert.ok(intervals.length > 3);
    const chart = page.locator("#chart-throughput .plot");
    await chart.focus();
    for (const key of ["Home", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowRight"]) await page.keyboard.press(key);
    const third = intervals[2]!;
    assert.equal(Number(await chart.getAttribute("aria-valuenow")), third.t_s + third.length_s / 2);
    assert.match((await chart.getAttribute("aria-valuetext")) ?? "", new RegExp(`ok ${shown("per-s", third.ok / third.length_s)}`));
    const moments = await page.locator("#course .plot[role=slider]").evaluateAll((plots) => plots.map((plot) => Number(plot.getAttribute("aria-valuenow"))));
    assert.ok(moments.length > 3);
    for (const moment of moments) assert.ok(Math.abs(moment - third.t_s - third.length_s / 2) <= third.length_s, `${moments}`);
    const lefts = await page.locator("#course .plot").evaluateAll((plots) => plots.map((plot) => Number((plot as HTMLElement).dataset.moment)));
    assert.ok(lefts.every((left) => Math.abs(left - lefts[0]!) < 1), `${lefts}`);
  });
});

test("the mouse on one chart moves the cursor of all, and a stretch is chosen for all", async () => {
  await opened(first, {}, async (page) => {
    const over = page.locator("#chart-throughput .u-over");
    await over.scrollIntoViewIfNeeded();
    const box = (await over.boundingBox())!;
    await page.mouse.move(box.x + box.width * 0.3, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.7, box.y + 40, { steps: 5 });
    const lefts = await page.locator("#course .plot").evaluateAll((plots) => plots.map((plot) => Number((plot as HTMLElement).dataset.moment)));
    assert.ok(lefts.every((left) => Math.abs(left - box.width * 0.7) < 2), `${lefts}`);
    await page.mouse.up();
    await page.locator("#selection table").waitFor();
    assert.match((await page.locator("#selection").textContent()) ?? "", /Throughput: ok/);
  });
});

test("with the keyboard alone: a stretch, a table sorted, a flame graph zoomed and searched", async () => {
  await opened(first, {}, async (page) => {
    await page.locator("#chart-throughput .plot").focus();
    for (const key of ["Home", "ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight"]) await page.keyboard.press(key);
    assert.match((await page.locator("#selection caption").textContent()) ?? "", /stretch/);
    await page.keyboard.press("Escape");
    assert.equal(await page.locator("#selection table").count(), 0);
    const title = page.locator("#speed thead th").nth(1);
    await title.locator("button").focus();
    await page.keyboard.press("Enter");
    assert.equal(await title.getAttribute("aria-sort"), "ascending");
    const counts = await page.locator("#speed table").first().locator("tbody tr td:nth-child(2)").evaluateAll((cells) => cells.map((cell) => Number((cell as HTMLElement).dataset.value)));
    assert.deepEqual(counts, [...counts].sort((a, b) => a - b));
    const flame = page.locator("figure.flame canvas");
    if ((await flame.count()) > 0) {
      await flame.first().focus();
      await page.keyboard.press("ArrowDown");
      await page.keyboard.press("Enter");
      assert.match((await page.locator("figure.flame .said").first().textContent()) ?? "", /%/);
      await page.locator("figure.flame input").first().fill("wait");
      assert.match((await page.locator("figure.flame .tools").first().textContent()) ?? "", /found in/);
    }
  });
});

test("a chosen stretch has its flame graphs, two have their difference, by the keyboard alone", { skip: !names.includes("stretches.html") }, async () => {
  await opened("stretches.html", {}, async (page) => {
    const data = packed_of("stretches.html");
    const flame = (kind: string) => page.locator(`#stacks figure[data-stacks=${kind}]`);
    await choose(page, 1, 2);
    const label = async (kind: string) => (await flame(kind).locator("canvas").getAttribute("aria-label")) ?? "";
    const a = await chosen(page, "A");
    const in_a = counted(data, "on-cpu", ...a);
    assert.ok(in_a.all > 0 && in_a.all < counted(data, "on-cpu", 0, 1e9).all, `${in_a.all}`);
    await flame("on-cpu").locator("canvas").waitFor();
    assert.ok((await label("on-cpu")).includes(`all: ${shown_count(in_a.all)} samples, 100 %`), `${await label("on-cpu")}, wanted ${in_a.all}`);
    assert.match((await flame("off-cpu").locator("figcaption").textContent()) ?? "", /of threads’ time/);
    await page.locator("#selection").getByRole("button", { name: "Flame graphs" }).focus();
    await page.keyboard.press("Enter");
    for (const key of ["ArrowDown", "ArrowDown", "ArrowDown", "Enter"]) await page.keyboard.press(key);
    assert.match((await flame("on-cpu").locator(".said").textContent()) ?? "", /^serve: /);
    await flame("on-cpu").locator("input").fill("compress");
    const share = shown("share", in_a.with_name("compress") / in_a.all);
    assert.ok(((await flame("on-cpu").locator(".tools").textContent()) ?? "").includes(`found in ${share}`), share);
    await looks(page, "stretch");

    await choose(page, 5, 3, true);
    assert.deepEqual(await chosen(page, "A"), a);
    const in_b = counted(data, "on-cpu", ...(await chosen(page, "B")));
    const table = flame("on-cpu").locator("table");
    await table.waitFor();
    const before_and_after = (name: string) => [in_a, in_b].map((all) => all.with_name(name) / all.all) as [number, number];
    const rows = await table.locator("tbody tr").evaluateAll((all) => all.map((row) => [...(row as HTMLTableRowElement).cells].map((cell) => cell.textContent ?? "")));
    assert.deepEqual(rows.map(([name]) => name).sort(), ["compress", "futex", "lock", "main", "parse", "serve", "server"]);
    for (const [name, ofA, ofB, change] of rows) {
      const [x, y] = before_and_after(name === "futex" ? "futex_[k]" : name!);
      assert.deepEqual([ofA, ofB], [shown("share", x), shown("share", y)], name!);
      assert.ok(Math.abs(Number(change!.replace("−", "-").replace("±", "")) - 100 * (y - x)) <= 0.051, `${name}: ${change}`);
    }
    const changes = rows.map(([name]) => { const [x, y] = before_and_after(name === "futex" ? "futex_[k]" : name!); return Math.abs(y - x); });
    assert.deepEqual(changes, [...changes].sort((x, y) => y - x), "what changed most is first");
    assert.ok((await label("on-cpu")).includes(`all: 100 % of B (${shown_count(in_b.all)} samples), 100 % of A (${shown_count(in_a.all)} samples)`), await label("on-cpu"));
    // 1.96 standard errors of two shares of one half.
    const chance = (196 * Math.sqrt(0.25 / in_a.all + 0.25 / in_b.all)).toFixed(1);
    assert.ok(((await flame("on-cpu").locator("figcaption").textContent()) ?? "").includes(`less than ${chance} points can be chance`), chance);
    const title = table.locator("thead th").nth(2);
    await title.locator("button").focus();
    await page.keyboard.press("Enter");
    const values = await table.locator("tbody tr td:nth-child(3)").evaluateAll((cells) => cells.map((cell) => Number((cell as HTMLElement).dataset.value)));
    assert.deepEqual(values, [...values].sort((x, y) => x - y));
    await flame("on-cpu").locator("canvas").focus();
    for (let i = 0; i < 4; i++) await page.keyboard.press("ArrowDown");
    assert.match((await flame("on-cpu").locator(".said").textContent()) ?? "", / of B \(.* of A \(.*change [+−][\d.]+ percentage points/);
    await looks(page, "stretches");

    await page.locator("#chart-throughput .plot").focus();
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => document.querySelector("#stacks")?.childElementCount === 0);
    // Where the probes saw nothing, words say so.
    await choose(page, 7, 1);
    await page.waitForFunction(() => document.querySelector("#stacks figure") != null);
    assert.match((await flame("off-cpu").textContent()) ?? "", /no stack was counted in it/);
  });
  for (const look of [{ scheme: "dark" }, { width: 390 }] as const) {
    await opened("stretches.html", look, async (page) => {
      await choose(page, 1, 2);
      await choose(page, 5, 3, true);
      await page.locator("#stacks table").first().waitFor();
      const room = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok((room[0] ?? 0) <= (room[1] ?? 0), `wider than its screen: ${room}`);
      await looks(page, `stretches-${"width" in look ? "phone" : "dark"}`);
    });
  }
});

test("the periods of a recording are together the whole run, node for node", () => {
  for (const name of names.filter((name) => /^(truth-|stretches|day)/.test(name))) {
    const data = packed_of(name);
    for (const { id, counts, periods } of data.head.flames) {
      // Of a run whose older ticks were merged the newest periods are only a part of it.
      if (!periods || periods.since_s != null) continue;
      assert.equal(periods.left_out, 0, name);
      const sums = data.whole(counts).map(() => 0);
      data.whole(periods.nodes).forEach((node, i) => { sums[node]! += data.whole(periods.counts)[i]!; });
      assert.deepEqual(sums, data.whole(counts), `${name}: ${id}`);
      const [from, to] = [data.whole(periods.from_s), data.whole(periods.to_s)];
      assert.ok(from.every((s, i) => s < to[i]! && (i === 0 || s >= from[i - 1]!)), `${name}: ${id}`);
    }
  }
});

test("a stretch of a run without stacks says why it has no flame graph", { skip: !names.includes("stretches-none.html") }, async () => {
  await opened("stretches-none.html", {}, async (page) => {
    await choose(page, 1, 2);
    await page.locator("#stacks figure").first().waitFor();
    for (const kind of ["on-cpu", "off-cpu"]) {
      const words = await page.locator(`#stacks figure[data-stacks=${kind}]`).textContent();
      assert.match(words ?? "", new RegExp(`There is no flame graph of it: expected ${kind} stacks.*--observe windows or full`));
    }
    await looks(page, "stretches-none");
  });
});

test("of ticks that were merged it is said from when on stacks are known", { skip: !names.includes("stretches-merged.html") }, async () => {
  await opened("stretches-merged.html", {}, async (page) => {
    const figure = page.locator("#stacks figure[data-stacks=on-cpu]");
    await choose(page, 1, 2);
    await figure.waitFor();
    assert.match((await figure.textContent()) ?? "", /no stack of it is known: stacks are known by stretch from 6\.0 s on/);
    await page.keyboard.press("Escape");
    await choose(page, 6, 2);
    await figure.locator("canvas").waitFor();
    assert.match((await figure.textContent()) ?? "", /counted from 6\.0 s to 9\.0 s/);
  });
});

test("the pictures of a search hold its steps", { skip: !names.includes("capacity.html") }, async () => {
  await opened("capacity.html", {}, async (page) => {
    const { steps, objectives, capacity } = await document_of<OfSearch>(page);
    const over = (step: OfSearch["steps"][number]) => Math.max(...objectives.map(({ allowed }, place) => {
      const sum = (of: (block: OfSearch["steps"][number]["blocks"][number]) => number) => step.blocks.reduce((all, block) => all + of(block), 0);
      return sum(({ bad }) => bad[place] ?? 0) / sum(({ requests }) => requests) / allowed;
    }));
    const order = await points_of(page, "order");
    assert.deepEqual(order.map(({ x }) => x), steps.map((_, i) => i + 1));
    alike(order.map(({ y }) => y), steps.map(({ load }) => load), "loads in order");
    const near = steps.filter(({ load }) => load >= capacity.load_line / 2 && load <= capacity.load_line * 2);
    const line = await points_of(page, "line");
    alike(line.map(({ y }) => y), near.map(over), "bad requests over what is allowed");
    assert.match(line.find(({ y }) => y === 0)?.text ?? "", /none bad/);
    const latency = await points_of(page, "latency");
    alike(latency.filter(({ text }) => text.startsWith("p99")).map(({ y }) => y / 1e3), steps.map((step) => step.response_p99_us), "p99");
    alike((await points_of(page, "achieved")).map(({ x }) => x), steps.map(({ asked }) => asked), "asked");
    await page.keyboard.press("Escape");
    assert.equal(await page.locator("#chart-achieved .plot").getAttribute("aria-valuetext"), "no point chosen");
    // The mouse says the same as the keyboard.
    const over_plot = page.locator("#chart-order .u-over");
    await over_plot.scrollIntoViewIfNeeded();
    const box = (await over_plot.boundingBox())!;
    await page.mouse.move(box.x + box.width - 20, box.y + 20, { steps: 3 });
    for (let x = box.width - 20; x > 0 && (await page.locator("#chart-order .said").textContent()) === ""; x -= 8) await page.mouse.move(box.x + x, box.y + 20);
    assert.match((await page.locator("#chart-order .said").textContent()) ?? "", /(held|missed|undecided): step/);
    const title = page.locator("#steps thead th").nth(3);
    await title.locator("button").focus();
    await page.keyboard.press("Enter");
    const loads = await page.locator("#steps tbody tr td:nth-child(4)").evaluateAll((cells) => cells.map((cell) => Number((cell as HTMLElement).dataset.value)));
    assert.deepEqual(loads, steps.map(({ load }) => load).sort((a, b) => a - b));
  });
});

test("the pictures of a comparison hold its slices, in the order they were run", { skip: !names.includes("comparison.html") }, async () => {
  await opened("comparison.html", {}, async (page) => {
    const { slices } = await document_of<OfComparison>(page);
    for (const [id, of, scale] of [["slices-p99", "p99", 1e3], ["slices-throughput", "throughput", 1]] as const) {
      const points = await points_of(page, id);
      assert.deepEqual(points.map(({ x }) => x), slices.map((_, i) => i + 1));
      alike(points.map(({ y }) => y), slices.map(({ figures }) => figures[of]! * scale), id);
    }
  });
});

test("a day of seconds opens", { skip: !names.includes("day.html") }, async () => {
  await opened("day.html", {}, async (page) => {
    const marks = await page.evaluate(() => performance.getEntriesByType("mark").map((mark) => `${mark.name} ${mark.startTime.toFixed(0)} ms`));
    console.log(`a day of seconds: ${marks.join(", ")}`);
    await page.locator("#chart-throughput .plot").focus();
    await page.keyboard.press("End");
    assert.match((await page.locator("#chart-throughput .plot").getAttribute("aria-valuetext")) ?? "", /^23:59:59/);
    await shot(page, "day");
  });
});
