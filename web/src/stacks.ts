// Stacks of the stretches that are chosen: a flame graph of one; of two what is different between them, as a graph and a table.
import { duration, grouped, moment, shown } from "./figures";
import { type Look, type Node, amount, drawTree, plain, plainLook, tree } from "./flame";
import { sortable } from "./tables";
import type { Data, Periods } from "./unpack";

interface Stretch { from: number; to: number }

/** What was counted in a stretch: of each node of the graph, and in which part of the run. */
export interface Taken { counts: number[]; total: number; periods: number; from: number; to: number; counted: number }

/** Rows of the table of differences. */
const ROWS_MAX = 200;
const TITLES: Record<string, string> = { "on-cpu": "Where it ran", "off-cpu": "Where it waited" };

let stops: (() => void)[] = [];
let waiting = 0;

/** Draws the stacks of one stretch or of two where the page has a place for them; none: takes away what is there. */
export function drawStacks(data: Data, stretches: Stretch[], say: (stretch: Stretch) => string): void {
  const place = document.getElementById("stacks");
  if (!place) return;
  // While a stretch grows, key by key, only what the next frame shows is drawn.
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(() => {
    stops.forEach((stop) => stop());
    stops = [];
    place.replaceChildren();
    const [a, b] = stretches;
    if (!a) return;
    // A graph is as wide as its place, which has a width once it is in the page.
    const drawn = Object.keys(TITLES).map((kind) => figureOf(place, kind, data, a, b, say));
    place.append(...drawn.map(({ figure }) => figure));
    stops = drawn.flatMap(({ draw }) => (draw ? [draw()] : []));
  });
}

/** Goes to them: to the first graph, or to the words where there is none. */
export function toStacks(): void {
  const place = document.getElementById("stacks");
  if (!place) return;
  place.scrollIntoView({ block: "start" });
  (place.querySelector("canvas") ?? place.querySelector<HTMLElement>("figure"))?.focus({ preventScroll: true });
}

/**
 * What was counted in the periods whose middle lies in a stretch; of a stretch within one period, what was counted in that.
 * A tenth of a period may be missing: readings come a little late, and the keyboard chooses from middle to middle.
 */
export function taken(data: Data, periods: Periods, nodes: number, stretch: Stretch): Taken {
  const [from, to, counted] = [data.whole(periods.from_s), data.whole(periods.to_s), data.whole(periods.counted_s)];
  const lengths = data.whole(periods.lengths);
  const [numbers, counts] = [data.whole(periods.nodes), data.whole(periods.counts)];
  const middle = (stretch.from + stretch.to) / 2;
  const isWithin = (i: number) => {
    const [start, end] = [from[i] ?? 0, to[i] ?? 0];
    const [at, late] = [(start + end) / 2, (end - start) / 10];
    return at + late >= stretch.from && at - late <= stretch.to;
  };
  const isAround = (i: number) => (from[i] ?? 0) <= middle && middle < (to[i] ?? 0);
  const isAny = from.some((_, i) => isWithin(i));
  const all: Taken = { counts: new Array<number>(nodes).fill(0), total: 0, periods: 0, from: Infinity, to: -Infinity, counted: 0 };
  let at = 0;
  for (let i = 0; i < from.length; i++) {
    const end = at + (lengths[i] ?? 0);
    if (isAny ? isWithin(i) : isAround(i)) {
      all.periods++;
      all.from = Math.min(all.from, from[i] ?? 0);
      all.to = Math.max(all.to, to[i] ?? 0);
      all.counted += counted[i] ?? 0;
      for (let k = at; k < end; k++) {
        const [node, count] = [numbers[k] ?? -1, counts[k] ?? 0];
        if (node < 0 || node >= nodes) continue;
        all.counts[node] = (all.counts[node] ?? 0) + count;
        all.total += count;
      }
    }
    at = end;
  }
  return all;
}

interface Figure { figure: HTMLElement; draw?: () => () => void }

