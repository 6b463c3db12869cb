// The page of a run that goes on. Each frame is the whole page as it would be if the run ended now: words take the place of
// those before, charts take up their new points. What was opened, chosen or is being read stays as it is. When the run has
// ended the report takes the page's place.
import { moment } from "./figures";
import { tables } from "./tables";
import { Course } from "./time";
import { type Data, unpacked } from "./unpack";

interface Frame { elapsed_s: number; planned_s: number | null; label: string; body: string; data: string }

/** What an element was made of, before the script added to it. */
const sources = new WeakMap<Element, string>();
const DRAWN = "figure[data-chart], figure[data-flame], figure[data-plot]";

export function live(draw: (packed: Data, course: Course) => void): void {
  const page = document.getElementById("page");
  if (!page) return;
  let course: Course | null = null;
  let isOver = false;
  let isFilling = false;
  let next: Frame | null = null;

  const fill = async (frame: Frame): Promise<void> => {
    progress(frame);
    const packed = await unpacked(frame.data);
    const fresh = new DOMParser().parseFromString(frame.body, "text/html").body;
    const isFirst = !course;
    if (isFirst) page.replaceChildren();
    reconcile(page, fresh);
    if (course) course.update(packed); else course = new Course(packed);
    draw(packed, course);
    document.documentElement.dataset.frames = String(1 + Number(document.documentElement.dataset.frames ?? 0));
    if (isFirst && location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  };
  /** The newest frame, once the one before is in its place and nobody drags over a chart. */
  const soon = async (): Promise<void> => {
    if (isFilling) return;
    isFilling = true;
    try {
      while (next && !isOver) {
        if (course?.isBusy()) {
          await new Promise((done) => setTimeout(done, 100));
          continue;
        }
        const frame = next;
        next = null;
        await fill(frame);
      }
    } catch (error) {
      say("lost", `The page could not be filled: ${String(error)}. A browser of 2023 or newer can.`);
    } finally {
      isFilling = false;
    }
  };

  const events = new EventSource("/events");
  events.addEventListener("waiting", () => say("waiting", "Waiting for the first reading"));
  events.addEventListener("frame", (event) => {
    say("running", "Running");
    next = JSON.parse(event.data as string) as Frame;
    void soon();
  });
  events.addEventListener("ended", () => {
    isOver = true;
    events.close();
    say("ended", "The run has ended; here comes its report");
    location.replace("/");
  });
  events.addEventListener("error", () => {
    if (!isOver) say("lost", "plimsoll cannot be reached. What was shown last stands below; the recording, if one was kept, has all: plimsoll runs");
  });
  orders();
}

/** Says how it is: only what changed, as it is read out. */
function say(state: string, text: string): void {
  const place = document.getElementById("live");
  const words = document.getElementById("live-state");
  if (place) place.dataset.state = state;
  if (words && words.textContent !== text) words.textContent = text;
}

function progress({ elapsed_s, planned_s, label }: Frame): void {
  const time = document.getElementById("live-time");
  const bar = document.getElementById("live-progress") as HTMLProgressElement | null;
  const length = planned_s ?? elapsed_s;
  const of = planned_s == null ? "" : ` of ${moment(planned_s, length)}`;
  if (time) time.textContent = `${label ? `${label}: ` : ""}${moment(elapsed_s, length)}${of}`;
  if (!bar) return;
  bar.hidden = planned_s == null;
  bar.value = planned_s ? Math.min(elapsed_s / planned_s, 1) : 0;
}

/** What may be ordered, where the page has buttons for it. */
function orders(): void {
  const said = document.getElementById("order-said");
  const send = async (order: unknown, done: string): Promise<void> => {
    try {
      const answer = await fetch("/order", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(order) });
      const words = await answer.text();
      if (said) said.textContent = answer.ok ? done : words;
    } catch (error) {
      if (said) said.textContent = `The order did not arrive: ${String(error)}`;
    }
  };
  const stop = document.getElementById("order-stop");
  let isAsked = false;
  stop?.addEventListener("click", () => {
    if (isAsked) {
      void send("stop", "The run is told to end.");
      return;
    }
    // Asked twice: it cannot be taken back.
    isAsked = true;
    stop.textContent = "Really end the run";
    setTimeout(() => { isAsked = false; stop.textContent = "End the run"; }, 5000);
  });
  const rate = document.getElementById("order-rate") as HTMLInputElement | null;
  document.getElementById("order-rate-set")?.addEventListener("click", () => {
    if (!rate?.reportValidity()) return;
    void send({ "rate-factor": rate.valueAsNumber / 100 }, `The rate is told to be ${rate.value} % of what was planned.`);
  });
}

