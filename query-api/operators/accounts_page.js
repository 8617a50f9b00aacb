// The list of accounts, in the order of their creation. Each page is its own address, so that "back" works.

import { announce, element, field, replace, selection } from "../console/dom.js";
import { count, number } from "../console/format.js";
import { openAddress } from "../console/navigation.js";
import { problemView } from "../console/problem_view.js";
import { read } from "../console/api.js";
import { askAndSend } from "../console/action_dialog.js";
import { externalIdField, isShown, nameField } from "./form_fields.js";
import { cell, table, time, words } from "./layout.js";
import { stateBadge } from "./account_state.js";

const PAGE_SIZE = 50;
const COLUMNS = 5;
const TEXT_LENGTH_MIN = 3;
const STATES = [["", "Any"], ["active", "Active"], ["suspended", "Suspended"]];

/** Returns the address of a page of the list. */
const addressOf = (parameters) => {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value));
  return query.size > 0 ? `#/accounts?${query}` : "#/accounts";
};

const row = (account) => element(
  "tr",
  { "data-id": account.id },
  element("th", { scope: "row" }, element("a", { href: `#/accounts/${account.id}` }, words(account.name))),
  cell("External id", words(account.external_id), "address"),
  cell("State", stateBadge(account)),
  cell("Balance", number(account.balance), "number"),
  cell("Created", time(account.created_at), "when"),
);

const filterForm = ({ q, state }) => {
  const text = element("input", {
    id: "accounts-q", type: "search", value: q, minlength: TEXT_LENGTH_MIN, maxlength: 200, autocomplete: "off", spellcheck: "false", autocapitalize: "none",
  });
  const send = (event) => {
    event.preventDefault();
    if (form.reportValidity()) openAddress(addressOf({ q: text.value.trim(), state: states.value }));
  };
  const states = selection("accounts-state", STATES, state ?? "", send);
  const form = element(
    "form",
    { class: "filters", onsubmit: send },
    field("Name or external id has", text),
    field("State", states),
    element("p", { class: "actions" }, element("button", null, "Find")),
  );
  return form;
};

/** Asks for a new account, and opens its page. */
const create = (signal, onunsure) => askAndSend({
  title: "New account",
  explanation: "The account has no credits and no keys at first.",
  label: "Create account",
  path: "/admin/v1/accounts",
  fields: [nameField({ required: true }), externalIdField()],
}, signal, (account) => {
  location.hash = `#/accounts/${account.id}`;
  announce("Account created");
}, onunsure);

/** Opens the page. */
export const open = ({ main, query: first, signal }) => {
  document.title = "Accounts · linkledger operators";
  const form = element("div");
  const state = element("p", { class: "summary", role: "status" });
  const body = element("tbody");
  const pager = element("nav", { class: "pager", "aria-label": "Pages of the list" });
  const outcome = element("div", { role: "status", id: "outcome" });
  let [reading, shown] = [new AbortController(), first];

  const fill = (page, filters) => {
    replace(body, page.items.length > 0 ? page.items.map(row) : element("tr", null, element("td", { colspan: COLUMNS, class: "whole empty" }, "No account.")));
    replace(state, count(page.items.length, "account"), page.has_more && " on this page");
    replace(
      pager,
      filters.cursor && element("a", { class: "button", href: addressOf({ ...filters, cursor: null }) }, "⇤ First"),
      page.has_more && element("a", { class: "button", href: addressOf({ ...filters, cursor: page.next_cursor }) }, "Next →"),
    );
  };
  const show = async (query) => {
    reading.abort();
    reading = new AbortController();
    shown = query;
    replace(outcome);
    const filters = Object.fromEntries(["q", "state", "cursor"].map((name) => [name, query.get(name)]));
    const both = AbortSignal.any([signal, reading.signal]);
    if (!isShown({ "accounts-q": filters.q, "accounts-state": filters.state })) replace(form, filterForm(filters));
    body.ariaBusy = "true";
    try {
      fill(await read("/admin/v1/accounts", { ...filters, limit: PAGE_SIZE }, both), filters);
    } catch (error) {
      if (both.aborted) return;
      replace(body, element("tr", null, element("td", { colspan: COLUMNS, class: "whole" }, problemView(error))));
      replace(state);
      replace(pager);
    }
    body.ariaBusy = null;
  };
  const onunsure = (text) => {
    show(shown);
    replace(outcome, element("p", { class: "warn" }, text));
  };
  main.append(
    element(
      "div",
      { class: "title" },
      element("h1", null, "Accounts"),
      element("button", { type: "button", class: "primary", id: "new-account", onclick: () => create(signal, onunsure) }, "New account"),
    ),
    outcome,
    element("section", { class: "list" }, form, state, table("Accounts", ["Name", "External id", "State", ["Balance", "number"], "Created"], body), pager),
  );
  show(first);
  return show;
};
