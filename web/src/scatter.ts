// Pictures of one figure over another: points whose shapes say what they mean, lines, stretches, levels. The other side is
// crates/report/src/html/plots.rs.
import uPlot from "uplot";
import { shown } from "./figures";
import { Legend, type Shape, decades, upright } from "./plot";
import { onTheme, theme } from "./theme";
import { type Axis, type Data, type Plot, type Values } from "./unpack";

interface Point { x: number; y: number; series: number; note: string }

/** Nearer than this to a point, in CSS pixels, the mouse is at it. */
const NEAR = 28;
/** Steps of an axis of things that come whole. */
const WHOLE = Array.from({ length: 9 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();

export function drawPlot(figure: HTMLElement, data: Data, plot: Plot): void {
  const place = figure.querySelector<HTMLElement>(".plot");
  if (!place) return;
  const { x, y, series } = plot;
  const each = series.map((one) => ({ at: data.whole(one.x), values: data.whole(one.y) }));
  const floor = floorOf(plot, each.flatMap(({ values }) => values));
  const onAxis = (value: number) => (y.log && value <= 0 ? floor : value);
  const entries: Point[] = [];
  each.forEach(({ at, values }, place) => at.forEach((left, i) => {
    entries.push({ x: left, y: values[i] ?? 0, series: place, note: series[place]?.notes[i] ?? "" });
  }));
  entries.sort((a, b) => a.x - b.x);
  const points = entries.filter(({ series: of }) => !series[of]?.computed);
  const columns: Values[] = series.map((_, place) => entries.map((entry) => (entry.series === place ? onAxis(entry.y) : null)));

  const colour = (place: number) => () => {
    const colours = theme();
    switch (series[place]?.tone) {
      case "good": return colours.good;
      case "warn": return colours.warn;
      case "bad": return colours.bad;
      case "dim": return colours.dim;
      case "second": return colours.lines[1] ?? colours.text;
      default: return colours.lines[0] ?? colours.text;
    }
  };
  const dash = (line: string) => (line === "dashed" ? [5, 4] : []);
  const items = series.map((one, place) => ({
    name: one.name, colour: colour(place), dash: dash(one.line), shape: one.shape, hasLine: one.line !== "none",
  }));
  const stretches = [...new Set(plot.stretches.map(({ name }) => name))];
  const legend = new Legend(figure, [
    ...items,
    ...stretches.map((name) => ({ name, colour: () => theme().window, dash: [], shape: "stretch" as const, hasLine: false })),
  ], false);
  const told = document.createElement("p");
  told.className = "said";

  let now = -1;
  const words = ({ x: left, y: up, series: of, note }: Point): string => {
    const value = up <= 0 && plot.nothing != null ? plot.nothing : shown(y.unit, up);
    return `${series[of]?.name}: ${x.name} ${shown(x.unit, left)}, ${value}${note ? ` (${note})` : ""}`;
  };
  const tell = () => {
    const point = points[now];
    told.textContent = point ? words(point) : "";
    place.setAttribute("aria-valuenow", String(point ? point.x : 0));
    place.setAttribute("aria-valuetext", point ? words(point) : "no point chosen");
    place.dataset.point = point ? `${point.x} ${point.y}` : "";
  };
  const { height } = plot;
  const u = new uPlot({
    width: Math.max(place.clientWidth, 200),
    height,
    padding: [14, 28, 0, 0],
    legend: { show: false },
    cursor: { show: true, x: false, y: false, drag: { x: false, y: false }, points: { show: false } },
    scales: {
      x: { time: false, ...(x.log ? { distr: 3, log: 10 } : {}), range: (_u, least, most) => range(x, least, most, across(plot)) },
      y: { ...(y.log ? { distr: 3, log: 10 } : {}), range: (_u, least, most) => range(y, least, most, plot.levels.map(({ at }) => at)) },
    },
    axes: [below(x), { ...upright(y.unit, y.log), ...(y.log && plot.nothing != null ? named(plot.nothing, y, floor) : {}) }],
    // Drawn below: uPlot would join points by their place on the axis, and not in their own order.
    series: [{}, ...series.map((): uPlot.Series => ({ scale: "y", stroke: "transparent", points: { show: false } }))],
    hooks: {
      drawClear: [(u) => beneath(u, plot)],
      draw: [(u) => {
        series.forEach((one, place) => {
          const { at, values } = each[place] ?? { at: [], values: [] };
          if (one.line !== "none") join(u, at, values.map(onAxis), dash(one.line), colour(place)());
        });
        entries.forEach((entry) => {
          const shape = series[entry.series]?.shape ?? "none";
          if (shape !== "none") mark(u, entry.x, onAxis(entry.y), shape, colour(entry.series)(), entry === points[now]);
        });
      }],
    },
  }, [entries.map((entry) => entry.x), ...columns] as uPlot.AlignedData, place);
  place.before(told);

  const choose = (to: number) => {
    if (to === now) return;
    now = to;
    tell();
    u.redraw(false);
  };
  u.over.addEventListener("mousemove", (event) => {
    const away = points.map((point) => Math.hypot(u.valToPos(point.x, "x") - event.offsetX, u.valToPos(onAxis(point.y), "y") - event.offsetY));
    const nearest = away.reduce((best, far, i) => (far < (away[best] ?? Infinity) ? i : best), 0);
    choose((away[nearest] ?? Infinity) <= NEAR ? nearest : -1);
  });
  u.over.addEventListener("mouseleave", () => { if (document.activeElement !== place) choose(-1); });
  place.tabIndex = 0;
  place.setAttribute("role", "slider");
  place.setAttribute("aria-label", `${figure.querySelector("h3")?.textContent ?? ""}: point`);
  place.setAttribute("aria-valuemin", String(points[0]?.x ?? 0));
  place.setAttribute("aria-valuemax", String(points.at(-1)?.x ?? 0));
  place.addEventListener("keydown", (event) => {
    const steps: Record<string, number> = {
      ArrowRight: now + 1, ArrowUp: now + 1, ArrowLeft: now - 1, ArrowDown: now - 1, Home: 0, End: points.length - 1,
      PageDown: now + 10, PageUp: now - 10,
    };
    if (event.key === "Escape") return choose(-1);
    const to = steps[event.key];
    if (to == null || points.length === 0) return;
    event.preventDefault();
    choose(Math.min(Math.max(to, 0), points.length - 1));
  });
  onTheme(place, () => { legend.paint(); u.redraw(false); });
  new ResizeObserver(() => {
    if (place.clientWidth > 0 && place.clientWidth !== u.width) u.setSize({ width: place.clientWidth, height });
  }).observe(place);
  tell();
}

/** Where nothing is drawn on a logarithmic axis: a step below the least that is something. */
function floorOf(plot: Plot, values: number[]): number {
  const some = [...values, ...plot.levels.map(({ at }) => at)].filter((value) => value > 0);
  return some.length > 0 ? Math.min(...some) / 4 : 1;
}

function across(plot: Plot): number[] {
  return [...plot.uprights.map(({ at }) => at), ...plot.stretches.flatMap(({ from, to }) => [from, to])];
}

/** What an axis reaches over: all that stands on it, and a little beyond. */
function range(of: Axis, least: number | null, most: number | null, more: number[]): [number, number] {
  const all = [least, most, ...more].filter((value): value is number => value != null && Number.isFinite(value) && (!of.log || value > 0));
  if (all.length === 0) return of.log ? [1, 10] : [0, 1];
  const [low, high] = [Math.min(...all), Math.max(...all)];
  if (of.log) {
    const beyond = Math.max((high / low) ** 0.05, 1.02);
    return [low / beyond, high * beyond];
  }
  const room = high > low ? 0.06 * (high - low) : Math.max(Math.abs(high) * 0.1, 0.5);
  return [of.from_zero ? 0 : low - room, high + room];
}

/** An axis to the right, with what it is of. */
function below(of: Axis): uPlot.Axis {
  const { values, incrs, filter, splits, ...rest } = upright(of.unit, of.log);
  return {
    ...rest,
    scale: "x",
    size: 28,
    space: of.log ? 50 : 76,
    label: of.name,
    labelSize: 20,
    labelFont: "11px system-ui, sans-serif",
    labelGap: 0,
    ...(values ? { values } : {}),
    ...(filter ? { filter } : {}),
    ...(splits ? { splits } : {}),
    ...(of.unit === "count" && !of.log ? { incrs: WHOLE } : incrs ? { incrs } : {}),
  };
}

/** A vertical axis at whose foot nothing has its name. */
function named(nothing: string, of: Axis, floor: number): Partial<uPlot.Axis> {
  const { values } = upright(of.unit, of.log);
  const write = values as (u: uPlot, splits: number[]) => string[];
  return {
    splits: (_u, _axis, least, most) => [floor, ...decades(least, most).filter((value) => value > floor * 2)],
    values: (u, splits) => write(u, splits).map((text, i) => (splits[i] === floor ? nothing : text)),
  };
}

/** Stretches, levels and upright lines, below all points. */
function beneath(u: uPlot, plot: Plot): void {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio;
  const colours = theme();
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top - 14 * ratio, bbox.width, bbox.height + 14 * ratio);
  ctx.clip();
  for (const { from, to } of plot.stretches) {
    const left = u.valToPos(from, "x", true);
    const right = Math.max(u.valToPos(to, "x", true), left + 2);
    ctx.fillStyle = colours.window;
    ctx.fillRect(left, bbox.top, right - left, bbox.height);
  }
  ctx.strokeStyle = colours.text;
  ctx.fillStyle = colours.text;
  ctx.lineWidth = ratio;
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  const line = (x0: number, y0: number, x1: number, y1: number) => {
    ctx.beginPath();
    ctx.moveTo(x0, y0);
    ctx.lineTo(x1, y1);
    ctx.stroke();
  };
  const named: number[] = [];
  for (const { at, name } of plot.levels) {
    const y = u.valToPos(at, "y", true);
    if (!(y >= bbox.top && y <= bbox.top + bbox.height)) continue;
    ctx.setLineDash([6 * ratio, 4 * ratio]);
    line(bbox.left, y, bbox.left + bbox.width, y);
    ctx.setLineDash([]);
    ctx.textAlign = "left";
    // Two that are near each other have their names on either side.
    const isBelow = named.some((other) => Math.abs(other - y) < 16 * ratio && other <= y);
    ctx.textBaseline = isBelow ? "top" : "bottom";
    ctx.fillText(name, bbox.left + 4 * ratio, y + (isBelow ? 3 : -2) * ratio);
    named.push(y);
  }
  for (const { at, name } of plot.uprights) {
    const x = u.valToPos(at, "x", true);
    if (!(x >= bbox.left && x <= bbox.left + bbox.width)) continue;
    ctx.setLineDash([2 * ratio, 3 * ratio]);
    line(x, bbox.top, x, bbox.top + bbox.height);
    ctx.setLineDash([]);
    // Above the picture, where no point is; on the side that has the room.
    const room = ctx.measureText(name).width / 2;
    ctx.textAlign = "center";
    ctx.textBaseline = "bottom";
    ctx.fillText(name, Math.min(Math.max(x, bbox.left + room), bbox.left + bbox.width - room), bbox.top - 2 * ratio);
  }
  ctx.restore();
}

function join(u: uPlot, at: number[], values: number[], dash: number[], colour: string): void {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1.6 * ratio;
  ctx.setLineDash(dash.map((length) => length * ratio));
  ctx.beginPath();
  at.forEach((x, i) => ctx.lineTo(u.valToPos(x, "x", true), u.valToPos(values[i] ?? 0, "y", true)));
  ctx.stroke();
  ctx.restore();
}

function mark(u: uPlot, x: number, y: number, shape: Shape, colour: string, isChosen: boolean): void {
  const { ctx } = u;
  const ratio = devicePixelRatio;
  const [left, top] = [u.valToPos(x, "x", true), u.valToPos(y, "y", true)];
  if (!Number.isFinite(left) || !Number.isFinite(top)) return;
  const size = (isChosen ? 5.5 : 4) * ratio;
  ctx.save();
  ctx.setLineDash([]);
  ctx.strokeStyle = colour;
  ctx.lineWidth = (isChosen ? 2.6 : 1.8) * ratio;
  ctx.beginPath();
  if (shape === "cross") {
    ctx.moveTo(left - size, top - size);
    ctx.lineTo(left + size, top + size);
    ctx.moveTo(left + size, top - size);
    ctx.lineTo(left - size, top + size);
  } else if (shape === "triangle") {
    ctx.moveTo(left, top - size);
    ctx.lineTo(left + size, top + size * 0.8);
    ctx.lineTo(left - size, top + size * 0.8);
    ctx.closePath();
  } else ctx.arc(left, top, size, 0, 7);
  if (shape === "cross") ctx.stroke();
  else {
    ctx.fillStyle = shape === "disc" ? colour : theme().ground;
    ctx.fill();
    ctx.stroke();
  }
  if (isChosen) {
    ctx.strokeStyle = theme().text;
    ctx.lineWidth = 1.2 * ratio;
    ctx.beginPath();
    ctx.arc(left, top, size + 4 * ratio, 0, 7);
    ctx.stroke();
  }
  ctx.restore();
}
