// The ledger of an account, or the entries of one link, as operators see them, with the ways to give a charge back and
// to take a grant back.

import { element } from "../console/dom.js";
import { count, number } from "../console/format.js";
import { KINDS } from "../console/ledger.js";
import { olderPages } from "../console/older_pages.js";
import { askAndSend } from "../console/action_dialog.js";
import { reasonField } from "./form_fields.js";
import { cell, idLink, table, time, words } from "./layout.js";

/** What can be undone, by the type of the entry. */
const UNDOINGS = {
  charge: {
    label: "Refund",
    done: "refunded",
    path: "/refunds",
    member: "entry",
    explanation: ({ amount }) => `Gives back the ${count(-amount, "credit")} of this charge. The link stays.`,
  },
  grant: {
    label: "Revoke",
    done: "taken back",
    path: "/revocations",
    member: "grant",
    explanation: ({ amount }) => `Takes the ${count(amount, "credit")} of this grant back, at most what the balance has.`,
  },
};

const undo = (entry, path, { signal, ondone, onunsure }) => {
  const undoing = UNDOINGS[entry.type];
  if (!undoing) return null;
  if (entry.reversed_by) return undoing.done;
  if (entry.amount === 0) return null;
  const ask = () => askAndSend({
    title: `${undoing.label} ${entry.type}`,
    explanation: undoing.explanation(entry),
    label: undoing.label,
    isDangerous: true,
    path: `${path}${undoing.path}`,
    members: { [undoing.member]: entry.id },
    fields: [reasonField()],
  }, signal, (made) => ondone(`Booked: ${number(made.amount)}; balance ${count(made.balance_after, "credit")}.`), onunsure);
  return element("button", { type: "button", class: "small danger", "aria-label": `${undoing.label} ${entry.id}`, onclick: ask }, undoing.label);
};

const explained = (entry) => [
  words(entry.reason),
  entry.description && element("div", { class: "quiet" }, "Owner sees: ", words(entry.description)),
  entry.link_id && element("div", null, idLink(entry.link_id)),
  entry.short > 0 && element("div", { class: "bad" }, `${count(entry.short, "credit")} could not be taken`),
];

const row = (entry, path, options) => element(
  "tr",
  { "data-id": entry.id },
  element("th", { scope: "row" }, time(entry.created_at)),
  cell("Kind", KINDS[entry.type] ?? entry.type),
  cell("Reason", explained(entry), "what"),
  cell("Reference", words(entry.reference), "address"),
  cell("By", entry.actor && idLink(entry.actor)),
  cell("Amount", number(entry.amount), "number"),
  cell("Balance after", number(entry.balance_after), "number"),
  cell("Action", undo(entry, path, options)),
);

const HEADS = ["Time", "Kind", "Reason", "Reference", "By", ["Amount", "number"], ["Balance after", "number"], "Action"];

const panel = (title, query, path, options) => {
  const { body, foot, shown } = olderPages(`${path}/entries${query}`, "Older entries", (entry) => row(entry, path, options), options.signal);
  const section = element(
    "section",
    { class: "ledger", id: "ledger" },
    element("h2", null, title),
    table("Entries of the ledger, newest first", HEADS, body),
    foot,
  );
  return { section, shown };
};

/**
 * Returns the panel of an account.
 * @param {string} path path of the account in the admin API
 * @param {{signal: AbortSignal, ondone: (text: string) => void, onunsure: (text: string) => void}} options
 */
export const ledgerPanel = (path, options) => panel("Ledger", "", path, options).section;

/**
 * Returns the panel of a link, once it is filled: its charge, and its refund. The options are those of the account's.
 */
export const linkLedgerPanel = async ({ id, account_id: accountId }, options) => {
  const query = `?${new URLSearchParams({ link_id: id })}`;
  const { section, shown } = panel("Charge", query, `/admin/v1/accounts/${accountId}`, options);
  await shown;
  return section;
};
