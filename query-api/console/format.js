// Numbers, instants and lists of tags as people read them.

export const LOCALE = "en-GB";
const numbers = new Intl.NumberFormat(LOCALE);
const instants = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium", timeStyle: "short" });

export const number = (value) => numbers.format(value);

/** Returns a count with its noun: "1 link", "2 links". */
export const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;

export const instant = (value) => instants.format(new Date(value));

/** Returns the tags of a text, each once; tags have no capitals. */
export const tagsIn = (text) => [...new Set(text.toLowerCase().split(/[\s,;]+/).filter(Boolean))];
