// Rows of a list of the API, newest first, page after page.

import { element, once, replace } from "./dom.js";
import { problemView } from "./problem_view.js";
import { read } from "./api.js";

const PAGE_SIZE = 20;

/**
 * Returns the body of the table, and what belongs below the table.
 * @param {string} path path of the list in the API
 * @param {string} label text of the button that reads the next page
 * @param {(item: object) => HTMLTableRowElement} row
 * @param {AbortSignal} signal
 */
export const olderPages = (path, label, row, signal) => {
  const body = element("tbody");
  const foot = element("div", { class: "actions" });
  const more = (cursor, text) => {
    const button = element("button", { type: "button", onclick: () => load() }, text);
    const load = once(button, () => append(cursor));
    return button;
  };
  const append = async (cursor) => {
    try {
      const page = await read(path, { limit: PAGE_SIZE, cursor }, signal);
      const rows = page.items.map(row);
      body.append(...rows);
      replace(foot, page.has_more && more(page.next_cursor, label));
      if (cursor) focusRow(rows[0]);
    } catch (error) {
      if (!signal.aborted) replace(foot, problemView(error), more(cursor, "Try again"));
    }
  };
  append(null);
  return { body, foot };
};

const focusRow = (row) => {
  if (!row) return;
  row.tabIndex = -1;
  row.focus();
};
