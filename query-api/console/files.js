// Files that the console offers: CSV as the API writes CSV.

/**
 * Begin of a cell that a spreadsheet could take for a formula. Where numbers have a comma, spreadsheets split at `;`,
 * also within quotes.
 */
const FORMULA = /(?<![^;\t\r\n])(?="*[=+\-@＝＋－＠'\t\r])/g;
const GUARD = /(?<![^;\t\r\n])'(?="*[=+\-@＝＋－＠'\t\r])/g;
const NEEDS_QUOTES = /[",;\r\n]/;

/** Returns the text of a cell without the apostrophes that keep a spreadsheet from taking it for a formula. */
export const unguarded = (cell) => cell.replace(GUARD, "");

const cell = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  const safe = text.replace(FORMULA, "'");
  return NEEDS_QUOTES.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

/** Mark by which spreadsheets know UTF-8; imports leave it out. */
const MARK = "\uFEFF";

/** Returns rows as CSV (RFC 4180), as the API writes CSV, for spreadsheets. */
export const csv = (rows) => MARK + rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");

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
