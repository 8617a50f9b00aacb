// Fields of the forms by which operators change something. A field has a name, which is that of a member of the body,
// a view, and the present value of the member; undefined leaves the member out, so does a text that is as it was shown.

import { element, field } from "../console/dom.js";

const TEXT_LENGTH_MAX = 200;
const REFERENCE_LENGTH_MAX = 128;
const EXTERNAL_ID_LENGTH_MAX = 128;

const PLAIN = { autocomplete: "off", spellcheck: "false", autocapitalize: "none" };

/**
 * @typedef {object} Field
 * @property {string} name
 * @property {HTMLElement} view
 * @property {() => *} value
 */

/**
 * Returns a field for one line.
 * @param {string} name
 * @param {string} label
 * @param {{help?: string, parse?: (text: string) => *, empty?: *}} options further ones are attributes of the input;
 *   `empty` is the value of the empty field
 * @returns {Field}
 */
export const lineField = (name, label, { help, parse = (text) => text, empty, ...attributes } = {}) => {
  const input = element("input", { id: `field-${name}`, name, ...PLAIN, ...attributes });
  const shown = input.value;
  const value = () => {
    if (input.value === shown) return undefined;
    const text = input.value.trim();
    return text === "" ? empty : parse(text);
  };
  return { name, view: field(attributes.required ? label : `${label} (optional)`, input, help), value };
};

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

/** Returns a field that is ticked or not. */
export const tickField = (name, label, isTicked) => {
  const input = element("input", { id: `field-${name}`, name, type: "checkbox", checked: isTicked });
  return { name, view: element("p", { class: "tick" }, input, element("label", { for: input.id }, label)), value: () => input.checked };
};

/** Returns a field with a choice; `options` are pairs of value and text. */
export const choiceField = (name, label, options, chosen, parse) => {
  const select = element("select", { id: `field-${name}`, name }, options.map(([value, text]) =>
    element("option", { value, selected: value === chosen }, text)));
  return { name, view: field(label, select), value: () => parse(select.value) };
};

/** Scopes of API keys, with what they permit. */
const SCOPES = [
  ["link:links.read", "Read links"],
  ["link:links.write", "Create, change and delete links"],
  ["link:credits.read", "Read balance and ledger"],
  ["link:clicks.read", "Read statistics of clicks"],
  ["link:events.read", "Read all events"],
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

/** Returns the members of a body from the fields. */
export const bodyOf = (fields) =>
  Object.fromEntries(fields.map(({ name, value }) => [name, value()]).filter(([, value]) => value !== undefined));

/** Returns true if the controls with these ids show these texts. A form that does stays, with what is typed there. */
export const isShown = (texts) =>
  Object.entries(texts).every(([id, text]) => document.getElementById(id)?.value === (text ?? ""));
