// Numbers, instants and lists of tags as people read them.

export const LOCALE = "en-GB";
const numbers = new Intl.NumberFormat(LOCALE);
const instants = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium", timeStyle: "short" });

export const number = (value) => numbers.format(value);

/** Returns a count with its noun: "1 link", "2 links". */
export const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;

export const instant = (value) => instants.format(new Date(value));

/** Returns a tag as the API stores it: composed, in lower case, with single spaces. */
const normalTag = (text) => text.normalize("NFC").toLowerCase().normalize("NFC").replace(/\s+/g, " ").trim();

/** Returns the tags of a text that commas, semicolons or lines separate, each once. */
export const tagsIn = (text) => [...new Set(text.split(/[,;\n]/).map(normalTag).filter(Boolean))];
