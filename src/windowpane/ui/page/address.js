// The addresses of views, which can be shared.

/** `#/side/hot/late` is the view `side` of the transform `hot`, with the rest for the view itself. */
export function address(hash) {
  const [view = "", transform = "", ...rest] = hash.replace(/^#\/?/, "").split("/").map(decoded);
  return { view, transform, rest };
}

export function href(view, transform = "", ...rest) {
  return `#/${[view, transform, ...rest].filter((part) => part !== "").map(encodeURIComponent).join("/")}`;
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
