// The state of an account in words.

import { element } from "../console/dom.js";

const REFUSED = "The API refuses the account's requests, except those of its credits (balance and ledger)";

const meaningOf = ({ redirects_stopped: areStopped }) => (areStopped
  ? `${REFUSED}, and visitors of its links get “gone” (410).`
  : `${REFUSED}; its links redirect.`);

/** Returns the state as a badge. */
export const stateBadge = ({ state }) => element("span", { class: `badge ${state === "active" ? "" : "bad"}` }, state);

/** Returns what the suspension of an account means; nothing for an active one. */
export const suspensionNote = (account) => account.state === "suspended"
  && element("p", { class: "state" }, stateBadge(account), ` ${meaningOf(account)}`);
