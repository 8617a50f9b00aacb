// Rows of a list of the API, newest first, page after page.

import { element, once, replace } from "./dom.js";
import { problemView } from "./problem_view.js";
import { read } from "./api.js";

const PAGE_SIZE_USUAL = 20;

/**
 * Returns the body of the table, what belongs below the table, and a promise of the first page.
 * @param {string} path path of the list in the API
 * @param {string} label text of the button that reads the next page
 * @param {(item: object) => HTMLTableRowElement|undefined} row returns nothing for an item that is shown elsewhere
 * @param {AbortSignal} signal
 * @param {number} [pageSize]
 */
export const olderPages = (path, label, row, signal, pageSize = PAGE_SIZE_USUAL) => {
  const body = element("tbody");
  const foot = element("div", { class: "actions" });
  const more = (cursor, text) => {
    const button = element("button", { type: "button", onclick: () => load() }, text);
    const load = once(button, () => append(cursor));
    return button;
  };
  const append = async (cursor, isAsked = cursor !== null) => {
    try {
      const page = await read(path, { limit: pageSize, cursor }, signal);
      const rows = page.items.map(row).filter(Boolean);
      body.append(...rows);
      if (rows.length === 0 && page.has_more) {
        await append(page.next_cursor, isAsked);
        return;
      }
      replace(foot, page.has_more && more(page.next_cursor, label));
      if (isAsked) focusRow(rows[0]);
    } catch (error) {
      if (!signal.aborted) replace(foot, problemView(error), more(cursor, "Try again"));
    }
  };
  const shown = append(null);
  return { body, foot, shown };
};

const focusRow = (row) => {
  if (!row) return;
  row.tabIndex = -1;
  row.focus();
};
