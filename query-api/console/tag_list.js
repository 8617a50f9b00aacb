// Tags in texts, and the tags of a link; each of these leads to the links that have the tag.

import { element } from "./dom.js";

/** Returns the tags of a text. */
export const tagsIn = (text) => text.split(/[\s,;]+/).filter(Boolean);

/** Returns the tags of a link. */
export const tagList = (tags) => element(
  "span",
  { class: "tags" },
  tags.map((tag) => element("a", { class: "tag", href: `#/links?${new URLSearchParams({ tag })}` }, tag)),
);
