// Charts over the time of the run: one axis, one cursor, one choice of stretches for all of them.
import uPlot from "uplot";
import { duration, grouped, moment } from "./figures";
import { Legend, fromZero, logarithmic, mark, said, seconds, shade, style, upright } from "./plot";
import { drawStacks, toStacks } from "./stacks";
import { onTheme, theme } from "./theme";
import type { Chart, Data, Span, Values } from "./unpack";

export interface Stretch { from: number; to: number }

interface Drawn {
  plot: uPlot;
  figure: HTMLElement;
  /** Takes up what is shown now; false: that cannot be shown in the same lines. */
  refresh: () => boolean;
  legend: Legend | null;
  times: number[];
  texts: (at: number | null) => string[];
  names: string[];
  means: (stretch: Stretch) => string[];
}

/** All charts over time. */
export class Course {
  private drawn: Drawn[] = [];
  private stretches: Stretch[] = [];
  private zoomed: Stretch | null = null;
  private isMoving = false;
  private now: number | null = null;

  constructor(private data: Data) {
    onTheme(document.body, () => this.drawn.forEach(({ plot, legend }) => { legend?.paint(); plot.redraw(false); }));
  }

  /** Of a run that goes on: shows what it has come to. Charts whose lines are others now are taken away, to be drawn anew. */
  update(data: Data): void {
    this.data = data;
    this.drawn = this.drawn.filter((drawn) => {
      const { plot, figure, legend } = drawn;
      if (figure.isConnected && drawn.refresh()) {
        figure.querySelector(".plot")?.setAttribute("aria-valuemax", data.head.end_s.toFixed(3));
        this.tell(drawn, this.now);
        return true;
      }
      plot.destroy();
      legend?.remove();
      delete figure.dataset.drawn;
      return false;
    });
    if (this.stretches.length > 0 && !document.getElementById("selection")?.contains(document.activeElement)) this.panel();
  }

  /** Whether a stretch is being chosen with the mouse just now. */
  isBusy(): boolean {
    return this.drawn.some(({ plot }) => plot.select.width > 0);
  }

  /** Draws a chart of lines into its figure. */
  lines(figure: HTMLElement, chart: Chart): void {
    let times = this.data.whole(chart.times);
    let columns = chart.lines.map((line) => this.data.column(line.column));
    let plain = 0;
    let bad = 0;
    const styles = chart.lines.map(({ role }) => style(role, role === "bad" ? bad++ : role === "asked" ? 0 : plain++));
    const items = chart.lines.map((line, i) => ({ name: line.name, colour: styles[i]!.colour, dash: styles[i]!.dash }));
    const legend = new Legend(figure, items);
    const drawable = () => (chart.log ? columns.map((values) => values.map((v) => (v != null && v > 0 ? v : null))) : columns);
    const options: Partial<uPlot.Options> = {
      scales: { y: chart.log ? logarithmic() : fromZero(chart.unit) },
      axes: [seconds(() => this.length()), upright(chart.unit, chart.log)],
      series: [{}, ...items.map((item): uPlot.Series => ({
        label: item.name,
        scale: "y",
        stroke: item.colour,
        width: 1.6,
        dash: item.dash,
        points: { size: 4 },
      }))],
    };
    let silences = stretches(chart);
    const texts = (at: number | null) => columns.map((values) => said(chart.unit, at == null ? null : values[at]));
    const means = (stretch: Stretch) => columns.map((values) => said(chart.unit, mean(times, values, stretch)));
    const names = items.map((item) => item.name);
    const refresh = () => {
      const now = this.data.head.charts.find(({ id }) => id === chart.id);
      const isSame = now?.lines.length === names.length && now.lines.every((line, i) => line.name === names[i] && line.role === chart.lines[i]?.role);
      if (!now || !isSame) return false;
      times = this.data.whole(now.times);
      columns = now.lines.map((line) => this.data.column(line.column));
      silences = stretches(now);
      drawn.times = times;
      drawn.plot.setData([times, ...drawable()] as uPlot.AlignedData);
      return true;
    };
    const drawn = this.draw(figure, options, [times, ...drawable()], { legend, times, texts, means, names, refresh }, false, 150, () => silences);
  }