function figureOf(place: HTMLElement, kind: string, data: Data, a: Stretch, b: Stretch | undefined, say: (stretch: Stretch) => string): Figure {
  const figure = document.createElement("figure");
  figure.className = "flame";
  figure.dataset.stacks = kind;
  figure.tabIndex = -1;
  const caption = figure.appendChild(document.createElement("figcaption"));
  const title = caption.appendChild(document.createElement("h3"));
  const titled = (what: string) => { title.textContent = `${TITLES[kind]}, ${what}`; };
  titled(b ? "A and B" : `A: ${say(a)}`);
  const about = (text: string) => { caption.appendChild(document.createElement("p")).textContent = text; };

  const flame = data.head.flames.find(({ id }) => id === kind);
  if (!flame?.periods) {
    about(`There is no flame graph of it: ${place.getAttribute(`data-none-${kind}`) ?? "the page holds its stacks of the whole run only"}.`);
    return { figure };
  }
  const { periods } = flame;
  const parents = data.whole(flame.parents);
  const ofA = taken(data, periods, parents.length, a);
  const ofB = b ? taken(data, periods, parents.length, b) : null;
  const empty = [["A", a, ofA], ["B", b, ofB]] as const;
  for (const [name, stretch, all] of empty) {
    if (stretch && all?.total === 0) about(`${b ? `${name}: ` : ""}${why(data, kind, periods, stretch, all)}`);
  }
  const plot = document.createElement("div");
  plot.className = "plot";
  const isBoth = ofB && ofB.total > 0 && ofA.total > 0;
  const one = ofA.total > 0 ? ofA : ofB && ofB.total > 0 ? ofB : null;
  if (!one) return { figure };
  const length = data.head.end_s;
  if (isBoth) {
    titled("B against A");
    about(`A: ${extent(ofA, flame.unit, length)}`);
    about(`B: ${extent(ofB, flame.unit, length)}`);
    about("Each frame is as wide as its share of B. ▲ that is larger than its share of A, ▼ smaller, by so many percentage points");
    if (flame.unit === "samples") about(`A change of less than ${chance(ofA.total, ofB.total).toFixed(1)} points can be chance: so many samples tell no more`);
  } else {
    if (b) titled(one === ofA ? "A alone" : "B alone");
    about(`${b ? `${one === ofA ? "A" : "B"}: ` : ""}${extent(one, flame.unit, length)}`);
  }
  if (periods.merged > 1) about(`${periods.merged} of the recording’s ticks are together in one period here`);
  if (periods.left_out > 0) about(`without ${amount(flame.unit, periods.left_out)} of the whole run in stacks that the graph has no room for`);
  figure.append(plot);
  const root = tree(data, flame, isBoth ? ofB.counts : one.counts, isBoth ? ofA.counts : undefined);
  const look = isBoth ? differenceLook(flame.unit, root) : plainLook(flame.unit, root);
  if (isBoth) figure.append(differences(root, TITLES[kind] ?? ""));
  return { figure, draw: () => drawTree(plot, `search-stretch-${kind}`, root, look) };
}

/** How much was counted, and when. */
function extent(all: Taken, unit: string, length: number): string {
  const isWhole = all.counted >= 0.99 * (all.to - all.from);
  const within = isWhole ? "" : `, in ${duration(all.counted * 1e9)} of it`;
  const rate = unit === "µs" ? `${shown("cpus", all.total / 1e6 / Math.max(all.counted, 1e-6))} threads at a time` : shown("per-s", all.total / Math.max(all.counted, 1e-6));
  const what = unit === "µs" ? `${amount(unit, all.total)} of threads’ time` : amount(unit, all.total);
  return `counted from ${moment(all.from, length)} to ${moment(all.to, length)}${within}: ${what}, ${rate}`;
}

/** Why a stretch has no stack. */
function why(data: Data, kind: string, periods: Periods, stretch: Stretch, all: Taken): string {
  const { since_s } = periods;
  if (since_s != null && stretch.from < since_s) {
    return `no stack of it is known: stacks are known by stretch from ${moment(since_s, data.head.end_s)} on; of older ticks the file has those of all together.`;
  }
  const windows = data.head.spans.filter((span) => span.kind === "window");
  const isOutside = windows.length > 0 && !windows.some((span) => span.from_s < stretch.to && span.to_s > stretch.from);
  if (kind === "off-cpu" && isOutside && all.periods === 0) {
    return "no stack was counted in it: the probes’ windows, which are shaded, lie elsewhere. With --observe full there is one in each tick.";
  }
  return kind === "off-cpu" ? "no stack was counted in it: none of the target’s threads was seen to wait." : "no stack was counted in it: nothing of the target ran when samples were taken.";
}

