// What the page carries, unpacked by the browser itself: base64, zlib (RFC 1950), then columns of differences in varints.
// See crates/report/src/html/pack.rs for the other side.
import type { Unit } from "./figures.js";

export interface Line { name: string; role: "plain" | "asked" | "bad"; column: number }
export interface Chart { id: string; unit: Unit; log: boolean; times: number; silences: [number, number][]; lines: Line[] }
export interface Heat { cells: number; from: number; to: number; lengths: number; places: number; counts: number }
export interface Mark { s: number; kind: string; text: string }
export interface Span { from_s: number; to_s: number; kind: "window" | "warmup" | "drain" | "pause" | "disruption" }
export interface Quantiles { name: string; at: number; ns: number; bound_from: number | null }
export interface Flame { id: string; unit: string; names: string[]; parents: number; of_names: number; counts: number; periods: Periods | null }
export interface Periods {
  from_s: number;
  to_s: number;
  counted_s: number;
  lengths: number;
  nodes: number;
  counts: number;
  merged: number;
  since_s: number | null;
  left_out: number;
}
export interface Axis { name: string; unit: Unit; log: boolean; from_zero: boolean }
export interface Series {
  name: string;
  shape: "none" | "disc" | "ring" | "cross" | "triangle";
  line: "none" | "whole" | "dashed";
  tone: "first" | "second" | "good" | "warn" | "bad" | "dim";
  computed: boolean;
  x: number;
  y: number;
  notes: string[];
}
export interface Plot {
  id: string;
  x: Axis;
  y: Axis;
  height: number;
  nothing: string | null;
  series: Series[];
  stretches: { from: number; to: number; name: string }[];
  levels: { at: number; name: string }[];
  uprights: { at: number; name: string }[];
}
interface ColumnHead { scale: number; values: number; bytes: number }

interface Head {
  columns: ColumnHead[];
  intervals: number;
  snapshots: number;
  end_s: number;
  charts: Chart[];
  heat: Heat | null;
  requests: { ended_us: number; response_us: number; what: number } | null;
  quantiles: Quantiles[];
  flames: Flame[];
  plots: Plot[];
  marks: Mark[];
  spans: Span[];
}

export type Values = (number | null)[];

export class Data {
  private readonly known = new Map<number, Values>();
  private readonly starts: number[] = [];

  constructor(readonly head: Head, private readonly body: Uint8Array) {
    let at = 0;
    for (const column of head.columns) {
      this.starts.push(at);
      at += column.bytes;
    }
  }

  /** A column's values; what is absent is null. */
  column(place: number): Values {
    let values = this.known.get(place);
    if (!values) {
      values = this.read(place);
      this.known.set(place, values);
    }
    return values;
  }

  /** The same of a column in which all is there. */
  whole(place: number): number[] {
    return this.column(place) as number[];
  }

  private read(place: number): Values {
    const head = this.head.columns[place];
    if (!head) return [];
    const values: Values = new Array(head.values);
    let at = this.starts[place] ?? 0;
    let before = 0;
    for (let i = 0; i < head.values; i++) {
      let coded = 0;
      let times = 1;
      for (;;) {
        const byte = this.body[at++] ?? 0;
        coded += (byte & 127) * times;
        if (byte < 128) break;
        times *= 128;
      }
      if (coded === 0) {
        values[i] = null;
        continue;
      }
      const zigzag = coded - 1;
      before += zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2;
      values[i] = before / head.scale;
    }
    return values;
  }
}

/** The text of an element of the page, inflated. */
export async function inflated(id: string): Promise<Uint8Array> {
  return inflate(document.getElementById(id)?.textContent ?? "");
}

async function inflate(text: string): Promise<Uint8Array> {
  const packed = atob(text);
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** What is drawn. */
export async function data(): Promise<Data> {
  return unpacked(document.getElementById("data")?.textContent ?? "");
}

/** The same of a text. */
export async function unpacked(text: string): Promise<Data> {
  const all = await inflate(text);
  const length = new DataView(all.buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(all.subarray(4, 4 + length))) as Head;
  return new Data(head, all.subarray(4 + length));
}