  /** Draws the map of response times. */
  heat(figure: HTMLElement): void {
    let map = read(this.data);
    if (!map) return;
    let { edge, from, to, lengths, places, counts, requests, starts, least, most, densest, times } = map;
    /** Quantile, and how many there are, of some columns of the map. */
    const of = (first: number, last: number, quantile: number): [number, number] => {
      const sums = new Map<number, number>();
      let all = 0;
      for (let i = first; i <= last; i++) {
        const start = starts[i] ?? 0;
        for (let k = start; k < start + (lengths[i] ?? 0); k++) {
          const count = counts[k] ?? 0;
          sums.set(places[k] ?? 0, (sums.get(places[k] ?? 0) ?? 0) + count);
          all += count;
        }
      }
      let seen = 0;
      for (const place of [...sums.keys()].sort((a, b) => a - b)) {
        seen += sums.get(place) ?? 0;
        if (seen >= quantile * all) return [edge(place + 0.5), all];
      }
      return [0, 0];
    };
    const row = (first: number, last: number): string[] => {
      const [p50, all] = of(first, last, 0.5);
      const [p99] = of(first, last, 0.99);
      return all === 0 ? ["0", "–", "–"] : [grouped(all), `≈ ${duration(p50)}`, `≈ ${duration(p99)}`];
    };
    const names = ["requests that ended well", "half of them within", "99 % of them within"];
    const legend = new Legend(figure, names.map((name) => ({ name, colour: () => "transparent", dash: [] })));
    const paint = (u: uPlot) => {
      const { ctx, bbox } = u;
      const ratio = devicePixelRatio;
      const colours = theme();
      const [pale, deep] = colours.heat.map(rgb) as [number[], number[]];
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      // A column is of a whole interval; where nothing was answered in a part of it, none of it belongs there.
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      for (const { from_s, to_s, kind } of this.data.head.spans) {
        if (kind !== "pause") continue;
        const left = u.valToPos(from_s, "x", true);
        ctx.rect(left, bbox.top, u.valToPos(to_s, "x", true) - left, bbox.height);
      }
      ctx.clip("evenodd");
      for (let i = 0; i < lengths.length; i++) {
        const x0 = u.valToPos(from[i] ?? 0, "x", true);
        const x1 = u.valToPos(to[i] ?? 0, "x", true);
        if (x1 < bbox.left || x0 > bbox.left + bbox.width) continue;
        const seconds = Math.max((to[i] ?? 0) - (from[i] ?? 0), 1e-3);
        const start = starts[i] ?? 0;
        for (let k = start; k < start + (lengths[i] ?? 0); k++) {
          const place = places[k] ?? 0;
          const share = Math.log1p((counts[k] ?? 0) / seconds) / Math.log1p(densest);
          const mixed = pale.map((from, c) => Math.round(from + ((deep[c] ?? 0) - from) * share));
          ctx.fillStyle = `rgb(${mixed.join(" ")})`;
          const y0 = u.valToPos(edge(place + 1), "y", true);
          const y1 = u.valToPos(edge(place), "y", true);
          ctx.fillRect(Math.floor(x0), Math.floor(y0), Math.max(Math.ceil(x1) - Math.floor(x0), 1), Math.max(Math.ceil(y1) - Math.floor(y0), 1));
        }
      }
      ctx.restore();
      if (requests) {
        for (let i = 0; i < requests.ended.length; i++) {
          const x = u.valToPos((requests.ended[i] ?? 0) / 1e6, "x", true);
          if (x < bbox.left || x > bbox.left + bbox.width) continue;
          const y = u.valToPos(Math.max((requests.response[i] ?? 0) * 1e3, least), "y", true);
          const what = requests.what[i];
          ctx.lineWidth = 1.2 * ratio;
          ctx.beginPath();
          if (what === 2) {
            ctx.strokeStyle = colours.bad;
            ctx.moveTo(x - 3 * ratio, y - 3 * ratio);
            ctx.lineTo(x + 3 * ratio, y + 3 * ratio);
            ctx.moveTo(x + 3 * ratio, y - 3 * ratio);
            ctx.lineTo(x - 3 * ratio, y + 3 * ratio);
            ctx.stroke();
          } else if (what === 1) {
            ctx.strokeStyle = colours.text;
            ctx.arc(x, y, 2.6 * ratio, 0, 7);
            ctx.stroke();
          } else {
            ctx.fillStyle = colours.text;
            ctx.globalAlpha = 0.4;
            ctx.arc(x, y, 0.9 * ratio, 0, 7);
            ctx.fill();
            ctx.globalAlpha = 1;
          }
        }
      }
      ctx.restore();
    };
    const options: Partial<uPlot.Options> = {
      scales: { y: { distr: 3, log: 10, range: () => [least / 1.1, most * 1.2] } },
      axes: [seconds(() => this.length()), upright("ns", true)],
      series: [{}, { scale: "y", show: true, stroke: "transparent", points: { show: false } }],
      hooks: { drawAxes: [paint] },
    };
    const within = (stretch: Stretch) => {
      const first = times.findIndex((s) => s >= stretch.from);
      let last = -1;
      times.forEach((s, i) => { if (s <= stretch.to) last = i; });
      return first >= 0 && last >= first ? row(first, last) : ["0", "–", "–"];
    };
    const texts = (at: number | null) => (at == null ? ["", "", ""] : row(at, at));
    const refresh = () => {
      map = read(this.data);
      if (!map) return false;
      ({ edge, from, to, lengths, places, counts, requests, starts, least, most, densest, times } = map);
      drawn.times = times;
      drawn.plot.setData([times, times.map(() => least)]);
      return true;
    };
    const drawn = this.draw(figure, options, [times, times.map(() => least)], { legend, times, texts, means: within, names, refresh }, true, 240);
  }

