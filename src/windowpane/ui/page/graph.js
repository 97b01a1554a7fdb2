// The pipeline as a graph: streams, transforms and sinks, with rates on the edges.

import { href } from "./address.js";
import { figure, h, setClass, setText, svg } from "./dom.js";
import { behind, count, duration, instant, rate, windowText } from "./format.js";

const NOWHERE = ["metrics_only", "reinject"];

export function graphView(root, _transform, _rest, model) {
  const { columns, edges } = structure(model);
  const nodes = new Map();
  const drawing = svg("svg", { class: "edges", "aria-hidden": "true" });
  const grid = h("div", { class: "columns" });
  for (const column of columns) {
    const cell = h("div", { class: "column" });
    for (const [id, node] of column) {
      nodes.set(id, node);
      cell.append(node.card);
    }
    grid.append(cell);
  }
  for (const edge of edges) {
    edge.path = svg("path", { class: `edge ${edge.kind}` });
    edge.label = svg("text", { class: `rate ${edge.kind}`, "text-anchor": "middle", "data-figure": edge.figure });
    drawing.append(edge.path, edge.label);
  }
  root.append(h("div", { class: "graph-frame" }, drawing, grid), legend());
  let size = "";
  return {
    update(now, forced = false) {
      for (const node of nodes.values()) node.update(now);
      for (const edge of edges) setText(edge.label, edge.rate ? `${rate(edge.rate(now))}${edge.more ?? ""}` : "");
      const current = `${grid.clientWidth} ${grid.clientHeight}`;
      if (forced || current !== size) place(grid, drawing, edges, nodes);
      size = current;
    },
  };
}

/** Nodes by column, and the edges between them. */
function structure(model) {
  const [streams, transforms, sinks] = [new Map(), new Map(), new Map()];
  const edges = [];
  for (const name of model.names) {
    const plan = model.plan(name) ?? {};
    const status = model.transform(name) ?? {};
    transforms.set(`transform ${name}`, transformNode(name));
    const several = (plan.streams ?? []).length > 1; // the rate is known of all streams together
    for (const [at, stream] of (plan.streams ?? []).entries()) {
      if (!streams.has(`stream ${stream}`)) streams.set(`stream ${stream}`, streamNode(stream, name));
      edges.push({
        from: `stream ${stream}`, to: `transform ${name}`, kind: "main", figure: `rate ${stream} ${name}`,
        rate: at ? null : (now) => now.transform(name)?.rows_per_second ?? 0, more: several ? " in all" : "",
      });
    }
    for (const read of plan.reads ?? []) {
      edges.push({ from: `transform ${read}`, to: `transform ${name}`, kind: "query" });
    }
    const results = Object.keys(status.sinks ?? {});
    for (const sink of results.length ? results : (plan.sinks ?? [])) {
      if (!sinks.has(`sink ${sink}`)) sinks.set(`sink ${sink}`, sinkNode(sink));
      edges.push({
        from: `transform ${name}`, to: `sink ${sink}`, kind: "main", figure: `rate ${name} ${sink}`,
        rate: (now) => now.rate(name, (point) => point.results),
      });
    }
    for (const sink of new Set(Object.values(status.routes ?? {}))) {
      if (NOWHERE.includes(sink)) continue;
      if (!sinks.has(`sink ${sink}`)) sinks.set(`sink ${sink}`, sinkNode(sink));
      edges.push({
        from: `transform ${name}`, to: `sink ${sink}`, kind: "side", figure: `side rate ${name} ${sink}`,
        rate: (now) => now.rate(name, (point) => point.side),
      });
    }
  }
  return { columns: [streams, transforms, sinks], edges };
}

function streamNode(name, reader) {
  const [parts, latest] = [h("span"), h("span")];
  const card = h("div", { class: "node stream" }, h("small", { text: "stream" }), h("b", { text: name }), parts, latest);
  return {
    card,
    update(model) {
      const found = model.partitions(reader);
      const own = Object.entries(found?.maxima ?? {}).filter(([partition]) => partition.split("/")[0] === name);
      setText(parts, own.length ? `${count(own.length)} source partition${own.length > 1 ? "s" : ""}` : "no rows yet");
      setText(latest, own.length ? `up to ${instant(Math.max(...own.map(([, us]) => us))).slice(0, 19)}` : "");
    },
  };
}

function transformNode(name) {
  const [rows, windows, watermark] = [figure(`graph ${name} in`), figure(`graph ${name} open_windows`), h("span")];
  const text = h("span", { class: "quiet" });
  const card = h("a", { class: "node transform", href: href("flow", name) },
    h("small", { text: "transform" }), h("b", { text: name }), text, rows, windows, watermark);
  return {
    card,
    update(model) {
      const status = model.transform(name);
      setText(text, model.plan(name)?.window ? windowText(model.plan(name).window) : "no window");
      setText(rows, status ? `${count(status.totals.in)} rows` : "no micro-batch yet");
      setText(windows, status ? `${count(status.open_windows)} open window${status.open_windows === 1 ? "" : "s"}` : "");
      const held = status?.held_by ? `, held by ${status.held_by}` : "";
      setText(watermark, status?.watermark_lag_us === null || !status ? "" : `watermark ${behind(status.watermark_lag_us)}${held}`);
    },
  };
}

