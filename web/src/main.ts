// The report page's script: draws what the page carries. The words and figures are in the page already.
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { drawFlame } from "./flame";
import { library } from "./library";
import { live } from "./live";
import { drawQuantiles } from "./quantiles";
import { drawPlot } from "./scatter";
import { tables } from "./tables";
import { Course } from "./time";
import { type Data, data, inflated } from "./unpack";

function download(): void {
  const place = document.getElementById("download");
  if (!place) return;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Save the JSON";
  button.addEventListener("click", async () => {
    const url = URL.createObjectURL(new Blob([(await inflated("document")) as BlobPart], { type: "application/json" }));
    const link = document.createElement("a");
    link.href = url;
    link.download = document.getElementById("document")?.dataset.name ?? "plimsoll.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  });
  place.append(" ", button);
}

/** What draws each figure that is not drawn yet, in the order of the page. */
function figures(packed: Data, course: Course): { figure: HTMLElement; draw: () => void }[] {
  const all: { figure: HTMLElement; draw: () => void }[] = [];
  for (const figure of document.querySelectorAll<HTMLElement>("figure[data-chart], figure[data-flame], figure[data-plot]")) {
    const { chart, flame, plot, drawn } = figure.dataset;
    if (drawn != null) continue;
    const lines = packed.head.charts.find(({ id }) => id === chart);
    const graph = packed.head.flames.find(({ id }) => id === flame);
    const points = packed.head.plots.find(({ id }) => id === plot);
    if (points) all.push({ figure, draw: () => drawPlot(figure, packed, points) });
    else if (chart === "quantiles") all.push({ figure, draw: () => drawQuantiles(figure, packed) });
    else if (chart === "heat") all.push({ figure, draw: () => course.heat(figure) });
    else if (lines) all.push({ figure, draw: () => course.lines(figure, lines) });
    else if (graph) all.push({ figure, draw: () => drawFlame(figure, packed, graph) });
  }
  return all.map(({ figure, draw }) => ({ figure, draw: () => { figure.dataset.drawn = ""; draw(); } }));
}

async function start(): Promise<void> {
  const root = document.documentElement;
  root.classList.add("scripted");
  if (root.classList.contains("live")) {
    live((packed, course) => figures(packed, course).forEach(({ draw }) => draw()));
    return;
  }
  if (root.classList.contains("library")) {
    library();
    return;
  }
  tables();
  download();
  // Charts that are not on the screen yet are drawn when nothing else is to be done.
  const packed = await data();
  const waiting = figures(packed, new Course(packed));
  const isNear = ({ figure }: { figure: HTMLElement }) => figure.getBoundingClientRect().top < 2 * innerHeight;
  const soon = waiting.filter(isNear);
  const later = waiting.filter((one) => !isNear(one));
  soon.forEach(({ draw }) => draw());
  root.dataset.drawn = "first";
  performance.mark("plimsoll-first");
  const next = () => {
    const one = later.shift();
    if (!one) {
      root.dataset.drawn = "all";
      performance.mark("plimsoll-all");
      return;
    }
    one.draw();
    setTimeout(next);
  };
  next();
  addEventListener("beforeprint", () => {
    while (later.length > 0) later.shift()?.draw();
  });
}

start().catch((error: unknown) => {
  const status = document.getElementById("status");
  if (status) {
    status.className = "alert";
    status.textContent = `The charts could not be drawn: ${String(error)}. A browser of 2023 or newer can; all figures are in the tables.`;
  }
});