  private length(): number {
    return this.zoomed ? this.zoomed.to - this.zoomed.from : this.data.head.end_s;
  }

  private draw(
    figure: HTMLElement,
    options: Partial<uPlot.Options>,
    columns: Values[],
    about: Omit<Drawn, "plot" | "figure">,
    named: boolean,
    height: number,
    silences: () => Span[] = () => [],
  ): Drawn {
    const place = figure.querySelector<HTMLElement>(".plot") ?? figure;
    const plot = new uPlot({
      ...options,
      width: Math.max(place.clientWidth, 200),
      height,
      padding: [8, 28, 0, 0],
      legend: { show: false },
      scales: { x: { time: false, range: () => [this.zoomed?.from ?? 0, this.zoomed?.to ?? this.data.head.end_s] }, ...options.scales },
      cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { size: 7 } },
      series: options.series ?? [],
      hooks: {
        drawClear: [(u) => shade(u, [...this.data.head.spans, ...silences()])],
        drawAxes: options.hooks?.drawAxes ?? [],
        draw: [(u) => mark(u, this.data.head.marks, named), (u) => this.drawStretches(u)],
        setCursor: [(u) => this.moved(u)],
        setSelect: [(u) => this.selected(u)],
      },
    }, columns as uPlot.AlignedData, place);
    const drawn = { plot, figure, ...about };
    this.drawn.push(drawn);
    this.keys(place, drawn);
    new ResizeObserver(() => {
      if (place.clientWidth > 0 && place.clientWidth !== plot.width) plot.setSize({ width: place.clientWidth, height });
    }).observe(place);
    this.tell(drawn, this.now);
    return drawn;
  }

  /** The cursor of one chart moved: that of all others follows. */
  private moved(source: uPlot): void {
    if (this.isMoving) return;
    const left = source.cursor.left ?? -1;
    this.at(left < 0 ? null : source.posToVal(left, "x"), source);
  }

  /** Puts the cursor of all charts at a moment of the run. */
  private at(s: number | null, source: uPlot | null): void {
    this.now = s;
    this.isMoving = true;
    for (const drawn of this.drawn) {
      const { plot } = drawn;
      if (plot !== source) {
        const left = s == null ? -10 : plot.valToPos(s, "x");
        plot.setCursor({ left, top: plot.bbox.height / devicePixelRatio / 2 }, true);
      }
      this.tell(drawn, s);
    }
    this.isMoving = false;
  }

  private tell({ plot, figure, legend, times, texts, names }: Drawn, s: number | null): void {
    const at = s == null ? null : nearest(times, s);
    const said = texts(at);
    legend?.show(at == null ? [] : said);
    const place = figure.querySelector<HTMLElement>(".plot");
    if (!place) return;
    const moment_s = at == null ? 0 : (times[at] ?? 0);
    place.setAttribute("aria-valuenow", moment_s.toFixed(3));
    const figures = names.map((name, i) => `${name} ${said[i] ?? "–"}`).join(", ");
    place.setAttribute("aria-valuetext", at == null ? "no moment chosen" : `${moment(moment_s, this.length())}: ${figures}`);
    // For the tests: what the cursor is at.
    place.dataset.moment = at == null ? "" : (plot.cursor.left ?? -1).toFixed(1);
  }

  private keys(place: HTMLElement, drawn: Drawn): void {
    place.tabIndex = 0;
    place.setAttribute("role", "slider");
    const title = drawn.figure.querySelector("h3")?.textContent ?? "";
    place.setAttribute("aria-label", `${title}: moment of the run`);
    place.setAttribute("aria-valuemin", "0");
    place.setAttribute("aria-valuemax", this.data.head.end_s.toFixed(3));
    place.addEventListener("keydown", (event) => {
      const { times } = drawn;
      const now = this.now == null ? -1 : nearest(times, this.now) ?? -1;
      const steps: Record<string, number> = {
        ArrowRight: now + 1, ArrowUp: now + 1, ArrowLeft: now - 1, ArrowDown: now - 1,
        PageDown: now + 10, PageUp: now - 10, Home: 0, End: times.length - 1,
      };
      if (event.key === "Escape") {
        this.choose([]);
        this.at(null, null);
        return;
      }
      const to = steps[event.key];
      if (to == null || times.length === 0) return;
      event.preventDefault();
      const s = times[Math.min(Math.max(to, 0), times.length - 1)] ?? 0;
      if (event.shiftKey) {
        // With Ctrl the second one, beside the first.
        const first = event.ctrlKey || event.metaKey ? this.stretches[0] : undefined;
        const growing = this.stretches[first ? 1 : 0];
        const start = growing ? (this.now != null && Math.abs(this.now - growing.to) < 1e-9 ? growing.from : growing.to) : this.now ?? s;
        const stretch = { from: Math.min(start, s), to: Math.max(start, s) };
        this.choose(first ? [first, stretch] : [stretch]);
      }
      this.at(s, null);
    });
  }

  private selected(u: uPlot): void {
    const { left, width } = u.select;
    if (width < 3) return;
    const stretch = { from: u.posToVal(left, "x"), to: u.posToVal(left + width, "x") };
    u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    const event = u.cursor.event as MouseEvent | undefined;
    const [first] = this.stretches;
    this.choose(event && (event.ctrlKey || event.metaKey) && first ? [first, stretch] : [stretch]);
  }

  private choose(stretches: Stretch[]): void {
    this.stretches = stretches;
    this.drawn.forEach(({ plot }) => plot.redraw(false));
    this.panel();
  }

  private zoom(stretch: Stretch | null): void {
    this.zoomed = stretch;
    this.drawn.forEach(({ plot }) => plot.setScale("x", { min: stretch?.from ?? 0, max: stretch?.to ?? this.data.head.end_s }));
  }

  private drawStretches(u: uPlot): void {
    const { ctx, bbox } = u;
    const colours = theme();
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    this.stretches.forEach((stretch, i) => {
      const from = u.valToPos(stretch.from, "x", true);
      const to = u.valToPos(stretch.to, "x", true);
      ctx.strokeStyle = colours.text;
      ctx.lineWidth = 1.5 * devicePixelRatio;
      ctx.strokeRect(from, bbox.top, to - from, bbox.height);
      ctx.fillStyle = colours.text;
      ctx.font = `bold ${12 * devicePixelRatio}px system-ui, sans-serif`;
      ctx.fillText(i === 0 ? "A" : "B", from + 4 * devicePixelRatio, bbox.top + 14 * devicePixelRatio);
    });
    ctx.restore();
  }

  /** What was so in the stretches that are chosen. */
  private panel(): void {
    const place = document.getElementById("selection");
    if (!place) return;
    place.replaceChildren();
    const name = (stretch: Stretch) => `${moment(stretch.from, this.length())} to ${moment(stretch.to, this.length())}`;
    drawStacks(this.data, this.stretches, name);
    const [a, b] = this.stretches;
    if (!a) return;
    const table = document.createElement("table");
    const caption = table.createCaption();
    caption.textContent = b ? "Means of two stretches" : "Means of a stretch";
    const head = table.createTHead().insertRow();
    for (const text of ["", `A: ${name(a)}`, ...(b ? [`B: ${name(b)}`] : [])]) {
      const cell = document.createElement(text ? "th" : "td");
      if (text) cell.setAttribute("scope", "col");
      cell.textContent = text;
      head.append(cell);
    }
    const body = table.createTBody();
    for (const { figure, names, means } of this.drawn) {
      const title = figure.querySelector("h3")?.textContent ?? "";
      const [ofA, ofB] = [means(a), b ? means(b) : []];
      names.forEach((line, i) => {
        const row = body.insertRow();
        const cell = document.createElement("th");
        cell.setAttribute("scope", "row");
        cell.textContent = `${title}: ${line}`;
        row.append(cell);
        for (const text of [ofA[i], ...(b ? [ofB[i]] : [])]) {
          const figure = row.insertCell();
          figure.className = "figure";
          figure.textContent = text ?? "–";
        }
      });
    }
    const buttons = document.createElement("p");
    const button = (text: string, run: () => void) => {
      const made = document.createElement("button");
      made.type = "button";
      made.textContent = text;
      made.addEventListener("click", run);
      buttons.append(made, " ");
    };
    button(b ? "Flame graphs of both" : "Flame graphs", toStacks);
    button("Zoom to A", () => this.zoom(a));
    button("Whole run", () => this.zoom(null));
    button("Clear", () => { this.zoom(null); this.choose([]); });
    const scroll = document.createElement("div");
    scroll.className = "scroll";
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "group");
    scroll.setAttribute("aria-label", "Figures of the chosen stretches");
    scroll.append(table);
    place.append(buttons, scroll);
  }
}

