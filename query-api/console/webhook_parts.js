// A webhook in words, the fields of its form, and its secret.

import { announce, copyButton, element } from "./dom.js";
import { openNotice } from "./action_dialog.js";
import { lineField, tickField } from "./form_fields.js";
import { time, words } from "./layout.js";

const DESCRIPTION_LENGTH_MAX = 200;
const URL_LENGTH_MAX = 2048;
/** Characters of an address in lists and headings. */
const SHOWN_MAX = 80;

/** Types of messages (core/src/webhook/message_type.rs). */
export const OWNERS_TYPES = [
  "link.created",
  "link.updated",
  "link.disabled",
  "link.enabled",
  "link.deleted",
  "link.expired",
  "link.first_click",
  "link.clicks",
  "credits.granted",
  "credits.adjusted",
  "credits.refunded",
  "credits.revoked",
  "credits.low",
  "account.suspended",
  "account.resumed",
];
/** Types of messages that only webhooks of operators receive. */
export const OPERATORS_TYPES = [
  "account.created",
  "account.changed",
  "webhook.failing",
  "webhook.disabled",
];

/** Types of a webhook that names none: link.clicks must be named, since it is sent for each minute with clicks. */
const ALL_TYPES = "all but link.clicks";

/**
 * @typedef {object} Webhooks the webhooks that a console shows
 * @property {string} path path of the list in the API
 * @property {string} title end of the titles of the pages
 * @property {string} explanation what the webhooks receive
 * @property {string[]} types types of messages that they can name
 */

/** Returns host and path of an address; what follows may be secret. */
export const shortAddress = (url) => {
  const { host, pathname } = new URL(url);
  const text = `${host}${pathname}`;
  return text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text;
};

/** Returns what people call a webhook. */
export const nameOf = ({ description, url }) => description ?? shortAddress(url);

/** Returns the types of the messages of a webhook as text. */
export const typesText = ({ types }) => (types.length > 0 ? types.join(", ") : ALL_TYPES);

/** Returns the result of the last attempt as text; undefined before the first one. */
export const lastResult = ({ last_error: error, last_status: status }) => error ?? (status && `status ${status}`);

/** Reasons for which the service disables a webhook; that of a later release is shown as it is. */
const REASONS = {
  gone: "its receiver answered “gone” (410)",
  unreachable: "its receiver accepted nothing for 5 days",
};

const explained = ({ health, disabled_reason: reason, updated_at: updatedAt }) => {
  if (health.state === "ill") return ["since ", time(health.ill_since), ": ", words(lastResult(health))];
  if (health.state === "refusing") return words(lastResult(health));
  if (health.state === "blocked") return words(lastResult(health));
  if (health.state === "disabled") return [reason ? REASONS[reason] ?? reason : "by hand", "; last change ", time(updatedAt)];
  return null;
};

const KINDS = { ill: "warn", blocked: "bad", refusing: "warn", disabled: "bad" };

/** Returns the state of a webhook, with its beginning and its reason. */
export const stateView = (webhook) => {
  const { state } = webhook.health;
  const explanation = explained(webhook);
  return [
    element("span", { class: `badge ${KINDS[state] ?? ""}` }, state),
    explanation && element("div", { class: "quiet" }, explanation),
  ];
};

/** Returns the field for types of messages: all but link.clicks, or at least one of those that are known. */
const typesField = (known, chosen) => {
  const all = tickField("types-all", "All but link.clicks, also those of later releases", chosen.length === 0);
  const ticks = [...new Set([...known, ...chosen])].map((type) => [type, tickField(`types-${type}`, type, chosen.includes(type))]);
  const named = () => ticks.filter(([, tick]) => tick.value()).map(([type]) => type);
  const some = element("div", { class: "ticks" }, ticks.map(([, tick]) => tick.view));
  const view = element("fieldset", { name: "types", onchange: () => check() }, element("legend", null, "Types of messages"), all.view, some);
  const check = () => {
    some.hidden = all.value();
    const isComplete = all.value() || named().length > 0;
    view.querySelector("input").setCustomValidity(isComplete ? "" : "Tick at least one type, or all.");
  };
  check();
  const value = () => {
    const wanted = all.value() ? [] : named();
    return [...wanted].sort().join() === [...chosen].sort().join() ? undefined : wanted;
  };
  return { name: "types", view, value };
};

const inOrderField = (isInOrder) => {
  const tick = tickField("in_order", "In order: one request after the other, each with a list of messages", isInOrder);
  return { ...tick, value: () => (tick.value() === isInOrder ? undefined : tick.value()) };
};

/** Returns the fields of a new webhook, or those that change one. */
export const webhookFields = (known, { url, description, types = [], in_order: isInOrder = false } = {}) => [
  lineField("url", "Address", {
    required: true,
    value: url,
    inputmode: "url",
    maxlength: URL_LENGTH_MAX,
    placeholder: "https://shop.example.com/hooks",
    help: "It receives the messages, each as a POST.",
  }),
  lineField("description", "Description", { value: description, empty: null, dir: "auto", maxlength: DESCRIPTION_LENGTH_MAX }),
  typesField(known, types),
  inOrderField(isInOrder),
];

/** Shows the secret of a creation or a rotation, whatever page is opened meanwhile. */
export const showSecret = ({ secret, previous_secret_valid_until: until }, onclose) => {
  const content = [
    element("p", null, "This is the only time that the secret is shown: copy it to the program that receives the messages, and checks their signatures."),
    until && element("p", null, "Messages are signed with the secret before too, until ", time(until), "."),
    element("p", null, element("code", { id: "secret" }, secret), " ", copyButton(secret, "The secret")),
  ];
  openNotice("The secret of the webhook", content, "Done", onclose);
  announce("Secret made");
};
