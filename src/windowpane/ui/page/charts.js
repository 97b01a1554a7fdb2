// Charts of the latest micro-batches, drawn on canvases.

import { canvas, colour, h, setText } from "./dom.js";
import { clock } from "./format.js";

const HEIGHT = 130;

/**
 * A chart with a title and its present value. `series`: [{ name, colour, read(point, before) }], drawn over each other
 * as lines, or on each other as bars if `stacked`. `format` is for values.
 */
export function chart(title, series, { format, stacked = false, figure: named = null }) {
  const paper = canvas(title);
  const value = h("b", named ? { "data-figure": named } : {});
  const keys = series.length > 1
    ? h("p", { class: "legend" }, ...series.map((each) => h("span", { class: "item" }, h("span", { class: "key", "data-colour": each.colour }), each.name)))
    : null;
  const node = h("section", { class: "panel chart" }, h("h2", {}, title, " ", value), h("div", { class: "canvas-frame" }, paper.node), keys);
  return {
    node,
    update(points, present) {
      setText(value, present);
      const rows = points.slice(1).map((point, at) => series.map((each) => each.read(point, points[at])));
      draw(paper.begin(HEIGHT), points.slice(1), rows, series, stacked, format);
    },
  };
}

function draw({ context, width }, points, rows, series, stacked, format) {
  if (points.length < 2) {
    context.fillStyle = colour("quiet");
    context.fillText("After a few micro-batches.", 4, 20);
    return;
  }
  const top = Math.max(...rows.map((row) => (stacked ? row.reduce((a, b) => a + b, 0) : Math.max(...row))), 1e-9);
  const [first, last] = [points[0].clock_us, points.at(-1).clock_us];
  const left = 52;
  const x = (us) => left + ((us - first) / Math.max(last - first, 1)) * (width - left - 6);
  const y = (amount) => HEIGHT - 20 - (amount / top) * (HEIGHT - 34);
  frame(context, width, left, top, format, first, last);
  if (stacked) bars(context, points, rows, series, x, y, width);
  else series.forEach((each, at) => line(context, points, rows.map((row) => row[at]), each, x, y));
}

function frame(context, width, left, top, format, first, last) {
  context.strokeStyle = colour("line");
  context.fillStyle = colour("quiet");
  context.textAlign = "right";
  for (const part of top > 1e-9 ? [0, 0.5, 1] : [0]) {
    const at = Math.round(HEIGHT - 20 - part * (HEIGHT - 34)) + 0.5;
    context.beginPath();
    context.moveTo(left, at);
    context.lineTo(width, at);
    context.stroke();
    context.fillText(format(top * part), left - 6, at);
  }
  context.fillText(clock(last), width - 2, HEIGHT - 7);
  context.textAlign = "left";
  context.fillText(clock(first), left, HEIGHT - 7);
}

function line(context, points, values, { colour: name }, x, y) {
  context.strokeStyle = colour(name);
  context.lineWidth = 1.75;
  context.lineJoin = "round";
  context.beginPath();
  values.forEach((amount, at) => context.lineTo(x(points[at].clock_us), y(amount)));
  context.stroke();
  context.lineWidth = 1;
}

function bars(context, points, rows, series, x, y, width) {
  const wide = Math.max(1, Math.min(14, (width - 60) / points.length - 1));
  series.forEach((each, at) => {
    context.fillStyle = colour(each.colour);
    context.beginPath();
    rows.forEach((row, index) => {
      const below = row.slice(0, at).reduce((a, b) => a + b, 0);
      const [from, to] = [y(below), y(below + row[at])];
      context.rect(x(points[index].clock_us) - wide, to, wide, from - to);
    });
    context.fill();
  });
}
