// The latest events of the log, of all accounts or of one, and those that follow them.

import { announce, element, field, once, replace, selection } from "../console/dom.js";
import { count } from "../console/format.js";
import { openAddress } from "../console/navigation.js";
import { problemView } from "../console/problem_view.js";
import { read } from "../console/api.js";
import { eventRow, eventsTable } from "./events_table.js";
import { isShown } from "./form_fields.js";

const PAGE_SIZE = 50;
const ACCOUNT = "acc_[0-9a-z]{26}";
/** Types of events (core/src/event.rs). */
const TYPES = [
  "AccountChanged",
  "AccountCreated",
  "AccountResumed",
  "AccountSuspended",
  "ApiKeyChanged",
  "ApiKeyIssued",
  "ApiKeyRevoked",
  "ApiKeyRotated",
  "CreditsAdjusted",
  "CreditsCharged",
  "CreditsGranted",
  "CreditsRefunded",
  "CreditsRevoked",
  "LinkCreated",
  "LinkDeleted",
  "LinkDestinationChanged",
  "LinkDetailsChanged",
  "LinkDisabled",
  "LinkEnabled",
  "LinkExpired",
  "LinkFirstClicked",
  "LinksClicked",
  "WebhookChanged",
  "WebhookCreated",
  "WebhookDeleted",
  "WebhookDisabled",
  "WebhookFailing",
  "WebhookSecretRotated",
];

const filterForm = ({ type, account }) => {
  const send = (event) => {
    event.preventDefault();
    if (!form.reportValidity()) return;
    const filters = Object.entries({ type: types.value, account: accounts.value.trim() }).filter(([, value]) => value);
    openAddress(`#/events?${new URLSearchParams(filters)}`);
  };
  const types = selection("events-type", [["", "Any"], ...TYPES.map((name) => [name, name])], type ?? "", send);
  const accounts = element("input", {
    id: "events-account",
    value: account,
    placeholder: "acc_…",
    pattern: ACCOUNT,
    title: "acc_ and 26 letters and digits",
    autocomplete: "off",
    spellcheck: "false",
    autocapitalize: "none",
  });
  const form = element(
    "form",
    { class: "filters", onsubmit: send },
    field("Type", types),
    field("Account", accounts),
    element("p", { class: "actions" }, element("button", null, "Find")),
  );
  return form;
};

/** Opens the page. */
export const open = ({ main, query: first, signal }) => {
  document.title = "Events · linkledger operators";
  const form = element("div");
  const state = element("p", { class: "summary", role: "status" });
  const body = element("tbody");
  const outcome = element("div");
  const refresh = element("button", { type: "button", onclick: () => refreshOnce() }, "Refresh");
  const later = element("button", { type: "button", onclick: () => laterOnce() }, "Later events");
  let reading = new AbortController();
  let [path, type, next] = [];

  /** Reads a page in place of any that is still read, so that no event is shown twice. */
  const readPage = async (place) => {
    reading.abort();
    reading = new AbortController();
    const both = AbortSignal.any([signal, reading.signal]);
    try {
      const page = await read(path, { type, ...place, limit: PAGE_SIZE }, both);
      both.throwIfAborted();
      next = page.next_cursor;
      replace(outcome);
      return page;
    } catch (error) {
      if (!both.aborted) replace(outcome, problemView(error));
      return undefined;
    }
  };
  const readLatest = async () => {
    const page = await readPage({ latest: true });
    if (!page) return;
    replace(body, page.items.reverse().map((event) => eventRow(event, false)));
    replace(state, page.items.length === 0 ? "None among the latest events of the log." : `The latest: ${count(page.items.length, "event")}.`);
  };
  const refreshOnce = once(refresh, readLatest);
  const laterOnce = once(later, async () => {
    if (!next) {
      await readLatest();
      return;
    }
    const page = await readPage({ after: next });
    if (!page) return;
    body.prepend(...page.items.reverse().map((event) => eventRow(event, false)));
    const found = page.items.length === 0 ? "No later events yet" : `${count(page.items.length, "later event")} above`;
    const text = `${found}${page.has_more ? ", and more follow" : ""}.`;
    replace(state, text);
    announce(text);
  });
  const show = (query) => {
    const account = query.get("account");
    type = query.get("type");
    path = account ? `/admin/v1/accounts/${encodeURIComponent(account)}/events` : "/admin/v1/events";
    next = undefined;
    if (!isShown({ "events-type": type, "events-account": account })) replace(form, filterForm({ type, account }));
    replace(body);
    replace(state, "Reading …");
    return readLatest();
  };
  main.append(
    element("h1", null, "Events"),
    element(
      "section",
      { class: "history", id: "events" },
      form,
      element("div", { class: "above" }, state, element("div", { class: "actions" }, refresh, later)),
      outcome,
      eventsTable(body, false),
    ),
  );
  show(first);
  return show;
};
