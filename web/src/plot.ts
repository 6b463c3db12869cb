// What all charts share: axes, legends with the figures under the cursor, shaded stretches and marks, the keyboard.
import uPlot from "uplot";
import { finer, moment, short, shown, type Unit } from "./figures";
import { type Theme, theme } from "./theme";
import type { Mark, Span } from "./unpack";

/** Room for the figures of a vertical axis: the same in all charts, so that their times stand below each other. */
const AXIS_WIDTH = 62;
const FONT = "11px system-ui, sans-serif";
const STEPS_S = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200];

const POWERS_OF_TWO = Array.from({ length: 50 }, (_, power) => 2 ** power);

export type Shape = "none" | "disc" | "ring" | "cross" | "triangle";
/** A line of a legend; a shape stands for points, a stretch for what is shaded. */
export interface Item { name: string; colour: () => string; dash: number[]; shape?: Shape | "stretch"; hasLine?: boolean }

/** The shapes of points, in a box of 26 by 8. */
const SHAPES: Record<Shape | "stretch", string> = {
  none: "",
  disc: "M10 4a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z",
  ring: "M10 4a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z",
  cross: "M10 1l6 6m0 -6l-6 6",
  triangle: "M13 0.5l4 7h-8z",
  stretch: "M4 0h18v8h-18z",
};

/** A list of lines with what each is under the cursor. */
export class Legend {
  private readonly outputs: HTMLElement[] = [];
  private readonly samples: SVGElement[] = [];
  private readonly list: HTMLElement;

  constructor(figure: HTMLElement, private readonly items: Item[], isLive = true) {
    const list = document.createElement("ul");
    list.className = isLive ? "legend live" : "legend still";
    for (const item of items) {
      const entry = document.createElement("li");
      const sample = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      sample.setAttribute("viewBox", "0 0 26 8");
      sample.setAttribute("class", "sample");
      sample.setAttribute("aria-hidden", "true");
      const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
      line.setAttribute("d", item.hasLine === false ? "" : "M0 4h26");
      line.setAttribute("stroke-dasharray", item.dash.join(" "));
      sample.append(line);
      if (item.shape && item.shape !== "none") {
        const shape = document.createElementNS("http://www.w3.org/2000/svg", "path");
        shape.setAttribute("d", SHAPES[item.shape]);
        shape.setAttribute("class", item.shape);
        sample.append(shape);
      }
      const output = document.createElement("span");
      output.className = "value";
      entry.append(sample, item.name);
      if (isLive) entry.append(" ", output);
      list.append(entry);
      this.outputs.push(output);
      this.samples.push(sample);
    }
    figure.querySelector(".plot")?.before(list);
    this.list = list;
    this.paint();
  }

  /** Takes it away. */
  remove(): void {
    this.list.remove();
  }

  paint(): void {
    this.items.forEach((item, i) => {
      this.samples[i]?.setAttribute("stroke", item.colour());
      this.samples[i]?.setAttribute("fill", item.colour());
    });
  }

  show(texts: string[]): void {
    this.outputs.forEach((output, i) => { output.textContent = texts[i] ?? ""; });
  }
}

export function seconds(length: () => number): uPlot.Axis {
  return {
    scale: "x",
    size: 26,
    font: FONT,
    stroke: () => theme().dim,
    grid: { stroke: () => theme().grid, width: 1 },
    ticks: { stroke: () => theme().grid, size: 4 },
    incrs: STEPS_S,
    space: 76,
    values: (_u, splits) => splits.map((s) => moment(s, Math.max(length(), 10)).replace(/\.0+(?= )/, "")),
  };
}

export function upright(unit: Unit, log: boolean): uPlot.Axis {
  return {
    scale: "y",
    size: AXIS_WIDTH,
    font: FONT,
    stroke: () => theme().dim,
    grid: { stroke: () => theme().grid, width: 1 },
    ticks: { show: false },
    space: 26,
    values: (_u, splits) => labels(unit, splits),
    ...(unit === "bytes" ? { incrs: POWERS_OF_TWO } : {}),
    filter: (_u, splits) => splits,
    ...(log ? { splits: (_u: uPlot, _axis: number, min: number, max: number) => decades(min, max) } : {}),
  };
}

/** Figures of an axis: as short as they can be, and never two alike. */
function labels(unit: Unit, splits: (number | null)[]): string[] {
  const texts = splits.map((value) => (value == null ? "" : short(unit, value)));
  const isPlain = texts.every((text, i) => text === "" || texts.indexOf(text) === i);
  return isPlain ? texts : splits.map((value) => (value == null ? "" : finer(unit, value)));
}

