// Numbers, times and sizes as people read them.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });

export const count = (value) => whole.format(value);

/** 12.3 k, 4.5 M: where space is short. */
export function short(value) {
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (Math.abs(value) >= size * 10) return `${whole.format(value / size)} ${unit}`;
    if (Math.abs(value) >= size) return `${one.format(value / size)} ${unit}`;
  }
  return Math.abs(value) >= 10 || Number.isInteger(value) ? whole.format(value) : one.format(value);
}

export const rate = (value) => `${short(value)}/s`;

/** 9.61 MB */
export function bytes(value) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (value >= size) return `${one.format(value / size)} ${unit}`;
  }
  return `${whole.format(value)} B`;
}

export const seconds = (value) => (value >= 10 ? `${whole.format(value)} s` : `${value.toFixed(value < 1 ? 2 : 1)} s`);

/** A length of time: 250 ms, 4.2 s, 3 min, 5 h, 2 d. */
export function duration(us) {
  const value = Math.abs(us) / 1e6;
  if (value < 1) return `${whole.format(value * 1000)} ms`;
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (value >= 2 * size) return `${whole.format(Math.floor(value / size))} ${unit}`;
  }
  return value >= 10 ? `${whole.format(value)} s` : `${one.format(value)} s`;
}

/** How far something is behind now. */
export const behind = (us) => (us >= 0 ? `${duration(us)} behind` : `${duration(us)} ahead`);

/** 2024-05-01 12:00:48, with a fraction only if there is one; UTC, as `windowpane status` prints it. */
export function instant(us) {
  const text = new Date(Math.floor(us / 1000)).toISOString().replace("T", " ");
  const fraction = String(((us % 1e6) + 1e6) % 1e6).padStart(6, "0").replace(/0+$/, "");
  return text.slice(0, 19) + (fraction ? `.${fraction}` : "");
}

/** 12:00:48: the time of day alone. */
export const clock = (us) => new Date(Math.floor(us / 1000)).toISOString().slice(11, 19);

/** A share in percent, never 0 % or 100 % for what is not. */
export function share(part, all) {
  if (!all) return "";
  const percent = (100 * part) / all;
  if (part && percent < 0.1) return "< 0.1 %";
  if (part < all && percent > 99.9) return "> 99.9 %";
  return `${one.format(percent)} %`;
}

/** RFC 3339 without what nobody reads: `2024-05-01 12:00:48`. */
export const times = (text) => text.replace(/(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d*[1-9])?\.?0*Z/g, "$1 $2$3");

/** `WINDOW HOPPING (SIZE '1m', SLIDE '10s')` as `hopping, size 1m, slide 10s`. */
export function windowText(clause) {
  const text = clause.replace(/^WINDOW /, "").toLowerCase().replaceAll("'", "");
  return text.replace(/ ?\((.*)\)$/, (_, parts) => (parts ? `, ${parts}` : ""));
}

/** A value of a row: objects as JSON. */
export function value(given) {
  if (given === null || given === undefined) return "NULL";
  return typeof given === "object" ? JSON.stringify(given) : String(given);
}
