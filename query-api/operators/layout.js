// Parts of the operators' pages, besides those of both consoles.

import { element } from "../console/dom.js";

export * from "../console/layout.js";

/** Units of durations: length, and the seconds below which the unit is used. */
const UNITS = [["s", 1, 120], ["min", 60, 7200], ["h", 3600, 172800], ["d", 86400, Infinity]];
/** Pages by the beginning of an id. */
const PAGES = { acc: "accounts", lnk: "links" };

/** Returns an id, as a link if it has a page. */
export const idLink = (id) => {
  const page = PAGES[id.split("_")[0]];
  return page ? element("a", { class: "id", href: `#/${page}/${id}` }, id) : element("span", { class: "id" }, id);
};

/** Returns a duration in a suitable unit, as `projector status` shows it: "0.3 s", "12 s", "5 min", "3 h", "2 d". */
export const duration = (seconds) => {
  if (seconds <= 0) return "0 s";
  if (seconds < 9.95) return `${Math.max(seconds, 0.1).toFixed(1)} s`;
  const [unit, length] = UNITS.find(([, , max]) => seconds < max);
  return `${Math.round(seconds / length)} ${unit}`;
};

/** Returns a sentence of the service, whose commands stand between backquotes. */
export const sentence = (text) => text.split("`").map((part, index) => (index % 2 === 0 ? part : element("code", null, part)));
