// The latest rows that did not reach a result, with their reasons, the newest first.

import { href } from "./address.js";
import { empty, h } from "./dom.js";
import { count, duration, times, value } from "./format.js";

const KINDS = ["late", "error", "duplicate", "evicted", "unmatched"];

export function sideView(root, name, [only = ""], _model) {
  let shown = "";
  return {
    update(model) {
      const [records, status] = [model.recent(name).side ?? [], model.transform(name)];
      const counts = status?.totals ?? {};
      const key = JSON.stringify([records.length, records.at(-1), KINDS.map((kind) => counts[kind])]);
      if (key === shown) return;
      shown = key;
      const kept = only ? records.filter((each) => each.kind === only) : records;
      root.replaceChildren(
        chips(name, only, counts),
        kept.length ? h("div", { class: "records" }, ...kept.toReversed().map(record)) : empty(reason(name, only, status)),
      );
    },
  };
}

function chips(name, only, counts) {
  const all = KINDS.reduce((sum, kind) => sum + (counts[kind] ?? 0), 0);
  const link = (kind, text, number) =>
    h("a", { class: `chip ${kind}`, href: href("side", name, kind), ...(kind === only ? { "aria-current": "true" } : {}) }, text, " ", h("b", { text: count(number), "data-figure": kind ? `side ${kind}` : null }));
  return h("p", { class: "chips" }, link("", "all", all), ...KINDS.filter((kind) => counts[kind]).map((kind) => link(kind, kind, counts[kind])));
}

function reason(name, only, status) {
  const rows = only ? `${only} rows` : "side rows";
  const total = KINDS.filter((kind) => !only || kind === only).reduce((sum, kind) => sum + (status?.totals[kind] ?? 0), 0);
  if (!total) return `${name || "The pipeline"} has no ${rows} so far.`;
  return `${count(total)} ${rows} were counted, and not kept: side_output routes them to metrics_only. A sink for them in pipeline.toml keeps them.`;
}

function record(each) {
  const missed = each.kind === "late" && each.event_time && each.watermark ? Date.parse(each.watermark) - Date.parse(each.event_time) : null;
  const facts = {
    "event time": each.event_time,
    watermark: each.watermark,
    "behind the watermark": missed === null ? null : duration(missed * 1000),
    window: each.window ? `${each.window.start} to ${each.window.end}` : null,
    group: each.group_key ? value(each.group_key) : null,
    "read again": each.reinjections ? `${each.reinjections} times` : null,
    detail: each.error_detail,
    partition: each.shard,
  };
  return h("article", { class: `panel record ${each.kind}` },
    h("h3", {}, h("span", { class: `tag ${each.kind}`, text: each.kind }), h("span", { text: String(each.reason).replaceAll("_", " ") }), h("time", { class: "quiet", text: times(each.processing_time ?? "") })),
    h("dl", {}, ...Object.entries(facts).filter(([, text]) => text !== null && text !== undefined).flatMap(([term, text]) => [h("dt", { text: term }), h("dd", { text: times(String(text)) })])),
    each.original_event ? h("pre", { text: value(each.original_event) }) : null);
}
