// The API keys of an account: issue, rotate, revoke. A secret is shown once, and kept nowhere.

import { announce, copyButton, element, replace } from "../console/dom.js";
import { number } from "../console/format.js";
import { olderPages } from "../console/older_pages.js";
import { askAndSend, openNotice } from "../console/action_dialog.js";
import { choiceField, lineField, nameField, READ_SCOPES, scopesField } from "./form_fields.js";
import { cell, exactInstant, table, time, words } from "./layout.js";

const OVERLAPS = [[0, "none: the old key ends at once"], [3600, "an hour"], [86400, "a day"], [604800, "a week"]];
const OVERLAP_S = 86400;
const PAGE_SIZE = 100;
const HEADS = ["Name", "Key", "Scopes", "State", "Created", "Last used", "Action"];

const stateOf = ({ revoked_at: revokedAt, expires_at: expiresAt }) => {
  const isPast = (at) => Date.parse(at) <= Date.now();
  if (revokedAt) return { isOver: isPast(revokedAt), text: `${isPast(revokedAt) ? "revoked" : "replaced, ends"} ${exactInstant(revokedAt)}` };
  if (expiresAt) return { isOver: isPast(expiresAt), text: `${isPast(expiresAt) ? "expired" : "expires"} ${exactInstant(expiresAt)}` };
  return { isOver: false, text: "valid" };
};

/** Shows the secret of a new key, whatever page is opened meanwhile. */
const showSecret = ({ id, secret }, onclose) => {
  const content = [
    element("p", null, secret
      ? "This is the only time that the secret is shown: copy it, and hand it over by a safe way."
      : "The secret was in an earlier answer, which did not arrive. Revoke this key, and issue another one."),
    element("p", null, element("code", { id: "secret" }, secret ?? id), " ", secret && copyButton(secret, "The secret")),
  ];
  openNotice("The new key", content, "Done", onclose);
  announce("Key made");
};

const issue = (path, { signal, ondone, onunsure }) => askAndSend({
  title: "Issue a key",
  explanation: "The key acts for the account, within its scopes.",
  label: "Issue key",
  path: `${path}/keys`,
  fields: [
    nameField({ placeholder: "web shop" }),
    scopesField("key", READ_SCOPES),
    lineField("expires_at", "Expires", { type: "datetime-local", parse: (text) => new Date(text).toISOString() }),
  ],
}, signal, (key) => showSecret(key, () => ondone(`${key.id} is issued.`)), onunsure);

const rotate = ({ id, name }, { signal, ondone, onunsure }) => askAndSend({
  title: "Rotate a key",
  explanation: `A new key takes the place of “${name}”, with its scopes and its expiry. Both are valid during the overlap.`,
  label: "Rotate key",
  isDangerous: true,
  path: `/admin/v1/keys/${id}/rotate`,
  fields: [choiceField("overlap_seconds", "Overlap", OVERLAPS, OVERLAP_S, Number)],
}, signal, (key) => showSecret(key, () => ondone(`${key.id} replaces ${id}.`)), onunsure);

const revoke = ({ id, name }, { signal, ondone, onunsure }) => askAndSend({
  title: "Revoke a key",
  explanation: `“${name}” is refused for ever, within 5 s: programs that use it stop working.`,
  label: "Revoke key",
  isDangerous: true,
  method: "DELETE",
  path: `/admin/v1/keys/${id}`,
  attempts: 1,
}, signal, () => ondone(`${id} is revoked.`), onunsure);

const row = (key, options) => {
  const { isOver, text } = stateOf(key);
  const button = (label, action, kind) => element("button", {
    type: "button", class: `small ${kind}`, "aria-label": `${label} ${key.name}, ${key.id}`, onclick: () => action(key, options),
  }, label);
  return element(
    "tr",
    { "data-id": key.id },
    element("th", { scope: "row" }, words(key.name)),
    cell("Key", [element("span", { class: "id" }, key.id), key.prefix && element("div", { class: "quiet" }, element("code", null, `${key.prefix}…`))]),
    cell("Scopes", key.scopes.map((scope) => element("div", null, scope))),
    cell("State", element("span", { class: isOver && "quiet" }, text)),
    cell("Created", time(key.created_at)),
    cell("Last used", key.last_used_at && time(key.last_used_at)),
    cell("Action", isOver ? null : element("span", { class: "actions" }, button("Rotate", rotate, ""), button("Revoke", revoke, "danger"))),
  );
};

/** Returns the folded list of keys that are revoked or expired, such as those of console sessions, and what adds one. */
const endedKeys = () => {
  const body = element("tbody");
  const summary = element("summary");
  const view = element("details", { hidden: true }, summary, table("Ended API keys of the account", HEADS, body));
  const add = (ended) => {
    body.append(ended);
    replace(summary, `Ended keys: ${number(body.rows.length)}`);
    view.hidden = false;
  };
  return { view, add };
};

/**
 * Returns the panel.
 * @param {string} path path of the account in the admin API
 * @param {{signal: AbortSignal, ondone: (text: string) => void, onunsure: (text: string) => void}} options
 */
export const keysPanel = (path, options) => {
  const { view, add } = endedKeys();
  const rowOf = (key) => {
    const shown = row(key, options);
    return stateOf(key).isOver ? add(shown) : shown;
  };
  const { body, foot } = olderPages(`${path}/keys`, "More keys", rowOf, options.signal, PAGE_SIZE);
  return element(
    "section",
    { id: "keys" },
    element(
      "div",
      { class: "title" },
      element("h2", null, "Keys"),
      element("button", { type: "button", id: "issue-key", onclick: () => issue(path, options) }, "Issue a key"),
    ),
    table("API keys of the account", HEADS, body),
    foot,
    view,
  );
};
