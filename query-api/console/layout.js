// Parts of pages: facts, tables, and the values that stand in them.

import { element } from "./dom.js";
import { LOCALE } from "./format.js";

const NOTHING = "–";
const instants = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium", timeStyle: "medium" });

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
