// Small helpers to build and change the page. All text is set as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; `text` and `on…` are special. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Set a text only if it changes: the browser then has nothing to lay out. */
export function setText(node, text) {
  const value = String(text);
  if (node.textContent !== value) node.textContent = value;
}

export function setClass(node, name) {
  if (node.getAttribute("class") !== name) node.setAttribute("class", name);
}

/** A value that a test can find by its name. */
export function figure(name, tag = "span") {
  return h(tag, { "data-figure": name });
}

export function empty(text) {
  return h("p", { class: "empty", text });
}

/** Colours of the style sheet, for canvases. Read again when the colour scheme changes. */
const cache = new Map();
export function colour(name) {
  if (!cache.has(name)) cache.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return cache.get(name);
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => cache.clear());

/** A canvas of the width of its parent, sharp on any screen. `begin` gives a cleared context, and its width. */
export function canvas(label, className = "") {
  const node = h("canvas", { role: "img", "aria-label": label, class: className });
  return {
    node,
    begin(height) {
      const scale = window.devicePixelRatio || 1;
      const width = node.parentElement ? node.parentElement.clientWidth : 0;
      const [w, t] = [Math.round(width * scale), Math.round(height * scale)];
      if (node.width !== w || node.height !== t) {
        [node.width, node.height] = [w, t];
        node.style.width = `${width}px`;
        node.style.height = `${height}px`;
      }
      const context = node.getContext("2d");
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.clearRect(0, 0, width, height);
      context.font = "12px system-ui, sans-serif";
      context.textBaseline = "middle";
      return { context, width };
    },
  };
}
