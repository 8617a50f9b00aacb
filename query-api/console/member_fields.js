// Fields of a form for members of a link.

import { element, field } from "./dom.js";
import { fieldTextOf, valueOf } from "./link_members.js";
import { tagSuggestions } from "./tag_suggestions.js";

/** Returns the input of a member; its label and help are added by the form. */
const inputOf = (member, link, prefix) => element("input", {
  id: `${prefix}-${member.name}`,
  name: member.name,
  type: member.type ?? "text",
  inputmode: member.inputmode,
  onchange: member.tidy && (({ target }) => {
    target.value = member.tidy(target.value);
  }),
  required: member.required,
  value: fieldTextOf(member, link),
  placeholder: member.placeholder,
  pattern: member.pattern,
  title: member.pattern && member.help,
  autocomplete: "off",
  spellcheck: "false",
  autocapitalize: "none",
});

/** Returns the fields of the members, and a function that reads the form. */
export const memberFields = (members, link, prefix, signal) => {
  const inputs = members.map((member) => [member, inputOf(member, link, prefix)]);
  return {
    fields: inputs.map(([member, input]) => [
      field(member.required ? member.label : `${member.label} (optional)`, input, member.help),
      member.name === "tags" && tagSuggestions(input, signal),
    ]),
    values: () => inputs.map(([member, input]) => [member.name, valueOf(member, member.tidy?.(input.value) ?? input.value)]),
  };
};
