// Colours of what is drawn: those of the style, read again when the page turns dark, light or to paper.

export interface Theme {
  text: string;
  dim: string;
  grid: string;
  ground: string;
  good: string;
  warn: string;
  bad: string;
  asked: string;
  lines: string[];
  window: string;
  warmup: string;
  pause: string;
  heat: [string, string];
}

export function theme(): Theme {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    text: of("text"),
    dim: of("dim"),
    grid: of("grid"),
    ground: of("ground"),
    good: of("good"),
    warn: of("warn"),
    bad: of("bad"),
    asked: of("dim"),
    lines: [1, 2, 3, 4, 5, 6, 7, 8].map((n) => of(`line${n}`)),
    window: of("window"),
    warmup: of("warmup"),
    pause: of("pause"),
    heat: [of("heat-low"), of("heat-high")],
  };
}

/** Calls back when colours have changed, until what it gives back is called. */
export function onTheme(changed: () => void): () => void {
  const queries = ["(prefers-color-scheme: dark)", "print"].map((query) => matchMedia(query));
  queries.forEach((query) => query.addEventListener("change", changed));
  return () => queries.forEach((query) => query.removeEventListener("change", changed));
}
