// The latest results of a transform, the newest first.

import { empty, h } from "./dom.js";
import { count, times, value } from "./format.js";

export function resultsView(root, name, _rest, _model) {
  let shown = "";
  return {
    update(model) {
      const [rows, total] = [model.recent(name).results ?? [], model.transform(name)?.sums?.rows?.results ?? 0];
      const last = rows.at(-1);
      const key = `${rows.length} ${last?.batch_id} ${total}`;
      if (key === shown) return;
      shown = key;
      root.replaceChildren(rows.length ? table(rows, total, model.plan(name)) : empty(reason(name, total)));
    },
  };
}

function reason(name, total) {
  if (!name) return "No transform has run yet.";
  if (!total) return `${name} has emitted no result yet. Windows emit when the watermark passes their end.`;
  return `${name} has emitted ${count(total)} results, none of which the checkpoint keeps. Its sinks have them.`;
}

function table(rows, total, plan) {
  const columns = [...new Set(rows.flatMap((each) => Object.keys(each.row)))];
  const newest = rows.at(-1).batch_id;
  const head = h("tr", {}, h("th", { text: "batch", class: "number" }), ...columns.map((column) => h("th", { text: column, class: rows.every((each) => typeof each.row[column] === "number") ? "number" : null })));
  const body = rows.toReversed().map((each) =>
    h("tr", { class: each.batch_id === newest ? "new" : null }, h("td", { class: "number quiet", text: count(each.batch_id) }),
      ...columns.map((column) => cell(each.row[column]))),
  );
  return h("section", { class: "panel" },
    h("h2", { text: `The last ${count(rows.length)} of ${count(total)} emitted rows` }),
    h("div", { class: "scroll" }, h("table", { class: "compact" }, h("thead", {}, head), h("tbody", {}, ...body))),
    plan?.sql ? h("details", {}, h("summary", { text: "The query" }), h("pre", { text: plan.sql.trim() })) : null);
}

function cell(given) {
  const kind = typeof given === "number" ? "number" : given === null || given === undefined ? "quiet" : null;
  return h("td", { class: kind, text: times(value(given)) });
}
