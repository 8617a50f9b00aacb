// Members of a link that its owner writes: one list for forms, files and tables.

/**
 * @typedef {object} Member
 * @property {string} name name in the API, and of the column in files
 * @property {string} label
 * @property {string} [help]
 * @property {boolean} [required]
 * @property {boolean} [mutable] true if a change can name the member
 * @property {string} [type] type of the form's input
 * @property {string} [placeholder]
 */

/** @type {Member[]} */
export const MEMBERS = [
  {
    name: "destination_url",
    label: "Destination",
    help: "The address that the short link leads to: http or https.",
    required: true,
    mutable: true,
    type: "url",
    placeholder: "https://example.com/",
  },
  {
    name: "slug",
    label: "Slug (optional)",
    help: "The last part of the short address, 3 to 64 of A-Z, a-z, 0-9, _ and -. Without one the service draws 8 characters. A slug never changes.",
    placeholder: "spring-sale",
  },
];

/** Returns the value of a member from the text of a field or of a cell; undefined if the text is empty. */
export const valueOf = (member, text) => {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  return member.parse ? member.parse(trimmed) : trimmed;
};

/** Returns the value of a member of a link as the text of a field or of a cell. */
export const textOf = (member, link) => {
  const value = link[member.name];
  if (value === undefined || value === null) return "";
  return member.print ? member.print(value) : String(value);
};
