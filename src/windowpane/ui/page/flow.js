// Where every row of a transform went: a flow from what was read to the places where rows end.

import { href } from "./address.js";
import { empty, figure, h, setClass, setText, svg } from "./dom.js";
import { count, rate, share } from "./format.js";
import { OUTCOMES, proof } from "./model.js";

const [HEIGHT, LINE, LEAST] = [380, 48, 4];
const SIDE = ["late", "error", "duplicate", "evicted", "unmatched"];

export function flowView(root, name, _rest, model) {
  if (!model.transform(name)) {
    root.append(empty(name ? `No micro-batch of ${name} has finished yet.` : "No transform has run yet."));
    return { update() {} };
  }
  const read = figure("totals.in", "b");
  const made = h("span", { class: "quiet" });
  const speed = h("span", { class: "quiet" });
  const drawing = svg("svg", { class: "flow", viewBox: `0 0 100 ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  const labels = h("div", { class: "flow-labels" });
  const proven = h("p", { class: "proof" }, figure("proof"));
  const places = Object.fromEntries(Object.entries(OUTCOMES).map(([kind, meaning]) => [kind, place(kind, meaning, name)]));
  for (const each of Object.values(places)) {
    drawing.append(each.band);
    labels.append(each.label);
  }
  const source = svg("rect", { class: "source", x: 0, width: 1.2, y: 0 });
  drawing.append(source);
  const last = h("p", { class: "quiet" });
  const stages = h("div", { class: "stages" });
  root.append(
    h("section", { class: "panel" },
      h("h2", { text: "Where every row went" }),
      h("div", { class: "flow-frame" },
        h("div", { class: "flow-source" }, h("small", { text: "read" }), read, made, speed),
        h("div", { class: "flow-bands" }, drawing), labels),
      proven, last),
    stages,
  );
  return {
    update(now) {
      const status = now.transform(name);
      const { totals, accounting } = status;
      setText(read, count(totals.in));
      setText(made, totals.made ? `of which ${count(totals.made)} made by explode or join` : "");
      setText(speed, rate(status.rows_per_second));
      layout(totals, places, source);
      for (const [kind, each] of Object.entries(places)) each.update(totals[kind] ?? 0, totals.in, accounting[kind] ?? 0, status);
      const found = proof(totals, count);
      setText(proven.firstChild, found.text);
      setClass(proven, `proof ${found.adds ? "adds" : "broken"}`);
      setText(last, `Micro-batch ${count(status.batch_id)}: ${count(status.rows)} rows in, ${count(status.results)} results, ${status.seconds.toFixed(1)} s.`);
      showStages(stages, status.stages ?? {});
    },
  };
}

/** One place where rows end: its band in the flow, and its label. */
function place(kind, meaning, transform) {
  const [number, part, to] = [figure(`totals.${kind}`, "b"), h("span", { class: "share" }), h("span", { class: "quiet" })];
  const title = SIDE.includes(kind) ? h("a", { href: href("side", transform, kind), text: kind.replace("_", " ") }) : h("span", { text: kind.replace("_", " ") });
  const label = h("div", { class: `outcome ${kind}` }, h("span", { class: "dot" }), h("span", { class: "what" }, title, number, part), to);
  const band = svg("path", { class: `band ${kind}` });
  return {
    band,
    label,
    update(total, all, now, status) {
      setText(number, count(total));
      setText(part, share(total, all));
      const route = status.routes?.[kind];
      const lost = status.sums?.dropped?.[kind];
      const where = route && total ? (route === "metrics_only" ? ", counted only" : `, to ${route}`) : "";
      const change = now && kind !== "buffered" ? ` · +${count(now)} in the last batch` : "";
      setText(to, `${meaning}${where}${lost ? `, ${count(lost)} dropped by a limit` : ""}${change}`);
    },
  };
}

/** Heights follow the numbers, but no place with rows vanishes. Each band ends at its label, which needs a line's room. */
function layout(totals, places, source) {
  const kinds = Object.keys(places).filter((kind) => totals[kind]);
  for (const [kind, each] of Object.entries(places)) {
    each.label.hidden = !totals[kind];
    each.band.setAttribute("visibility", totals[kind] ? "visible" : "hidden");
  }
  const sum = kinds.reduce((all, kind) => all + totals[kind], 0) || 1;
  const room = HEIGHT - LINE * Math.max(0, kinds.length - 1);
  const heights = kinds.map((kind) => Math.max(LEAST, (room * totals[kind]) / sum));
  const slots = heights.map((height) => Math.max(height, LINE));
  const tall = heights.reduce((a, b) => a + b, 0);
  let left = (HEIGHT - tall) / 2;
  let right = (HEIGHT - slots.reduce((a, b) => a + b, 0)) / 2;
  source.setAttribute("y", left);
  source.setAttribute("height", tall);
  for (const [at, kind] of kinds.entries()) {
    const [height, middle] = [heights[at], right + slots[at] / 2];
    const [top, bottom] = [middle - height / 2, middle + height / 2];
    places[kind].band.setAttribute("d", `M 1.2 ${left} C 50 ${left} 50 ${top} 100 ${top} L 100 ${bottom} C 50 ${bottom} 50 ${left + height} 1.2 ${left + height} Z`);
    places[kind].label.style.top = `${middle}px`;
    left += height;
    right += slots[at];
  }
}

/** The accounts of windows over the results of others. */
function showStages(root, stages) {
  const texts = Object.entries(stages).map(([name, each]) => [name, proof(each.totals, count).text]);
  const key = JSON.stringify(texts);
  if (root.dataset.key === key) return;
  root.dataset.key = key;
  const rows = texts.map(([name, text]) => h("p", { class: "proof adds" }, h("b", { text: name }), " ", text));
  root.replaceChildren(...(rows.length ? [h("section", { class: "panel" }, h("h2", { text: "Windows over results" }), ...rows)] : []));
}
