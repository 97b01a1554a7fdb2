// The windows of a transform on a time line, the watermark that closes them, and the partitions that hold it back.

import { canvas, colour, empty, figure, h, setText } from "./dom.js";
import { behind, clock, count, duration, instant, windowText } from "./format.js";

const [CLOSED_SHOWN, LANE, MOST_PARTITIONS] = [150, 20, 100];

export function windowsView(root, name, _rest, model) {
  if (!model.transform(name)) {
    root.append(empty(name ? `No micro-batch of ${name} has finished yet.` : "No transform has run yet."));
    return { update() {} };
  }
  const facts = {
    open: figure("open_windows", "b"), watermark: figure("watermark", "b"), lag: figure("watermark_lag"),
    held: figure("held_by", "b"), closing: h("b"), latest: h("b"),
  };
  const line = timeLine();
  const bars = partitionBars();
  const about = h("p", { class: "quiet" });
  root.append(
    h("section", { class: "panel" },
      h("h2", { text: "Windows" }),
      h("div", { class: "facts" },
        h("span", {}, h("small", { text: "open" }), facts.open),
        h("span", {}, h("small", { text: "closing" }), facts.closing),
        h("span", {}, h("small", { text: "watermark (UTC)" }), facts.watermark, facts.lag),
        h("span", {}, h("small", { text: "latest row" }), facts.latest)),
      line.node, key(), about),
    h("section", { class: "panel" },
      h("h2", { text: "Source partitions" }),
      h("p", {}, "The watermark is held by ", facts.held, "."),
      bars.node),
  );
  return {
    update(now) {
      const status = now.transform(name);
      const found = now.partitions(name) ?? { maxima: {} };
      const plan = now.plan(name) ?? {};
      const windows = allWindows(now.recent(name), status.watermark_us);
      setText(facts.open, count(status.open_windows));
      setText(facts.closing, count(windows.filter((each) => each.state === "closing").length));
      setText(facts.watermark, status.watermark_us === null ? "none yet" : instant(status.watermark_us).slice(0, 19));
      setText(facts.lag, status.watermark_lag_us === null ? "" : behind(status.watermark_lag_us));
      setText(facts.latest, found.latest_us ? instant(found.latest_us).slice(0, 19) : "none yet");
      setText(facts.held, status.held_by ?? "nothing");
      setText(about, words(plan, windows.length, status.open_windows));
      line.draw(windows, status.watermark_us, found.latest_us, plan.lateness_us?.[0] ?? 0);
      bars.draw(found, plan.lag_us?.[0] ?? 0);
    },
  };
}

function words(plan, shown, open) {
  const lateness = plan.lateness_us?.[0] ? ` Each window waits ${duration(plan.lateness_us[0])} after its end for late rows.` : "";
  const lag = plan.lag_us?.[0] ? ` The watermark is ${duration(plan.lag_us[0])} behind the slowest partition.` : "";
  const none = shown || !open ? "" : " Windows of single groups (sessions, triggers) are counted, and not drawn.";
  const kind = plan.window ? windowText(plan.window) : "no window";
  return `${kind[0].toUpperCase()}${kind.slice(1)}.${lag}${lateness}${none}`;
}

/** Open windows and the last closed ones, with their states. `runs`: [start, end, step, count]. */
export function allWindows(recent, watermark) {
  const open = (recent.windows ?? []).flatMap(([start, end, step, times]) =>
    Array.from({ length: times }, (_, at) => ({ start: start + at * step, end: end + at * step })),
  );
  for (const each of open) each.state = watermark !== null && watermark >= each.end ? "closing" : "open";
  const closed = (recent.closed ?? []).slice(-CLOSED_SHOWN).map(([start, end]) => ({ start, end, state: "closed" }));
  return [...closed, ...open].sort((a, b) => a.start - b.start || a.end - b.end);
}

/** Windows in as few lanes as possible: each goes to the first lane whose last window has ended. */
export function lanes(windows) {
  const ends = [];
  for (const each of windows) {
    let lane = ends.findIndex((end) => end <= each.start);
    if (lane < 0) lane = ends.length;
    ends[lane] = each.end;
    each.lane = lane;
  }
  return ends.length;
}