/** Powers of ten; with two and five of each where there are few. */
export function decades(min: number, max: number): number[] {
  const fine = Math.log10(max / min) < 3.2 ? [1, 2, 5] : [1];
  const splits: number[] = [];
  for (let power = Math.floor(Math.log10(min)); power <= Math.ceil(Math.log10(max)); power++) {
    for (const digit of fine) {
      const value = digit * 10 ** power;
      if (value >= min && value <= max) splits.push(value);
    }
  }
  return splits;
}

/** A logarithmic scale that ends a little beyond what it holds. */
export function logarithmic(): uPlot.Scale {
  return { distr: 3, log: 10, range: (_u, min, max) => (min > 0 ? [min / 1.3, max * 1.3] : [1, 10]) };
}

/** A scale from nothing on. */
export function fromZero(unit: Unit): uPlot.Scale {
  return {
    range: (_u, _min, max) => {
      const top = max > 0 ? max * 1.08 : 1;
      return [0, unit === "share" ? Math.min(Math.max(top, 0.02), 1.02) : top];
    },
  };
}

/** Shades stretches, below the lines. */
export function shade(u: uPlot, spans: Span[]): void {
  const colours: Theme = theme();
  const { left, top, width, height } = u.bbox;
  const { ctx } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  for (const span of spans) {
    const from = u.valToPos(span.from_s, "x", true);
    const to = Math.max(u.valToPos(span.to_s, "x", true), from + 1.5);
    // Many thin ones would shade all of it.
    const isThin = to - from < 3 * devicePixelRatio;
    ctx.fillStyle = span.kind === "window" ? colours.window : span.kind === "pause" ? colours.pause : colours.warmup;
    // Windows are a band at the foot, pauses one at the head: shades alone would not tell them apart.
    if (span.kind === "pause") ctx.fillRect(from, top, to - from, 7 * devicePixelRatio);
    else if (!isThin) ctx.fillRect(from, top, to - from, height);
    if (span.kind === "disruption") {
      ctx.fillStyle = colours.warn;
      ctx.fillRect(from, top, to - from, 3 * devicePixelRatio);
    }
    if (span.kind === "window") {
      ctx.fillStyle = colours.dim;
      ctx.fillRect(from, top + height - 3 * devicePixelRatio, to - from, 3 * devicePixelRatio);
    }
  }
  ctx.restore();
}

/** Draws moments as lines, with their kind where there is room and it is asked for. */
export function mark(u: uPlot, marks: Mark[], named: boolean): void {
  const { left, top, width, height } = u.bbox;
  const { ctx } = u;
  const ratio = devicePixelRatio;
  const colours = theme();
  ctx.save();
  ctx.strokeStyle = colours.asked;
  ctx.fillStyle = colours.text;
  ctx.lineWidth = ratio;
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  ctx.textBaseline = "top";
  let free = -Infinity;
  for (const { s, kind } of marks) {
    const x = u.valToPos(s, "x", true);
    if (!(x >= left && x <= left + width)) continue;
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, top + height);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.beginPath();
    ctx.moveTo(x - 4 * ratio, top);
    ctx.lineTo(x + 4 * ratio, top);
    ctx.lineTo(x, top + 6 * ratio);
    ctx.fill();
    const room = ctx.measureText(kind).width + 12 * ratio;
    if (named && x > free && x + room < left + width) {
      ctx.fillText(kind, x + 6 * ratio, top + 2 * ratio);
      free = x + room;
    }
  }
  ctx.restore();
}

/** Dashes tell lines apart where colours do not. */
const DASHES: number[][] = [[], [7, 3], [2, 2], [10, 3, 2, 3], [4, 4], [12, 4], [1, 3], [6, 2, 1, 2]];

/** Lines of a chart in their order: what failed and what was asked for look the same in every one. */
export function style(role: "plain" | "asked" | "bad", place: number): { colour: () => string; dash: number[] } {
  const dash = DASHES[place % DASHES.length] ?? [];
  if (role === "bad") return { colour: () => theme().bad, dash: place === 0 ? [] : [3, 2] };
  if (role === "asked") return { colour: () => theme().asked, dash: [4, 4] };
  return { colour: () => theme().lines[place % 8] ?? theme().text, dash };
}

export function said(unit: Unit, value: number | null | undefined): string {
  return value == null ? "–" : shown(unit, value);
}