function sinkNode(name) {
  const [state, more] = [h("span"), h("span", { class: "quiet" })];
  const card = h("div", { class: "node sink" }, h("small", { text: "sink" }), h("b", { text: name }), state, more);
  return {
    card,
    update(model) {
      const all = model.names.map((each) => model.transform(each) ?? {});
      const results = all.map((each) => each.sinks?.[name]).filter((each) => each);
      const side = all.map((each) => each.side_sinks?.[name]).filter((each) => each);
      const away = [...results, ...side].find((each) => !each.up);
      const waiting = results.reduce((sum, each) => sum + each.waiting_rows, 0) + side.reduce((sum, each) => sum + each.waiting, 0);
      setClass(card, `node sink${away ? " away" : ""}`);
      setText(state, away ? `away: ${away.error ?? "no answer"}` : waiting ? `${count(waiting)} rows waiting` : "up");
      const since = results.map((each) => each.waiting_since_us).filter((us) => us);
      const delivered = side.reduce((sum, each) => sum + each.delivered, 0);
      if (since.length) setText(more, `since ${duration(Date.now() * 1000 - Math.min(...since))}`);
      else setText(more, side.length ? `${count(delivered)} side rows` : "");
    },
  };
}

/** Put the edges between the cards: to the right, or downwards where the columns are below each other. */
function place(grid, drawing, edges, nodes) {
  const frame = drawing.parentElement.getBoundingClientRect();
  drawing.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
  const downwards = getComputedStyle(grid).flexDirection === "column";
  const taken = new Map();
  for (const edge of edges) {
    const [from, to] = [edge.from, edge.to].map((id) => nodes.get(id)?.card.getBoundingClientRect());
    if (!from || !to) continue;
    const same = taken.get(`${edge.from} ${edge.to}`) ?? 0;
    taken.set(`${edge.from} ${edge.to}`, same + 1);
    const [a, b] = ends(from, to, frame, downwards, same * 22);
    const middle = { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
    const curve = downwards
      ? `C ${a.x} ${middle.y} ${b.x} ${middle.y} ${b.x} ${b.y}`
      : `C ${middle.x} ${a.y} ${middle.x} ${b.y} ${b.x} ${b.y}`;
    edge.path.setAttribute("d", `M ${a.x} ${a.y} ${curve}`);
    const [x, y] = pointOn(a, b, along(edge, downwards), downwards);
    edge.label.setAttribute("x", x);
    edge.label.setAttribute("y", y - 5);
  }
}

function ends(from, to, frame, downwards, shift) {
  const centre = (box) => ({ x: box.left + box.width / 2 - frame.left + (downwards ? shift : 0), y: box.top + box.height / 2 - frame.top + (downwards ? 0 : shift) });
  const [a, b] = [centre(from), centre(to)];
  if (downwards) return [{ x: a.x, y: from.bottom - frame.top }, { x: b.x, y: to.top - frame.top }];
  if (from.left === to.left) return [{ x: from.right - frame.left, y: a.y }, { x: to.right - frame.left, y: b.y }];
  return [{ x: from.right - frame.left, y: a.y }, { x: to.left - frame.left, y: b.y }];
}

/** How far along an edge its label is: so that the labels of edges that cross or fan out do not meet. */
function along(edge, downwards) {
  if (edge.kind === "side") return downwards ? 0.82 : 0.66;
  if (edge.from.startsWith("stream")) return downwards ? 0.55 : 0.72;
  return downwards ? 0.4 : 0.55;
}

/** A point of the curve from a to b. */
function pointOn(a, b, t, downwards) {
  const s = 1 - t;
  const at = (p0, p1, p2, p3) => s ** 3 * p0 + 3 * s * s * t * p1 + 3 * s * t * t * p2 + t ** 3 * p3;
  const straight = (p, q) => at(p, (p + q) / 2, (p + q) / 2, q);
  const bent = (p, q) => at(p, p, q, q);
  return downwards ? [bent(a.x, b.x), straight(a.y, b.y)] : [straight(a.x, b.x), bent(a.y, b.y)];
}

function legend() {
  return h("p", { class: "legend" },
    h("span", { class: "item" }, h("span", { class: "key main" }), "rows and results"),
    h("span", { class: "item" }, h("span", { class: "key side" }), "side rows: late, error, duplicate …"),
    h("span", { class: "quiet", text: "Rates are averages of the last ten seconds." }));
}
