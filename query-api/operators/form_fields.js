// Fields of the forms by which operators change something, besides those of both consoles.

import { element } from "../console/dom.js";
import { lineField, tickField } from "../console/form_fields.js";

export * from "../console/form_fields.js";

const TEXT_LENGTH_MAX = 200;
const REFERENCE_LENGTH_MAX = 128;
const EXTERNAL_ID_LENGTH_MAX = 128;

/** Returns a field for a number of credits. */
export const creditsField = (name, label, attributes) =>
  lineField(name, label, { type: "number", step: 1, required: true, parse: Number, ...attributes });

/** Returns the field for the reason that operators give. */
export const reasonField = () =>
  lineField("reason", "Reason", { required: true, maxlength: TEXT_LENGTH_MAX, help: "For the record; only operators see it." });

/** Returns the field for the reference of another system. */
export const referenceField = () =>
  lineField("reference", "Reference", { maxlength: REFERENCE_LENGTH_MAX, help: "In your own system, such as the number of an invoice." });

/** Returns the field for a text in the ledger. */
export const descriptionField = () =>
  lineField("description", "Description", { maxlength: TEXT_LENGTH_MAX, help: "The owner sees it in the ledger." });

/** Returns the field for a display name. */
export const nameField = (attributes) => lineField("name", "Name", { maxlength: TEXT_LENGTH_MAX, ...attributes });

/** Returns the field for the id of an account in the seller's system. */
export const externalIdField = (attributes) => lineField("external_id", "External id", {
  maxlength: EXTERNAL_ID_LENGTH_MAX,
  pattern: "[A-Za-z0-9._:\\/@\\-]+",
  title: "Letters, digits and . _ : / @ -",
  help: "Id of the account in your own system; unique in the service.",
  ...attributes,
});

/** Returns the field for the thresholds of an account's balance. */
export const lowBalanceField = (attributes) => lineField("low_balance_at", "Low balance at", {
  pattern: "[0-9]+([, ]+[0-9]+)*",
  title: "Up to 5 numbers of credits, such as 10, 100",
  help: "Up to 5 numbers of credits, such as 10, 100. A charge below one of them is told to the webhooks.",
  parse: (text) => text.split(/[, ]+/).map(Number),
  ...attributes,
});

/** Scopes of API keys, with what they permit. */
const SCOPES = [
  ["link:links.read", "Read links"],
  ["link:links.write", "Create, change and delete links"],
  ["link:credits.read", "Read balance and ledger"],
  ["link:clicks.read", "Read statistics of clicks"],
  ["link:events.read", "Read all events"],
  ["link:webhooks.read", "Read webhooks and deliveries"],
  ["link:webhooks.write", "Create, change, test and delete webhooks"],
];
/** Scopes that change nothing. */
export const READ_SCOPES = SCOPES.map(([scope]) => scope).filter((scope) => scope.endsWith(".read"));

/** Returns a field for the scopes of a key; at least one is ticked before the form can be sent. */
export const scopesField = (prefix, chosen) => {
  const ticks = SCOPES.map(([scope, meaning]) => [scope, tickField(`${prefix}-${scope}`, `${meaning} (${scope})`, chosen.includes(scope))]);
  const value = () => ticks.filter(([, tick]) => tick.value()).map(([scope]) => scope);
  const view = element("fieldset", { onchange: () => check() }, element("legend", null, "Scopes"), ticks.map(([, tick]) => tick.view));
  const check = () => view.querySelector("input").setCustomValidity(value().length > 0 ? "" : "Tick at least one scope.");
  check();
  return { name: "scopes", view, value };
};

/** Returns true if the controls with these ids show these texts. A form that does stays, with what is typed there. */
export const isShown = (texts) =>
  Object.entries(texts).every(([id, text]) => document.getElementById(id)?.value === (text ?? ""));
