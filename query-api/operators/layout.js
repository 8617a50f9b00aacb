// Parts of the operators' pages: facts, tables, and the values that stand in them.

import { element } from "../console/dom.js";
import { LOCALE } from "../console/format.js";

const NOTHING = "–";
const instants = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium", timeStyle: "medium" });
/** Units of durations: length, and the seconds below which the unit is used. */
const UNITS = [["s", 1, 120], ["min", 60, 7200], ["h", 3600, 172800], ["d", 86400, Infinity]];
/** Pages by the beginning of an id. */
const PAGES = { acc: "accounts", lnk: "links" };

/** Returns a list of names with their values; a pair that is no pair is left out. */
export const facts = (pairs) => element(
  "dl",
  { class: "facts" },
  pairs.filter(Boolean).map(([name, value]) => element("div", null, element("dt", null, name), element("dd", null, value))),
);

/**
 * Returns a table.
 * @param {string} caption for screen readers
 * @param {(string|[string, string])[]} heads texts of the columns, those of numbers with a class
 * @param {HTMLElement} body
 */
export const table = (caption, heads, body) => element(
  "table",
  null,
  element("caption", { class: "visually-hidden" }, caption),
  element("thead", null, element("tr", null, heads.map((head) => {
    const [text, kind] = [head].flat();
    return element("th", { scope: "col", class: kind }, text);
  }))),
  body,
);

/** Returns a cell with the name of its column, which narrow screens show beside it. */
export const cell = (label, content, kind) =>
  element("td", { "data-label": label, class: kind }, element("div", null, content || NOTHING));

/** Returns a text that somebody else has written: it keeps its direction to itself. */
export const words = (text) => (text ? element("bdi", null, text) : NOTHING);

export const exactInstant = (value) => instants.format(new Date(value));

export const time = (value) => (value ? element("time", { datetime: value }, exactInstant(value)) : NOTHING);

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
