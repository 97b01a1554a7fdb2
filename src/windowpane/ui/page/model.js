// What the page knows: the document of the server, kept up to date by its stream of changes.

const KEPT = 300;

export class Model {
  constructor() {
    this.document = null;
  }

  whole(document) {
    this.document = document;
  }

  change(found) {
    for (const [key, value] of Object.entries(found)) {
      if (key === "history") this.#append(value);
      else if (["plans", "partitions", "recent"].includes(key)) Object.assign(this.document[key], value);
      else this.document[key] = value;
    }
  }

  #append(history) {
    for (const [name, points] of Object.entries(history)) {
      this.document.history[name] = [...(this.document.history[name] ?? []), ...points].slice(-KEPT);
    }
  }

  get status() {
    return this.document?.status ?? null;
  }

  /** All transforms, those that have no micro-batch yet too. */
  get names() {
    return [...new Set([...Object.keys(this.document?.plans ?? {}), ...Object.keys(this.status?.transforms ?? {})])].sort();
  }

  transform(name) {
    return this.status?.transforms[name] ?? null;
  }

  plan(name) {
    return this.document?.plans[name] ?? null;
  }

  history(name) {
    return this.document?.history[name] ?? [];
  }

  partitions(name) {
    return this.document?.partitions[name] ?? null;
  }

  recent(name) {
    return this.document?.recent[name] ?? {};
  }

  /** Rows of a kind per second, over the micro-batches of the last ten seconds. */
  rate(name, read) {
    const points = this.history(name);
    const last = points.at(-1);
    if (points.length < 2 || this.transform(name)?.rows_per_second === 0) return 0;
    let first = points.length - 2;
    while (first > 0 && last.clock_us - points[first].clock_us < 10e6) first -= 1;
    const rows = points.slice(first + 1).reduce((sum, point) => sum + read(point), 0);
    return rows / Math.max((last.clock_us - points[first].clock_us) / 1e6, 1e-3);
  }
}

/** The places where a row can end, in the order of the accounting identity, with their meaning. */
export const OUTCOMES = {
  aggregated: "in a result or an open window",
  filtered: "excluded by WHERE",
  late: "arrived after all their windows had closed",
  error: "could not be read or computed",
  duplicate: "repeat a dedupe key",
  evicted: "their group exceeds max_groups",
  unmatched: "found no partner in a join",
  no_window: "belong to no window",
  buffered: "buffered until the watermark passes",
};

/** `adds up: 13 = 10 + 1 + 1 + 1`, as `windowpane status` prints it. */
export function proof(totals, count) {
  const counts = Object.keys(OUTCOMES).map((kind) => totals[kind] ?? 0);
  const terms = counts.filter((each) => each).map(count).join(" + ") || "0";
  const made = totals.made ?? 0;
  const first = made ? `${count(totals.in - made)} read + ${count(made)} made = ` : "";
  const adds = counts.reduce((sum, each) => sum + each, 0) === totals.in;
  return { adds, text: `${adds ? "adds up" : "DOES NOT ADD UP"}: ${first}${count(totals.in)} = ${terms}` };
}
