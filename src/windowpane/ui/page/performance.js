// How fast a transform is, and where its time goes.

import { chart } from "./charts.js";
import { empty, h, setText } from "./dom.js";
import { bytes, count, duration, rate, seconds, short } from "./format.js";

const WORKERS = {
  source: "reading: files, or rows on their way from the JVM",
  fold: "rows to partial accumulators",
  pack: "by shard, for the shuffle",
  state: "state read and written",
  merge: "partials into state, windows closed",
};

/** Per second, over the time since the micro-batch before. */
const perSecond = (read) => (point, before) => read(point) / Math.max((point.clock_us - before.clock_us) / 1e6, 1e-3);

export function performanceView(root, name, _rest, model) {
  if (!model.transform(name)) {
    root.append(empty(name ? `No micro-batch of ${name} has finished yet.` : "No transform has run yet."));
    return { update() {} };
  }
  const job = (point) => Math.min(point.spent.job ?? 0, point.seconds);
  const sink = (point) => point.spent.sink ?? 0;
  const charts = {
    rows: chart("Rows in per second", [{ name: "in", colour: "main", read: perSecond((point) => point.in) }], { format: short, figure: "rows_per_second" }),
    results: chart("Results per second", [{ name: "results", colour: "good", read: perSecond((point) => point.results) }], { format: short }),
    time: chart("Batch time", [
      { name: "job", colour: "main", read: job },
      { name: "sinks", colour: "good", read: sink },
      { name: "other", colour: "closed", read: (point) => Math.max(0, point.seconds - job(point) - sink(point)) },
    ], { format: (value) => seconds(value), stacked: true, figure: "seconds" }),
    lag: chart("Watermark behind the clock", [{ name: "lag", colour: "watermark", read: (point) => (point.watermark_us === null ? 0 : Math.max(0, (point.clock_us - point.watermark_us) / 1e6)) }], { format: (value) => duration(value * 1e6) }),
    state: chart("State", [{ name: "state", colour: "main", read: (point) => point.state_bytes }], { format: bytes, figure: "state_bytes" }),
    windows: chart("Open windows", [{ name: "open", colour: "open", read: (point) => point.open_windows }], { format: short }),
    unread: chart("Unread input", [
      { name: "files", colour: "main", read: (point) => point.unread.files ?? 0 },
      { name: "messages", colour: "good", read: (point) => point.unread.messages ?? 0 },
    ], { format: short, figure: "unread" }),
    backlog: chart("Backlog: rows waiting for sinks", [{ name: "waiting", colour: "late", read: (point) => point.waiting }], { format: short }),
  };
  const parts = workerTable();
  root.append(h("div", { class: "charts" }, ...Object.values(charts).map((each) => each.node), parts.node));
  return {
    update(now) {
      const [status, points] = [now.transform(name), now.history(name)];
      const last = points.at(-1);
      charts.rows.update(points, rate(status.rows_per_second));
      charts.results.update(points, rate(now.rate(name, (point) => point.results)));
      charts.time.update(points, seconds(status.seconds));
      charts.lag.update(points, status.watermark_lag_us === null ? "no watermark yet" : duration(status.watermark_lag_us));
      charts.state.update(points, bytes(status.state_bytes));
      charts.windows.update(points, count(status.open_windows));
      charts.unread.update(points.filter((point) => point.unread), unread(status.unread ?? {}));
      charts.backlog.update(points, count(last?.waiting ?? 0));
      parts.update(points);
    },
  };
}

/** Input that the pipeline knows of and has not read, because of the limits of its micro-batches. */
function unread(waiting) {
  const parts = Object.entries(waiting).map(([what, many]) => `${count(many)} ${many === 1 ? what.slice(0, -1) : what}`);
  return parts.join(", ") || "none";
}

/** Time of the workers by part, summed over all tasks, of the last micro-batches. */
function workerTable() {
  const rows = Object.fromEntries(Object.keys(WORKERS).map((part) => [part, { bar: h("i"), text: h("td", { class: "number" }) }]));
  const body = Object.entries(WORKERS).map(([part, meaning]) =>
    h("tr", {}, h("th", { scope: "row", text: part }), rows[part].text, h("td", { class: "meter" }, rows[part].bar), h("td", { class: "quiet", text: meaning })),
  );
  const node = h("section", { class: "panel wide" },
    h("h2", { text: "Time of the workers, last 20 micro-batches" }), h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, ...body))));
  return {
    node,
    update(points) {
      const sums = Object.fromEntries(Object.keys(WORKERS).map((part) => [part, points.slice(-20).reduce((sum, point) => sum + (point.spent[part] ?? 0), 0)]));
      const all = Object.values(sums).reduce((a, b) => a + b, 0) || 1;
      for (const [part, { bar, text }] of Object.entries(rows)) {
        setText(text, seconds(sums[part]));
        const width = `${((100 * sums[part]) / all).toFixed(0)}%`;
        if (bar.style.width !== width) bar.style.width = width;
      }
    },
  };
}