/** Stretches that are shaded in one chart alone. */
function stretches(chart: Chart): Span[] {
  return chart.silences.map(([from_s, to_s]): Span => ({ from_s, to_s, kind: "pause" }));
}

/** The map of response times; null where there is none. */
function read(data: Data) {
  const { head } = data;
  if (!head.heat) return null;
  const { heat } = head;
  const from = data.whole(heat.from).map((ns) => ns / 1e9);
  const to = data.whole(heat.to).map((ns) => ns / 1e9);
  const lengths = data.whole(heat.lengths);
  const places = data.whole(heat.places);
  const counts = data.whole(heat.counts);
  const requests = head.requests && {
    ended: data.whole(head.requests.ended_us),
    response: data.whole(head.requests.response_us),
    what: data.whole(head.requests.what),
  };
  const starts: number[] = [];
  lengths.reduce((sum, length) => { starts.push(sum); return sum + length; }, 0);
  const edge = (place: number) => 10 ** (place / heat.cells);
  let low = Infinity;
  let high = 0;
  for (const place of places) { low = Math.min(low, place); high = Math.max(high, place); }
  const longest = requests ? requests.response.reduce((most, us) => Math.max(most, us * 1000), 0) : 0;
  // Before anything has ended there is no lowest.
  const least = Number.isFinite(low) ? Math.max(edge(low), 1) : 1e5;
  const most = Math.max(edge(high + 1), longest, least * 10);
  let densest = 0;
  lengths.forEach((length, i) => {
    const seconds = Math.max((to[i] ?? 0) - (from[i] ?? 0), 1e-3);
    for (let k = starts[i] ?? 0; k < (starts[i] ?? 0) + length; k++) densest = Math.max(densest, (counts[k] ?? 0) / seconds);
  });
  const times = from.map((start, i) => (start + (to[i] ?? start)) / 2);
  return { edge, from, to, lengths, places, counts, requests, starts, least, most, densest, times };
}

/** The place of the time that is nearest. */
export function nearest(times: number[], s: number): number | null {
  if (times.length === 0) return null;
  let low = 0;
  let high = times.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((times[middle] ?? 0) <= s) low = middle; else high = middle;
  }
  return Math.abs((times[low] ?? 0) - s) <= Math.abs((times[high] ?? 0) - s) ? low : high;
}

function mean(times: number[], values: Values, stretch: Stretch): number | null {
  let sum = 0;
  let count = 0;
  for (let i = 0; i < times.length; i++) {
    const [s, value] = [times[i] ?? 0, values[i]];
    if (value != null && s >= stretch.from && s <= stretch.to) { sum += value; count++; }
  }
  return count > 0 ? sum / count : null;
}

function rgb(hex: string): number[] {
  const n = Number.parseInt(hex.replace("#", ""), 16);
  return [(n >> 16) & 255, (n >> 8) & 255, n & 255];
}
