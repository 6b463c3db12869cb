// Flame graphs: callers above what they call, as wide as what was counted in it. Zoomed by a click or Enter, searched by text.
import { duration, grouped, shown } from "./figures";
import { type Theme, onTheme, theme } from "./theme";
import type { Data, Flame } from "./unpack";

const ROW = 18;
const KERNEL = "_[k]";
const INLINED = "_[i]";

/** A frame; `before` is its total in what it is set against. */
export interface Node { name: string; own: number; total: number; before: number; parent: Node | null; children: Node[]; depth: number }

/** How frames are said and painted: a colour with how much of it shows. */
export interface Look {
  title: string;
  words: (node: Node) => string;
  /** What stands in a frame before its name; where it has no room, its first letter may stand alone. */
  mark: (node: Node) => string;
  colour: (node: Node, colours: Theme) => [string, number];
}

export function drawFlame(figure: HTMLElement, data: Data, flame: Flame): void {
  const place = figure.querySelector<HTMLElement>(".plot");
  if (!place) return;
  const root = tree(data, flame, data.whole(flame.counts));
  drawTree(place, `search-${flame.id}`, root, plainLook(flame.unit, root));
}

/** What was counted, in its unit. */
export function amount(unit: string, count: number): string {
  return unit === "µs" ? duration(count * 1e3) : `${grouped(count)} ${unit}`;
}

/** Frames of the target, of its kernel and inlined ones in colours of their own. */
export function plainLook(unit: string, root: Node): Look {
  return {
    title: "Flame graph",
    words: (node) =>
      `${plain(node.name)}: ${amount(unit, node.total)}, ${shown("share", node.total / Math.max(root.total, 1))}` +
      (node.own > 0 && node.children.length > 0 ? `; in itself ${amount(unit, node.own)}` : ""),
    mark: () => "",
    colour: (node, colours) => {
      const hue = node.name.endsWith(KERNEL) ? colours.lines[1] : node.name.endsWith(INLINED) ? colours.lines[2] : colours.lines[0];
      return [hue ?? colours.text, 0.16 + 0.14 * spreadOf(node.name)];
    },
  };
}

