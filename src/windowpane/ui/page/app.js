// The frame of the page: the stream of changes, the addresses of the views, the header and the buttons.

import { address, href } from "./address.js";
import { h, setClass, setText } from "./dom.js";
import { duration, instant } from "./format.js";
import { Model } from "./model.js";
import { eventsView } from "./events.js";
import { flowView } from "./flow.js";
import { graphView } from "./graph.js";
import { performanceView } from "./performance.js";
import { resultsView } from "./results.js";
import { sideView } from "./side.js";
import { windowsView } from "./windows.js";

/** Each view: its title, whether it is about one transform, and the function that builds it. */
const VIEWS = {
  graph: ["Graph", false, graphView],
  flow: ["Rows", true, flowView],
  windows: ["Windows", true, windowsView],
  performance: ["Performance", true, performanceView],
  results: ["Results", true, resultsView],
  side: ["Side rows", true, sideView],
  events: ["Events", false, eventsView],
};
const STALE_SECONDS = 30;

const model = new Model();
const at = (id) => document.getElementById(id);
let shown = null; // the view that is on the screen, with its address
let connected = false;

function show() {
  if (!model.document) return;
  const wanted = address(location.hash);
  if (!VIEWS[wanted.view]) wanted.view = "graph";
  const names = model.names;
  const [, perTransform, build] = VIEWS[wanted.view];
  const transform = names.includes(wanted.transform) ? wanted.transform : (names[0] ?? "");
  const ran = Object.keys(model.status?.transforms ?? {}); // a view may show more once a transform has run
  const key = JSON.stringify([wanted.view, perTransform ? transform : "", wanted.rest, names, ran]);
  if (shown?.key !== key) {
    const root = h("div", { class: `view ${wanted.view}` });
    at("view").replaceChildren(root);
    shown = { key, view: build(root, transform, wanted.rest, model) };
    showLinks(wanted.view, transform, perTransform);
    document.title = `${pipelineName()} · ${VIEWS[wanted.view][0]}`;
  }
  shown.view.update(model);
}

function showLinks(view, transform, perTransform) {
  const current = (is) => (is ? { "aria-current": "page" } : {});
  at("views").replaceChildren(
    ...Object.entries(VIEWS).map(([name, [title, needs]]) =>
      h("a", { href: href(name, needs ? transform : ""), text: title, ...current(name === view) }),
    ),
  );
  const several = perTransform && model.names.length > 1;
  at("transforms").hidden = !several;
  at("transforms").replaceChildren(
    ...(several ? model.names : []).map((name) => h("a", { href: href(view, name), text: name, ...current(name === transform) })),
  );
}

function pipelineName() {
  const file = model.status?.file;
  const parts = (file ?? model.status?.checkpoint ?? "windowpane").split("/").filter((part) => part);
  return (parts.length > 1 ? parts.at(-2) : parts[0]).replace(/\.toml$/, "");
}

/** The state in a word, and what to add to it. */
function stateOf(status) {
  if (!status) return ["starting", "waiting for the first status"];
  const age = Date.now() * 1000 - status.updated_us;
  if (!status.running) {
    const ended = ["starting", "running", "draining"].includes(status.state);
    if (ended) return ["gone", `process ${status.pid} ended unexpectedly; windowpane run resumes from here`];
    return [status.state, `at ${instant(status.updated_us).slice(0, 19)}`];
  }
  if (age > STALE_SECONDS * 1e6) return ["silent", `has not reported for ${duration(age)}`];
  return [status.state, `since ${instant(status.started_us).slice(0, 19)} UTC`];
}

function showHeader() {
  const [state, more] = stateOf(model.status);
  setText(at("state"), state);
  setClass(at("state"), `pill ${state}`);
  setText(at("since"), more);
  setText(at("name"), pipelineName());
  for (const id of ["stop", "drain"]) at(id).disabled = !model.status?.running || model.status.state === "draining";
  const problems = [...(model.document?.problems ?? [])];
  if (model.status?.error) problems.unshift(model.status.error.message);
  if (!connected) problems.unshift("The connection to windowpane is lost. These figures are the last ones; trying again …");
  at("notice").hidden = !problems.length;
  setText(at("notice"), problems.join(" · "));
}

function refresh() {
  showHeader();
  if (!document.hidden) show();
}

function connect() {
  const stream = new EventSource("api/stream");
  stream.addEventListener("whole", (event) => {
    connected = true;
    model.whole(JSON.parse(event.data));
    shown = null;
    refresh();
  });
  stream.addEventListener("change", (event) => {
    model.change(JSON.parse(event.data));
    refresh();
  });
  stream.onopen = () => {
    connected = true;
    showHeader();
  };
  stream.onerror = () => {
    connected = false;
    showHeader();
    if (stream.readyState === EventSource.CLOSED) setTimeout(connect, 3000);
  };
}

const QUESTIONS = {
  stop: "Stop the pipeline? Open windows stay in the checkpoint, and windowpane run resumes from there.",
  drain: "Drain the pipeline? It emits every open window and finishes the checkpoint, which cannot be started again.",
};

async function ask(request) {
  if (!confirm(QUESTIONS[request])) return;
  const answer = await fetch(`api/ask/${request}`, { method: "POST", headers: { "X-Windowpane": "1" } });
  if (answer.ok) return;
  const { error } = await answer.json();
  alert(error.message);
}

async function showButtons() {
  const about = await (await fetch("api/about")).json();
  at("actions").hidden = !about.writes;
  for (const id of ["stop", "drain"]) at(id).addEventListener("click", () => ask(id));
}

window.addEventListener("hashchange", show);
window.addEventListener("resize", () => shown?.view.update(model, true));
document.addEventListener("visibilitychange", refresh);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown?.view.update(model, true));
connect();
showButtons();
