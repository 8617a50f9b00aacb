// Members of a link that its owner writes: one list for forms, files and tables.

import { addressOf, trim } from "./addresses.js";
import { tagsIn } from "./format.js";

/**
 * @typedef {object} Member
 * @property {string} name name in the API, and of the column in files
 * @property {string} label
 * @property {string} [help]
 * @property {boolean} [required]
 * @property {boolean} [mutable] true if a change can name the member
 * @property {string} [type] type of the form's input
 * @property {string} [inputmode] keyboard of phones
 * @property {string} [placeholder]
 * @property {string} [pattern] regular expression of a text that is not empty; the help says the same in words
 * @property {(text: string) => string} [tidy] text of a form's field as it is shown and sent
 * @property {(text: string) => *} [parse] value of a text that is not empty
 * @property {(value: *) => string} [print] text in tables and files
 * @property {(value: *) => string} [printField] text in forms, if it differs
 */

/** Time as browsers write it in forms: local, without zone. */
const LOCAL_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$/;
const TAG = "[\\p{L}\\p{Nd}][\\p{L}\\p{M}\\p{Nd} ._:\\-+#&\\/']{0,63}";
const TAGS = `[\\s,;]*${TAG}(\\s*[,;]\\s*${TAG})*[\\s,;]*`;
const MINUTE_MS = 60000;
const LOCAL_TIME_LENGTH = "2026-11-20T09:51".length;

const localTime = (value) => {
  const date = new Date(value);
  const shifted = new Date(date.getTime() - date.getTimezoneOffset() * MINUTE_MS);
  return shifted.toISOString().slice(0, LOCAL_TIME_LENGTH);
};

/** @type {Member[]} */
export const MEMBERS = [
  {
    name: "destination_url",
    label: "Destination",
    help: "The address that the short link leads to.",
    required: true,
    mutable: true,
    inputmode: "url",
    placeholder: "https://example.com/",
    tidy: addressOf,
  },
  {
    name: "slug",
    label: "Slug",
    help: "The last part of the short address, 1 to 64 of A-Z, a-z, 0-9, ., _ and -; it begins and ends with a letter or a digit. Without one the service draws 8 characters. A slug never changes.",
    placeholder: "spring-sale",
  },
  {
    name: "title",
    label: "Title",
    help: "For you; visitors do not see it.",
    mutable: true,
    placeholder: "Spring sale, newsletter",
  },
  {
    name: "tags",
    label: "Tags",
    help: "Separated by commas: letters and digits of any script, spaces and . _ : - + # & / '. Capitals become small.",
    mutable: true,
    placeholder: "spring, newsletter",
    pattern: TAGS,
    parse: (text) => tagsIn(text).sort(),
    print: (tags) => tags.join(", "),
  },
  {
    name: "external_id",
    label: "External id",
    help: "The name of the link in your own system; no two of your links have the same.",
    mutable: true,
    placeholder: "order-4711",
  },
  {
    name: "expires_at",
    label: "Expires",
    help: "From then on visitors get “gone”, or go to the destination after expiry.",
    mutable: true,
    type: "datetime-local",
    parse: (text) => (LOCAL_TIME.test(text) ? new Date(text).toISOString() : text),
    printField: localTime,
  },
  {
    name: "expired_url",
    label: "Destination after expiry",
    help: "Only with a time of expiry.",
    mutable: true,
    inputmode: "url",
    placeholder: "https://example.com/over",
    tidy: addressOf,
  },
];

/** Returns the value of a member from the text of a field or of a cell; undefined if the text is empty. */
export const valueOf = (member, text) => {
  const trimmed = trim(text);
  if (trimmed === "") return undefined;
  return member.parse ? member.parse(trimmed) : trimmed;
};

const printed = (print, value) => {
  if (value === undefined || value === null) return "";
  return print ? print(value) : String(value);
};

/** Returns the value of a member of a link as the text of a cell. */
export const textOf = (member, link) => printed(member.print, link[member.name]);

/** Returns the value of a member of a link as the text of a field. */
export const fieldTextOf = (member, link) => printed(member.printField ?? member.print, link[member.name]);