/** Draws a tree of calls into its place; what it gives back lets go of it. */
export function drawTree(place: HTMLElement, id: string, root: Node, look: Look): () => void {
  let top = root;
  let focus: Node = root;
  let wanted = "";
  let boxes: { node: Node; x: number; width: number }[] = [];

  const tools = document.createElement("p");
  tools.className = "tools";
  const label = document.createElement("label");
  label.htmlFor = id;
  label.textContent = "Search ";
  const search = document.createElement("input");
  search.id = id;
  search.type = "search";
  search.autocomplete = "off";
  const found = document.createElement("span");
  found.className = "dim";
  const reset = document.createElement("button");
  reset.type = "button";
  reset.textContent = "Whole graph";
  tools.append(label, search, " ", reset, " ", found);
  const canvas = document.createElement("canvas");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-roledescription", "flame graph");
  const said = document.createElement("p");
  said.className = "said";
  said.setAttribute("aria-live", "polite");
  place.append(tools, canvas, said);

  const isFound = (node: Node) => wanted !== "" && node.name.toLowerCase().includes(wanted);
  const { words } = look;

  function draw(): void {
    const width = place.clientWidth;
    const colours = theme();
    const chain: Node[] = [];
    for (let node: Node | null = top; node; node = node.parent) chain.unshift(node);
    boxes = [];
    let deepest = chain.length;
    for (const node of chain.slice(0, -1)) boxes.push({ node, x: 0, width });
    const spread = (node: Node, x: number, room: number): void => {
      boxes.push({ node, x, width: room });
      deepest = Math.max(deepest, node.depth + 1);
      let at = x;
      for (const child of node.children) {
        const part = (room * child.total) / Math.max(node.total, 1);
        if (part >= 0.6) spread(child, at, part);
        at += part;
      }
    };
    spread(top, 0, width);
    const ratio = devicePixelRatio;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${deepest * ROW}px`;
    canvas.width = width * ratio;
    canvas.height = deepest * ROW * ratio;
    const ctx = canvas.getContext("2d");
    if (!ctx) return;
    ctx.scale(ratio, ratio);
    ctx.font = "12px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    for (const { node, x, width: room } of boxes) {
      const y = node.depth * ROW;
      const [colour, strength] = look.colour(node, colours);
      ctx.globalAlpha = isFound(node) ? 0.95 : wanted ? 0.12 : strength;
      ctx.fillStyle = isFound(node) ? colours.text : colour;
      ctx.fillRect(x + 0.5, y + 0.5, Math.max(room - 1, 0.6), ROW - 1);
      ctx.globalAlpha = 1;
      if (node === focus) {
        ctx.strokeStyle = colours.text;
        ctx.lineWidth = 2;
        ctx.strokeRect(x + 1, y + 1, Math.max(room - 2, 1), ROW - 2);
      }
      if (room > 20) {
        ctx.fillStyle = isFound(node) ? colours.ground : colours.text;
        const text = fitted(ctx, look.mark(node), plain(node.name), room - 8);
        if (text) ctx.fillText(text, x + 4, y + ROW / 2 + 0.5);
      }
    }
    canvas.setAttribute("aria-label", `${look.title}. Arrow keys go from frame to frame, Enter zooms, Escape shows all. ${words(focus)}`);
  }

  function go(node: Node): void {
    focus = node;
    said.textContent = words(node);
    draw();
  }

  function zoom(node: Node): void {
    top = node;
    go(node);
  }

  const under = (event: MouseEvent): Node | null => {
    const { left, top: above } = canvas.getBoundingClientRect();
    const [x, row] = [event.clientX - left, Math.floor((event.clientY - above) / ROW)];
    return boxes.find((box) => box.node.depth === row && x >= box.x && x < box.x + box.width)?.node ?? null;
  };
  canvas.addEventListener("mousemove", (event) => {
    const node = under(event);
    if (node && node !== focus) go(node);
  });
  canvas.addEventListener("click", (event) => {
    const node = under(event);
    if (node) zoom(node === top ? root : node);
  });
  canvas.addEventListener("keydown", (event) => {
    const siblings = focus.parent?.children ?? [focus];
    const at = siblings.indexOf(focus);
    const to: Record<string, Node | undefined> = {
      ArrowDown: focus.children[0],
      ArrowUp: focus.parent ?? undefined,
      ArrowRight: siblings[at + 1],
      ArrowLeft: siblings[at - 1],
    };
    if (event.key === "Enter") zoom(focus);
    else if (event.key === "Escape") zoom(root);
    else if (event.key in to) {
      const node = to[event.key];
      if (node) go(node);
    } else return;
    event.preventDefault();
  });
  search.addEventListener("input", () => {
    wanted = search.value.trim().toLowerCase();
    const sum = (node: Node): number => (isFound(node) ? node.total : node.children.reduce((all, child) => all + sum(child), 0));
    found.textContent = wanted === "" ? "" : `found in ${shown("share", sum(root) / Math.max(root.total, 1))}`;
    draw();
  });
  reset.addEventListener("click", () => {
    search.value = "";
    wanted = "";
    found.textContent = "";
    zoom(root);
  });
  onTheme(place, draw);
  const resized = new ResizeObserver(draw);
  resized.observe(place);
  draw();
  return () => resized.disconnect();
}

/** The frames of a graph with these counts, a count a node; those that were counted neither here nor before are left out. */
export function tree(data: Data, flame: Flame, counts: number[], before: number[] = []): Node {
  const root: Node = { name: "all", own: 0, total: 0, before: 0, parent: null, children: [], depth: 0 };
  const parents = data.whole(flame.parents);
  const names = data.whole(flame.of_names);
  const nodes: Node[] = [];
  for (let i = 0; i < parents.length; i++) {
    // A caller stands before what it calls; a file that says otherwise is not followed.
    const parent = nodes[(parents[i] ?? 0) - 1] ?? root;
    const own = counts[i] ?? 0;
    const node: Node = { name: flame.names[names[i] ?? -1] ?? "?", own, total: own, before: before[i] ?? 0, parent, children: [], depth: parent.depth + 1 };
    nodes.push(node);
  }
  for (let i = nodes.length - 1; i >= 0; i--) {
    const node = nodes[i];
    if (!node?.parent) continue;
    node.parent.total += node.total;
    node.parent.before += node.before;
    if (node.total > 0 || node.before > 0) node.parent.children.push(node);
  }
  for (const node of [root, ...nodes]) node.children.sort((a, b) => b.total - a.total || b.before - a.before);
  return root;
}

/** A frame's name without its mark. */
export function plain(name: string): string {
  return name.replace(/_\[[ki]\]$/, "");
}

/** A number of a name, 0..1: neighbours differ a little. */
function spreadOf(name: string): number {
  let hash = 7;
  for (let i = 0; i < name.length; i++) hash = (hash * 31 + name.charCodeAt(i)) % 997;
  return hash / 997;
}

/** A mark and a name in so much room: the name may be cut. */
function fitted(ctx: CanvasRenderingContext2D, mark: string, name: string, room: number): string {
  const width = (text: string) => ctx.measureText(text).width;
  // Which way it changed, where there is no room for by how much.
  if (mark !== "" && width(mark) > room) return width(mark.slice(0, 1)) <= room ? mark.slice(0, 1) : "";
  const before = mark === "" ? "" : `${mark}  `;
  if (width(before + name) <= room) return before + name;
  let letters = Math.floor(((room - width(before)) / width(name)) * name.length);
  while (letters >= 3 && width(`${before}${name.slice(0, letters)}…`) > room) letters--;
  return letters >= 3 ? `${before}${name.slice(0, letters)}…` : mark;
}