function timeLine() {
  const paper = canvas("Windows on a time line", "time-line");
  const tip = h("div", { class: "tip", hidden: true });
  const node = h("div", { class: "canvas-frame" }, paper.node, tip);
  let boxes = [];
  const leave = () => (tip.hidden = true);
  paper.node.addEventListener("pointerleave", leave);
  paper.node.addEventListener("pointermove", (event) => {
    const hit = boxes.find((box) => event.offsetX >= box.x && event.offsetX <= box.x + box.w && event.offsetY >= box.y && event.offsetY <= box.y + box.h);
    if (!hit) return leave();
    tip.hidden = false;
    setText(tip, `${instant(hit.start)} to ${clock(hit.end)}: ${hit.state}`);
    tip.style.left = `${Math.min(event.offsetX + 12, paper.node.clientWidth - tip.offsetWidth - 4)}px`;
    tip.style.top = `${event.offsetY + 14}px`;
  });
  return {
    node,
    draw(windows, watermark, latest, lateness) {
      const used = lanes(windows) || 1;
      const tall = Math.max(3, Math.min(LANE, Math.floor(300 / used)));
      const height = 46 + used * tall;
      const { context, width } = paper.begin(height);
      const moments = [...windows.flatMap((each) => [each.start, each.end]), ...[watermark, latest].filter((us) => us)];
      if (!moments.length) {
        context.fillStyle = colour("quiet");
        context.fillText("No window with rows yet.", 4, 30);
        return;
      }
      // Not Math.min(...moments): thousands of arguments are slow.
      const first = moments.reduce((a, b) => Math.min(a, b));
      const last = Math.max(moments.reduce((a, b) => Math.max(a, b)), first + 1e6);
      const x = (us) => 4 + ((us - first) / (last - first)) * (width - 8);
      boxes = windows.map((each) => ({ ...each, x: x(each.start), y: 22 + each.lane * tall, w: Math.max(1.5, x(each.end) - x(each.start) - 1), h: Math.max(2, tall - 2) }));
      for (const state of ["closed", "closing", "open"]) {
        context.fillStyle = colour(state);
        context.beginPath();
        for (const box of boxes) if (box.state === state) context.rect(box.x, box.y, box.w, box.h);
        context.fill();
      }
      axis(context, first, last, x, width, height);
      markers(context, height, width, watermark && x(watermark), latest && x(latest));
    },
  };
}

const STEPS = [0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400, 7 * 86400, 30 * 86400].map((s) => s * 1e6);

export function axis(context, first, last, x, width, height) {
  const step = STEPS.find((each) => (last - first) / each <= width / 90) ?? (last - first) / 4;
  context.strokeStyle = colour("line");
  context.fillStyle = colour("quiet");
  context.textAlign = "center";
  for (let us = Math.ceil(first / step) * step; us <= last; us += step) {
    const at = Math.round(x(us)) + 0.5;
    context.beginPath();
    context.moveTo(at, height - 18);
    context.lineTo(at, height - 14);
    context.stroke();
    if (at > 28 && at < width - 28) context.fillText(step >= 86400e6 ? instant(us).slice(5, 10) : clock(us), at, height - 7);
  }
  context.textAlign = "left";
}

/** The lines of the watermark and of the latest row. Their texts stand on both sides, and do not meet. */
function markers(context, height, width, watermark, latest) {
  const [first, second] = ["watermark", "latest row"];
  const wide = (text) => context.measureText(text).width;
  const right = Math.min((latest ?? width) + 4, width - wide(second) - 2);
  if (latest) marker(context, latest, height, "latest", second, right);
  if (watermark) marker(context, watermark, height, "watermark", first, Math.max(2, Math.min(watermark - wide(first) - 4, right - wide(first) - 10)));
}

function marker(context, x, height, name, text, at) {
  context.strokeStyle = colour(name);
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(x, 16);
  context.lineTo(x, height - 18);
  context.stroke();
  context.lineWidth = 1;
  context.fillStyle = colour(name);
  context.fillText(text, at, 8);
}

function key() {
  return h("p", { class: "legend" },
    ...["open", "closing", "closed"].map((state) => h("span", { class: "item" }, h("span", { class: `key ${state}` }), state)));
}

/** How far each partition is: the one that holds the watermark first. */
function partitionBars() {
  const paper = canvas("Source partitions", "partitions");
  const node = h("div", { class: "canvas-frame" }, paper.node);
  return {
    node,
    draw(found, lag) {
      const all = Object.entries(found.maxima).sort((a, b) => a[1] - b[1] || (a[0] < b[0] ? -1 : 1));
      const shown = all.slice(0, MOST_PARTITIONS);
      const { context, width } = paper.begin(Math.max(1, shown.length) * 20 + (all.length > shown.length ? 20 : 0));
      if (!all.length) return context.fillText("No row yet.", 4, 10);
      const [first, last] = [all[0][1], all.at(-1)[1]];
      const room = Math.min(170, width * 0.34);
      const full = width - room - 4;
      const span = Math.max(last - first, 1);
      const scale = (us) => (last === first ? 1 : 0.35 + (0.65 * (us - first)) / span);
      shown.forEach(([partition, us], at) => {
        const y = at * 20;
        context.fillStyle = partition === found.held_by ? colour("holds") : colour("bar");
        context.fillRect(room, y + 3, Math.max(2, full * scale(us)), 14);
        context.fillStyle = colour("text");
        context.fillText(fitted(context, partition, room - 10), 0, y + 10);
        const text = us === last ? clock(us) : `${clock(us)}, ${duration(last - us)} behind`;
        beside(context, text, room, full * scale(us), full, y + 10);
      });
      context.fillStyle = colour("quiet");
      if (all.length > shown.length) context.fillText(`and ${count(all.length - shown.length)} more, further on`, 0, shown.length * 20 + 10);
      return undefined;
    },
  };
}

/** A text in its bar, or behind it if there is more room. */
function beside(context, text, from, bar, full, y) {
  const inside = context.measureText(text).width <= bar - 12 || bar > full - bar;
  context.fillStyle = inside ? colour("on-bar") : colour("text");
  context.fillText(fitted(context, text, (inside ? bar : full - bar) - 10), from + (inside ? 6 : bar + 6), y);
}

function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let cut = text;
  while (cut && context.measureText(`${cut}…`).width > width) cut = cut.slice(0, -1);
  return cut ? `${cut}…` : "";
}
