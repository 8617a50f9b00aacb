// All webhooks of an account, or of the operators, and the way to a new one. There are few: the list has no pages.

import { element, replace } from "./dom.js";
import { askAndSend } from "./action_dialog.js";
import { count, number } from "./format.js";
import { cell, table, words } from "./layout.js";
import { onKeyReplaced } from "./session.js";
import { problemView } from "./problem_view.js";
import { read } from "./api.js";
import { shortAddress, showSecret, stateView, typesText, webhookFields } from "./webhook_parts.js";

const HEADS = ["Address", "Types", "State", ["Waiting", "number"], ["Failed", "number"]];

const row = (webhook) => element(
  "tr",
  { "data-id": webhook.id },
  element(
    "th",
    { scope: "row" },
    element("a", { href: `#/webhooks/${webhook.id}` }, shortAddress(webhook.url)),
    webhook.description && element("div", { class: "quiet" }, words(webhook.description)),
  ),
  cell("Types", typesText(webhook)),
  cell("State", stateView(webhook)),
  cell("Waiting", number(webhook.waiting), "number"),
  cell("Failed", number(webhook.failed), "number"),
);

/**
 * Opens the list. Nothing is shown before the webhooks are read, so that nothing moves.
 * @param {object} place
 * @param {import("./webhook_parts.js").Webhooks} webhooks
 */
export const openList = async ({ main, signal }, { path, title, explanation, types }) => {
  document.title = `Webhooks · ${title}`;
  const state = element("p", { class: "summary", role: "status" });
  const list = element("div");
  const outcome = element("div", { role: "status", id: "outcome" });

  const refresh = async () => {
    const { items } = await read(path, null, signal);
    replace(state, count(items.length, "webhook"));
    replace(list, items.length > 0 && table("Webhooks", HEADS, element("tbody", null, items.map(row))));
  };
  const refreshOrTell = async (text) => {
    replace(outcome, text && element("p", { class: "warn" }, text));
    try {
      await refresh();
    } catch (error) {
      if (!signal.aborted) replace(list, problemView(error));
    }
  };
  const create = () => askAndSend({
    title: "New webhook",
    explanation: `${explanation} It receives what happens from now on.`,
    label: "Create webhook",
    path,
    fields: webhookFields(types),
  }, signal, (made) => showSecret(made, () => {
    location.hash = `#/webhooks/${made.id}`;
  }), refreshOrTell);

  await refresh();
  // Webhooks of another account give way to those of the next one; an open dialog keeps its fields.
  onKeyReplaced(() => refreshOrTell(), signal);
  main.append(
    element(
      "div",
      { class: "title" },
      element("h1", null, "Webhooks"),
      element("button", { type: "button", class: "primary", id: "new-webhook", onclick: create }, "New webhook"),
    ),
    element("p", { class: "quiet" }, explanation),
    outcome,
    element("section", { class: "webhooks" }, state, list),
  );
};
