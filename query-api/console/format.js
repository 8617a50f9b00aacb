// Numbers, instants and files as people read them.

const LOCALE = "en-GB";
const numbers = new Intl.NumberFormat(LOCALE);
const instants = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium", timeStyle: "short" });
/** Characters that make a spreadsheet take a cell for a formula. */
const FORMULA = /^[=+\-@'\t\r]/;
const NEEDS_QUOTES = /[",\r\n]/;

export const ownTimeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;

export const number = (value) => numbers.format(value);

/** Returns a count with its noun: "1 link", "2 links". */
export const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;

export const instant = (value) => instants.format(new Date(value));

/** Returns the time of day with the name of the time zone left out. */
export const timeIn = (timeZone, options) => {
  const format = new Intl.DateTimeFormat(LOCALE, { timeZone, ...options });
  return (value) => format.format(new Date(value));
};

const cell = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  const safe = FORMULA.test(text) ? `'${text}` : text;
  return NEEDS_QUOTES.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

/** Returns rows as CSV (RFC 4180), as the API writes CSV. */
export const csv = (rows) => rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");

/** Offers a content as a file. */
export const download = (name, type, content) => {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  // The browser has read the address when the event is over.
  setTimeout(() => URL.revokeObjectURL(address));
};
