// Files that the console offers: CSV as the API writes CSV.

/** Characters that make a spreadsheet take a cell for a formula. */
const FORMULA = /^[=+\-@'\t\r]/;
const NEEDS_QUOTES = /[",\r\n]/;

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
