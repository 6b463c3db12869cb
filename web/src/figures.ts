// Figures in words, by the rules of the text report (crates/model/src/units.rs, crates/report/src/words.rs);
// tests/figures.json holds both sides to the same.

export type Unit = "per-s" | "ns" | "bytes" | "cpus" | "share" | "count" | "times";

/** So many digits behind the point; what lies in the middle goes to the even one, as in Rust. */
function fixed(value: number, digits: number): string {
  const scaled = value * 10 ** digits;
  const isMiddle = Number.isInteger(value * 2 ** (digits + 1)) && Math.abs(scaled % 1) === 0.5;
  if (!isMiddle) return value.toFixed(digits);
  return (2 * Math.round(scaled / 2) / 10 ** digits).toFixed(digits);
}

function threeFigures(value: number): string {
  const size = Math.abs(value);
  return fixed(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

/** A whole number with its digits in groups: `2,281,234`. */
export function grouped(n: number): string {
  return String(Math.round(n)).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

function figure(value: number): string {
  return Math.abs(value) < 999.5 ? count(value) : (value < 0 ? "-" : "") + grouped(Math.abs(value));
}

/** A count or rate, exact below 10,000: `5,000`, then `12.3k`, `4.56M`. */
export function count(value: number): string {
  const size = Math.abs(value);
  if (size < 999.5) return Number.isInteger(value) ? value.toFixed(0) : threeFigures(value);
  if (size < 9999.5) return figure(value);
  if (size < 1e6) return `${threeFigures(value / 1e3)}k`;
  if (size < 1e9) return `${threeFigures(value / 1e6)}M`;
  return `${threeFigures(value / 1e9)}G`;
}

/** Nanoseconds with the unit that fits: `43.7 ms`. */
export function duration(ns: number): string {
  const size = Math.abs(ns);
  const [value, unit] =
    size < 1e3 ? [ns, "ns"]
    : size < 1e6 ? [ns / 1e3, "µs"]
    : size < 1e9 ? [ns / 1e6, "ms"]
    : size < 120e9 ? [ns / 1e9, "s"]
    : size < 7200e9 ? [ns / 60e9, "min"]
    : [ns / 3600e9, "h"];
  return `${threeFigures(value as number)} ${unit}`;
}

function bytes(value: number): string {
  const size = Math.abs(value);
  if (size < 1024) return `${fixed(value, 0)} B`;
  if (size < 1_048_576) return `${threeFigures(value / 1024)} KiB`;
  if (size < 1_073_741_824) return `${threeFigures(value / 1_048_576)} MiB`;
  return `${threeFigures(value / 1_073_741_824)} GiB`;
}

function percent(share: number): string {
  if (share === 0) return "0 %";
  if (share === 100) return "100 %";
  if (share < 0.01) return "< 0.01 %";
  if (share < 1) return `${fixed(share, 2)} %`;
  if (share > 99.9 && share < 100) return `${Math.min(share, 99.99).toFixed(2)} %`;
  return `${fixed(share, 1)} %`;
}

/** A figure in its unit. */
export function shown(unit: Unit, value: number): string {
  switch (unit) {
    case "per-s": return `${value < 10_000 ? figure(value) : count(value)}/s`;
    case "ns": return value === 0 ? "0" : duration(value);
    case "bytes": return bytes(value);
    case "cpus": return fixed(value, 2);
    case "share": return percent(100 * value);
    case "count": return count(value);
    case "times": return value > 0 && value < 0.01 ? "< 0.01 ×" : `${count(value)} ×`;
  }
}

/** The same with as few digits as it needs, for an axis. */
export function short(unit: Unit, value: number): string {
  if (value === 0) return "0";
  if (unit === "times") return `${Number(value.toPrecision(3))} ×`;
  const text = unit === "cpus" ? String(Number(value.toFixed(3))) : shown(unit, value);
  return text.replace(/^(-?[\d,]+\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
}

/** The same with seven figures: where three would make neighbours of an axis alike. */
export function finer(unit: Unit, value: number): string {
  const exact = (n: number) => String(Number(n.toPrecision(7))).replace(/^\d+/, (whole) => grouped(Number(whole)));
  if (unit === "ns") {
    const [size, name] = value < 1e3 ? [1, "ns"] : value < 1e6 ? [1e3, "µs"] : value < 1e9 ? [1e6, "ms"] : [1e9, "s"];
    return `${exact(value / (size as number))} ${name}`;
  }
  if (unit === "per-s") return `${exact(value)}/s`;
  if (unit === "share") return `${exact(100 * value)} %`;
  return unit === "bytes" ? short(unit, value) : exact(value);
}

/** A moment of the run, to the precision that a length of time needs. */
export function moment(s: number, ofLength: number): string {
  if (ofLength < 120) return `${s.toFixed(ofLength < 10 ? 2 : 1)} s`;
  const whole = Math.floor(s);
  const [h, m, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (n: number) => String(n).padStart(2, "0");
  return h > 0 ? `${h}:${two(m)}:${two(rest)}` : `${m}:${two(rest)} min`;
}
