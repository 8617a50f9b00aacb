// Fields of the forms in dialogs. A field has a name, which is that of a member of the body, a view, and the present
// value of the member; undefined leaves the member out, so does a text that is as it was shown.

import { element, field } from "./dom.js";

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

/** Returns the members of a body from the fields. */
export const bodyOf = (fields) =>
  Object.fromEntries(fields.map(({ name, value }) => [name, value()]).filter(([, value]) => value !== undefined));

/** Shows what the API says about members at their fields, until the form is changed. */
export const showAtFields = (form, { problem }) => {
  const wrong = (problem?.errors ?? []).flatMap(({ pointer, detail }) => {
    const named = form.elements.namedItem(pointer?.split("/")[1] ?? "");
    const control = named?.querySelector("input") ?? named;
    control?.setCustomValidity(detail);
    return control ?? [];
  });
  if (wrong.length === 0) return;
  form.addEventListener("input", () => {
    for (const control of wrong) control.setCustomValidity("");
  }, { once: true });
  form.reportValidity();
};