/**
 * How far apart two shares of so many samples come by chance, in percentage points: 95 % of the differences of two binomial
 * shares are within 1.96 standard errors, which are largest for a share of one half.
 */
function chance(a: number, b: number): number {
  return 100 * 1.96 * Math.sqrt(0.25 / a + 0.25 / b);
}

/** The change of a frame's share from A to B, in percentage points, with its sign. */
function points(change: number): string {
  const rounded = Math.abs(100 * change).toFixed(1);
  return rounded === "0.0" ? "±0.0" : `${change > 0 ? "+" : "−"}${rounded}`;
}

const share = (part: number, of: number) => part / Math.max(of, 1);
const changeOf = (node: Node, root: Node) => share(node.total, root.total) - share(node.before, root.before);

/** As wide as in B, with the change against A in words and, beside them, in colour. */
function differenceLook(unit: string, root: Node): Look {
  let most = 0.01;
  const see = (node: Node) => { most = Math.max(most, Math.abs(changeOf(node, root))); node.children.forEach(see); };
  see(root);
  const [inA, inB] = [(node: Node) => share(node.before, root.before), (node: Node) => share(node.total, root.total)];
  return {
    title: "Flame graph of B, against A",
    words: (node) =>
      `${plain(node.name)}: ${shown("share", inB(node))} of B (${amount(unit, node.total)}), ${shown("share", inA(node))} of A (${amount(unit, node.before)}), change ${points(changeOf(node, root))} percentage points`,
    mark: (node) => {
      const change = points(changeOf(node, root));
      return change.startsWith("±") ? "" : `${change.startsWith("+") ? "▲" : "▼"} ${change.slice(1)}`;
    },
    colour: (node, colours) => {
      const change = changeOf(node, root);
      if (points(change).startsWith("±")) return [colours.dim, 0.14];
      return [(change > 0 ? colours.lines[1] : colours.lines[0]) ?? colours.text, 0.16 + 0.34 * Math.min(Math.abs(change) / most, 1)];
    },
  };
}

/** Each function with its share of A and of B, with all that it calls; what changed most first. */
function differences(root: Node, title: string): HTMLElement {
  const rows = new Map<string, { a: number; b: number }>();
  const open = new Set<string>();
  const see = (node: Node) => {
    const isOuter = !open.has(node.name);
    if (isOuter) {
      const row = rows.get(node.name) ?? { a: 0, b: 0 };
      row.a += node.before;
      row.b += node.total;
      rows.set(node.name, row);
      open.add(node.name);
    }
    node.children.forEach(see);
    if (isOuter) open.delete(node.name);
  };
  root.children.forEach(see);
  const sorted = [...rows].map(([name, { a, b }]) => ({ name, a: share(a, root.before), b: share(b, root.total) }));
  sorted.sort((x, y) => Math.abs(y.b - y.a) - Math.abs(x.b - x.a) || y.b - x.b || (x.name < y.name ? -1 : 1));

  const table = document.createElement("table");
  table.className = "sortable";
  const more = sorted.length - ROWS_MAX;
  table.createCaption().textContent = `${title}: each function’s share of A and of B, with what it calls; change in percentage points${more > 0 ? `; ${grouped(more)} more changed less` : ""}`;
  const head = table.createTHead().insertRow();
  ["frame", "A", "B", "change"].forEach((text, i) => {
    const cell = head.appendChild(document.createElement("th"));
    cell.scope = "col";
    cell.textContent = text;
    if (i > 0) cell.className = "figure";
  });
  const body = table.createTBody();
  for (const { name, a, b } of sorted.slice(0, ROWS_MAX)) {
    const row = body.insertRow();
    const cell = row.appendChild(document.createElement("th"));
    cell.scope = "row";
    cell.textContent = plain(name);
    for (const [text, value] of [[shown("share", a), a], [shown("share", b), b], [points(b - a), b - a]] as const) {
      const figure = row.insertCell();
      figure.className = "figure";
      figure.textContent = text;
      figure.dataset.value = String(value);
    }
  }
  sortable(table);
  const scroll = document.createElement("div");
  scroll.className = "scroll";
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "group");
  scroll.setAttribute("aria-label", `${title}: differences between the chosen stretches`);
  scroll.append(table);
  return scroll;
}
