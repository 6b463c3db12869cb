// Latency by quantile, logarithmic in 1 − q as HdrHistogram's plots are: a tail is a shape.
import uPlot from "uplot";
import { grouped } from "./figures";
import { Legend, logarithmic, said, style, upright } from "./plot";
import { onTheme, theme } from "./theme";
import type { Data, Values } from "./unpack";

/** A quantile by its 1 / (1 − q): `99.9 %`. */
export function quantile(x: number): string {
  if (x <= 1) return "0 %";
  const q = 100 * (1 - 1 / x);
  const digits = Math.max(0, Math.ceil(Math.log10(x)) - 2);
  return `${q.toFixed(Math.min(digits + (Number.isInteger(Math.log10(x)) ? 0 : 1), 8))} %`;
}

export function drawQuantiles(figure: HTMLElement, data: Data): void {
  const place = figure.querySelector<HTMLElement>(".plot");
  const kinds = data.head.quantiles;
  if (!place || kinds.length === 0) return;
  // One axis for all of them: each has points of its own.
  const each = kinds.map((kind) => ({ at: data.whole(kind.at), ns: data.whole(kind.ns) }));
  const all = [...new Set(each.flatMap(({ at }) => at))].sort((a, b) => a - b);
  const columns: Values[] = each.map(({ at, ns }) => {
    const known = new Map(at.map((x, i) => [x, ns[i] ?? 0]));
    return all.map((x) => {
      const value = known.get(x);
      return value != null && value > 0 ? value : null;
    });
  });
  let plain = 0;
  let bad = 0;
  const items = kinds.map((kind) => {
    const role = kind.name === "failed" ? "bad" : kind.name === "lag" ? "asked" : "plain";
    const bound = kind.bound_from == null ? "" : " (≥ where it had not ended)";
    return { name: kind.name + bound, ...style(role, role === "bad" ? bad++ : role === "asked" ? 0 : plain++) };
  });
  const legend = new Legend(figure, items);
  const height = 260;
  const most = all.at(-1) ?? 10;
  const tell = (at: number | null) => {
    const texts = columns.map((values) => said("ns", at == null ? null : before(values, at)));
    const x = at == null ? null : all[at] ?? 1;
    legend.show(x == null ? [] : texts);
    place.setAttribute("aria-valuenow", String(x == null ? 0 : 1 - 1 / x));
    const figures = kinds.map((kind, i) => `${kind.name} ${texts[i]}`).join(", ");
    place.setAttribute("aria-valuetext", x == null ? "no quantile chosen" : `${quantile(x)} (the slowest of ${grouped(x)}): ${figures}`);
  };
  let isMoving = false;
  const plot = new uPlot({
    width: Math.max(place.clientWidth, 200),
    height,
    padding: [8, 28, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
    scales: { x: { time: false, distr: 3, log: 10, range: () => [1, Math.max(most, 10)] }, y: logarithmic() },
    axes: [
      {
        scale: "x",
        size: 26,
        font: "11px system-ui, sans-serif",
        stroke: () => theme().dim,
        grid: { stroke: () => theme().grid, width: 1 },
        ticks: { stroke: () => theme().grid, size: 4 },
        splits: (u) => [1, ...(u.width > 500 ? [2] : []), 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9].filter((x) => x <= Math.max(most, 10)),
        filter: (_u, splits) => splits,
        space: 30,
        values: (_u, splits) => splits.map((x) => (x === 2 ? "50 %" : quantile(x))),
      },
      upright("ns", true),
    ],
    series: [{}, ...items.map((item): uPlot.Series => ({
      scale: "y", stroke: item.colour, dash: item.dash, width: 1.8, spanGaps: true, points: { show: false },
    }))],
    hooks: {
      setCursor: [(u) => {
        if (!isMoving) tell(u.cursor.idx != null && (u.cursor.left ?? -1) >= 0 ? u.cursor.idx : null);
      }],
    },
  }, [all, ...columns] as uPlot.AlignedData, place);
  onTheme(place, () => { legend.paint(); plot.redraw(false); });
  new ResizeObserver(() => {
    if (place.clientWidth > 0 && place.clientWidth !== plot.width) plot.setSize({ width: place.clientWidth, height });
  }).observe(place);
  place.tabIndex = 0;
  place.setAttribute("role", "slider");
  place.setAttribute("aria-label", "Latency by quantile: quantile");
  place.setAttribute("aria-valuemin", "0");
  place.setAttribute("aria-valuemax", "1");
  let now = -1;
  place.addEventListener("keydown", (event) => {
    const steps: Record<string, number> = {
      ArrowRight: now + 1, ArrowUp: now + 1, ArrowLeft: now - 1, ArrowDown: now - 1, Home: 0, End: all.length - 1,
    };
    const to = steps[event.key];
    if (to == null) return;
    event.preventDefault();
    now = Math.min(Math.max(to, 0), all.length - 1);
    isMoving = true;
    plot.setCursor({ left: plot.valToPos(all[now] ?? 1, "x"), top: height / 2 }, true);
    isMoving = false;
    tell(now);
  });
  tell(null);
}

/** The figure at a place, or the last one before it. */
function before(values: Values, at: number): number | null {
  for (let i = at; i >= 0; i--) if (values[i] != null) return values[i] ?? null;
  return null;
}
