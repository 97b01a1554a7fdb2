// What has happened to the pipeline, the newest first.

import { empty, h } from "./dom.js";
import { instant } from "./format.js";

export function eventsView(root) {
  let shown = "";
  return {
    update(model) {
      const events = [...model.document.events].sort((a, b) => b.at_us - a.at_us);
      const key = `${events.length} ${events[0]?.at_us}`;
      if (key === shown) return;
      shown = key;
      const rows = events.map((each) =>
        h("li", {}, h("time", { text: instant(each.at_us).slice(0, 19) }), h("span", { class: `tag ${each.kind}`, text: each.kind }), h("span", { class: "what", text: each.text })),
      );
      root.replaceChildren(
        rows.length
          ? h("section", { class: "panel" }, h("h2", { text: "Events" }), h("ol", { class: "events" }, ...rows))
          : empty("Nothing has happened yet. Starts, stops, changed queries and sinks that are away appear here."),
      );
    },
  };
}
