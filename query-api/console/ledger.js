// Entries of the ledger, newest first, page after page.

import { element } from "./dom.js";
import { instant, number } from "./format.js";
import { olderPages } from "./older_pages.js";

/** Names of the types of entries; the type of a later release is shown as it is. */
export const KINDS = {
  grant: "Grant",
  charge: "Charge",
  adjustment: "Adjustment",
  refund: "Refund",
  revocation: "Grant taken back",
};

const row = (entry) => element(
  "tr",
  null,
  element("th", { scope: "row" }, element("time", { datetime: entry.created_at }, instant(entry.created_at))),
  element("td", { "data-label": "Kind" }, KINDS[entry.type] ?? entry.type),
  element("td", { "data-label": "Description" }, entry.description ?? "–"),
  element("td", { "data-label": "Link" }, entry.link_id ? element("a", { class: "id", href: `#/links/${entry.link_id}` }, entry.link_id) : "–"),
  element("td", { "data-label": "Amount", class: "number" }, number(entry.amount)),
  element("td", { "data-label": "Balance after", class: "number" }, number(entry.balance_after)),
);

/** Returns the ledger. */
export const ledger = (signal) => {
  const { body, foot } = olderPages("/v1/credits/entries", "Older entries", row, signal);
  const heads = [["Time"], ["Kind"], ["Description"], ["Link"], ["Amount", "number"], ["Balance after", "number"]];
  return element(
    "section",
    { class: "ledger" },
    element("h2", null, "Ledger"),
    element(
      "table",
      null,
      element("caption", { class: "visually-hidden" }, "Entries of the ledger, newest first"),
      element("thead", null, element("tr", null, heads.map(([text, kind]) => element("th", { scope: "col", class: kind }, text)))),
      body,
    ),
    foot,
  );
};
