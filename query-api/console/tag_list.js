// Tags of a link; each leads to the links that have the tag.

import { element } from "./dom.js";

/** Returns the tags of a link. */
export const tagList = (tags) => element(
  "span",
  { class: "tags" },
  tags.map((tag) => element("a", { class: "tag", href: `#/links?${new URLSearchParams({ tag })}` }, tag)),
);