/** Makes `old` say what `fresh` says; what stays the same stays in its place. */
function reconcile(old: Element, fresh: Element): void {
  let at: Element | null = old.firstElementChild;
  for (const wanted of [...fresh.children]) {
    const here = found(at, wanted);
    if (!here) {
      const added = made(wanted);
      old.insertBefore(added, at);
      tables(wrapped(added));
      continue;
    }
    // What stood before it is there no more.
    while (at && at !== here) {
      const gone: Element = at;
      at = at.nextElementSibling;
      gone.remove();
    }
    at = here.nextElementSibling;
    renew(here, wanted);
  }
  while (at) {
    const gone: Element = at;
    at = at.nextElementSibling;
    gone.remove();
  }
}

/** Of the elements from one on, the one that is the same as another: by its id, else the first of its kind if that is next. */
function found(from: Element | null, wanted: Element): Element | null {
  if (!wanted.id) return from && !from.id && from.tagName === wanted.tagName ? from : null;
  for (let one = from; one; one = one.nextElementSibling) if (one.id === wanted.id) return one;
  return null;
}

function made(fresh: Element): Element {
  const element = document.importNode(fresh, true);
  note(element, fresh);
  return element;
}

/** Notes what an element and all within it were made of. */
function note(element: Element, fresh: Element): void {
  sources.set(element, fresh.outerHTML);
  [...fresh.children].forEach((child, i) => { const own = element.children[i]; if (own) note(own, child); });
}

/** What `tables` looks through: an element and what is in it. */
function wrapped(element: Element): ParentNode {
  return { querySelectorAll: (selector: string) => [...(element.matches(selector) ? [element] : []), ...element.querySelectorAll(selector)] } as unknown as ParentNode;
}

function renew(here: Element, wanted: Element): void {
  if (sources.get(here) === wanted.outerHTML || here.id === "selection") return;
  if (here.matches(DRAWN)) {
    // What is drawn takes up its points by itself; its title may be another, and its figures are.
    for (const part of ["figcaption", "details"]) {
      const [own, other] = [here.querySelector(`:scope > ${part}`), wanted.querySelector(`:scope > ${part}`)];
      if (own && other) renew(own, other);
    }
    sources.set(here, wanted.outerHTML);
    if (here.matches("[data-flame], [data-plot], [data-chart=quantiles]")) clear(here);
    return;
  }
  const isWithin = here.id === "page" || ["MAIN", "SECTION"].includes(here.tagName) || here.querySelector(DRAWN);
  if (isWithin) {
    reconcile(here, wanted);
    sources.set(here, wanted.outerHTML);
    return;
  }
  if (isInUse(here)) return;
  const renewed = made(wanted);
  const open = [...here.querySelectorAll("details"), ...(here instanceof HTMLDetailsElement ? [here] : [])].filter((one) => one.open).map(named);
  const all = [...renewed.querySelectorAll("details"), ...(renewed instanceof HTMLDetailsElement ? [renewed] : [])];
  all.forEach((one) => { one.open ||= open.includes(named(one)); });
  here.replaceWith(renewed);
  tables(wrapped(renewed));
}

/** A drawing that is made whole each time is taken away, to be drawn anew. */
function clear(figure: Element): void {
  if (!(figure instanceof HTMLElement) || isInUse(figure)) return;
  // A new one: what listened to the old one goes with it.
  const plot = figure.querySelector(".plot");
  plot?.replaceWith(plot.cloneNode(false));
  figure.querySelectorAll(":scope > ul.legend").forEach((legend) => legend.remove());
  delete figure.dataset.drawn;
}

/** Whether somebody is at it: by the keyboard, or by a text that he has chosen. */
function isInUse(element: Element): boolean {
  const chosen = getSelection();
  return element.contains(document.activeElement) || (chosen != null && !chosen.isCollapsed && chosen.containsNode(element, true));
}

/** What a part that can be opened is called, whatever it counts. */
function named(details: HTMLDetailsElement): string {
  return (details.querySelector("summary")?.textContent ?? "").replace(/[\d,.]+/g, "#");
}
