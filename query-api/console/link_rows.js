// Rows of a pasted text or a file: cells, and the file as a whole. What becomes of a row is decided by import_rule.js.

import { addressOf, trim } from "./addresses.js";
import { count } from "./format.js";
import { Rule } from "./import_rule.js";
import { MEMBERS } from "./link_members.js";

const DESTINATION = "destination_url";
/** Columns of members of a link; an address is read where no slug is given. */
const READ = [...MEMBERS.map(({ name }) => name), "short_url", "old_address"];
/** Columns of exports that an import does not need, as `linkledger import` leaves them out. */
const IGNORED = ["created_at", "clicks", "bots", "visitors", "etag"];
const LEFT_OUT = ["id", "disabled_by", ...IGNORED];
const SEPARATORS = [",", ";", "\t", "|"];
const SLUG = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$/;
const ADDRESS = /^[a-z0-9]+:\/\//i;
/** Share of the lines that look like rows of a table without its header, and of their slugs that differ. */
const NEARLY_ALL = 0.8;
const OPEN_QUOTES_MAX = 20;
/** Maximum number of columns; a table with more is no list of links. */
const COLUMNS_MAX = 1000;
/** Number of changed letters up to which a name is taken for a misspelt one. */
const MISSPELT_MAX = 3;

const EXCESS = "The row has more cells than there are columns: quote cells that contain the separator";
const OPEN_QUOTE = "A quotation mark of this line is not closed before the next row";
const OTHER_SEPARATOR = "The row has fewer cells than there are columns, and looks separated in another way";
const COMMENT = "A line that begins with # or // is no address: take it away";
const WORDS = "The line has more than a destination and a slug. An address has no spaces: write %20";

const OTHERS = "“linkledger import” reads files of other products.";

const isAddress = (text) => ADDRESS.test(text) || addressOf(text) !== trim(text);

/** Returns true if a later line of a record is a whole row with an address: a quotation mark is missing before it. */
const swallowsRows = (cells, separator, width) => cells.some((cell, at) => {
  const [first, ...later] = cell.split("\n").map((line) => line.split(separator));
  // The last line goes on in the next cells of the record, if the first one was whole.
  if (later.length > 0 && at + first.length === width) later.at(-1).push(...cells.slice(at + 1));
  return later.some((row) => row.length === width && row.some((one) => isAddress(trim(one))));
});

/**
 * Splits CSV into records (RFC 4180; cells in quotes can have line breaks). Of a record with a quotation mark that is
 * never closed, or by a later row, only the first line is one.
 * @returns {{cells: string[], text: string, line: number, fault?: string}[]}
 */
const records = (text, separator, width) => {
  const found = [];
  let [cells, cell, isQuoted, begin, line, lineOfRecord, openQuotes] = [[], "", false, 0, 1, 1, 0];
  const finish = (end, fault) => {
    const source = text.slice(begin, end).replace(/\r$/, "");
    const whole = [...cells, cell.replace(/\r$/, "")];
    const all = fault ? whole.map((one) => one.split("\n")[0]) : whole;
    if (all.some((one) => trim(one) !== "")) found.push({ cells: all, text: source, line: lineOfRecord, fault });
    [cells, cell, isQuoted, begin, lineOfRecord] = [[], "", false, end + 1, line];
  };
  for (let at = 0; at <= text.length; at += 1) {
    const character = text[at];
    if (character === "\n") line += 1;
    if (character === undefined || (character === "\n" && !isQuoted)) {
      const isOpen = isQuoted && cell.includes("\n") && openQuotes < OPEN_QUOTES_MAX;
      if (isOpen || swallowsRows([...cells, cell], separator, width)) {
        openQuotes += isOpen ? 1 : 0;
        at = text.indexOf("\n", begin);
        line = lineOfRecord + 1;
        finish(at, OPEN_QUOTE);
      } else finish(at, isQuoted ? OPEN_QUOTE : undefined);
    } else if (isQuoted) {
      if (character !== '"') cell += character;
      else if (text[at + 1] === '"') cell += text[at += 1];
      else isQuoted = false;
    } else if (character === '"' && cell === "") isQuoted = true;
    else if (character === separator) {
      cells.push(cell);
      cell = "";
    } else cell += character;
  }
  return found;
};

/** Splits lines of a destination and, after white space, a slug. */
const plainLines = (text) => text.split("\n").map((source, index) => {
  const words = trim(source).split(/\s+/);
  const isComment = /^(#|\/\/(\s|$))/.test(trim(source));
  const fault = isComment ? COMMENT : words.length > 2 ? WORDS : undefined;
  return { cells: words.length === 1 || isComment ? [source] : words, text: source.replace(/\r$/, ""), line: index + 1, fault };
}).filter(({ text: source }) => trim(source) !== "");

/** Returns the name of a column in one spelling for `Destination URL` and `destination_url`. */
const spelling = (name) => trim(name).replace(/^"|"$/g, "").replace(/[\s_-]/g, "").toLowerCase();

const known = new Map([...READ, ...LEFT_OUT].map((name) => [spelling(name), name]));

/** Returns the text from its header on: without lines that say nothing, and a line `sep=;`, whose separator it names. */
const withoutBegin = (text) => {
  const [begin, , separator] = /^((?:[\s",;|]*\n|#[^\n,;|\t]*\n)*)(?:"?sep=(.)"?[^\S\t\n]*\n)?(?:[\s",;|]*\n|#[^\n,;|\t]*\n)*/i.exec(text);
  return { rest: text.slice(begin.length), named: separator, linesBefore: begin.split("\n").length - 1 };
};

const firstLineOf = (text) => text.split("\n").find((line) => trim(line) !== "") ?? "";

/** Returns separator and names of the columns; undefined if the first line names no destination. */
const headIn = (text, named) => {
  const line = firstLineOf(text);
  for (const separator of named ? [named] : SEPARATORS) {
    const names = line.split(separator).map((name) => trim(name).replace(/^"|"$/g, ""));
    if (names.some((name) => spelling(name) === spelling(DESTINATION))) return { separator, names };
  }
  return undefined;
};

/** Returns the number of letters to change, add or take away (Levenshtein). */
const distance = (one, other) => {
  let row = [...other].map((_, index) => index + 1);
  [...one].forEach((letter, index) => {
    let before = index;
    let last = index + 1;
    row = row.map((above, column) => {
      last = Math.min(above + 1, last + 1, before + (letter === other[column] ? 0 : 1));
      before = above;
      return last;
    });
  });
  return row.at(-1) ?? one.length;
};

/** Returns the fault of a head: too many columns, a repeated or an unknown one. A misspelt `slug` moves links. */
const faultOfHead = (names) => {
  if (names.length > COLUMNS_MAX) return `The header has more than ${count(COLUMNS_MAX, "column")}.`;
  const given = names.map(spelling).filter(Boolean);
  const isRead = (name) => !IGNORED.some((ignored) => spelling(ignored) === name);
  const repeated = given.find((name, index) => given.indexOf(name) !== index && isRead(name));
  if (repeated) return `Two columns are called “${known.get(repeated) ?? repeated}”.`;
  const unknown = names.find((name) => spelling(name) !== "" && !known.has(spelling(name)));
  if (unknown === undefined) return undefined;
  const far = (name) => distance(spelling(name), spelling(unknown));
  const nearest = READ.filter((name) => !given.includes(spelling(name)) && far(name) <= MISSPELT_MAX).sort((a, b) => far(a) - far(b))[0];
  const advice = nearest ? `Is it ${nearest}? Otherwise take the column away.` : "Take the column away.";
  return `There is no column “${unknown.slice(0, 64)}”. ${advice} Columns are: ${READ.join(", ")}. ${OTHERS}`;
};

/** Returns true for a slug, an address, and what another product takes for a slug: a path, or other scripts. */
const isOld = (text) => SLUG.test(text) || (!/[\s,;|]/.test(text) && isAddress(text)) || (/[/\u0080-\uffff]/.test(text) && /^[\w.~%/\u0080-\uffff-]+$/.test(text) && !/\s/.test(text));

/** Returns destination and slug, or old address, of a line that looks like a row; undefined for another line. */
const rowOf = (line, separator, order) => {
  const cells = line.split(separator).slice(0, 2).map(trim);
  // A quotation mark on one side only belongs to a cell with the separator inside.
  if (cells.length < 2 || cells.some((cell) => cell.startsWith('"') !== cell.endsWith('"') || cell === '"')) return undefined;
  const [address, slug] = ["destination_url", "slug"].map((name) => cells[order.indexOf(name)].replace(/^"|"$/g, ""));
  const isRow = isAddress(address) && (isOld(slug) || (slug === "" && order[0] === "destination_url"));
  return isRow ? [address, slug] : undefined;
};

/**
 * Returns the header that a list of addresses lacks: nearly all lines have a separator and a slug after an address.
 * `own` is the separator of a table, whose rows may have it.
 */
const missingHeader = (text, own) => {
  const lines = text.split("\n").map(trim).filter(Boolean);
  for (const separator of SEPARATORS.filter((one) => one !== own)) {
    for (const order of [["destination_url", "slug"], ["slug", "destination_url"]]) {
      const rows = lines.map((line) => rowOf(line, separator, order)).filter(Boolean);
      const slugs = rows.map(([, slug]) => slug.toLowerCase()).filter(Boolean);
      const name = slugs.filter((slug) => !SLUG.test(slug)).length * 2 > slugs.length ? "short_url" : "slug";
      const isTable = lines.length >= (separator === "\t" ? 1 : 2)
        && rows.length >= lines.length * NEARLY_ALL
        && slugs.length >= rows.length / 2
        && new Set(slugs).size >= slugs.length * NEARLY_ALL;
      if (isTable) return order.map((one) => (one === "slug" ? name : one)).join(separator === "\t" ? "<tab>" : separator);
    }
  }
  return undefined;
};

/** Returns the fault of rows that have another separator than their header. */
const faultOfRows = (text, separator) => {
  const header = missingHeader(text.slice(text.indexOf("\n") + 1), separator);
  return header && `The rows look separated in another way than the header. Write it like this: ${header}. If they are addresses as they are, put each between quotation marks.`;
};

/** Returns the fault of lines that are no list of addresses. */
const faultOfList = (text) => {
  const header = missingHeader(text);
  if (header) return `These look like the rows of a table whose header is missing. Write as the first line: ${header}`;
  const first = trim(firstLineOf(text));
  const isTable = /[,;|\t]/.test(first) && !isAddress(first);
  return isTable ? `The first line is neither an address nor does it name the column ${DESTINATION}. Columns are: ${READ.join(", ")}. ${OTHERS}` : undefined;
};

/**
 * Reads rows. The first line can name columns as the API names members, with `destination_url` among them. Without
 * such a line, each line is a destination and, after white space, perhaps a slug.
 * @param {string} source
 * @returns {{fault?: string, rows: import("./import_rule.js").Row[]}} `fault` is of the text as a whole
 */
export const rowsOf = (source) => {
  const text = source.replace(/^\uFEFF/, "").replace(/\r(?!\n)/g, "\n");
  const { rest, named, linesBefore } = withoutBegin(text);
  const head = headIn(rest, named);
  const fault = head ? faultOfHead(head.names) ?? faultOfRows(rest, head.separator) : faultOfList(text);
  if (fault) return { fault, rows: [] };
  const names = head?.names ?? [DESTINATION, "slug"];
  const positions = new Map(names.map((name, index) => [known.get(spelling(name)), index]));
  const unnamed = [...names.keys()].filter((at) => spelling(names[at]) === "");
  const others = SEPARATORS.filter((one) => one !== head?.separator);
  const rule = new Rule();
  const read = head ? records(rest, head.separator, names.length).slice(1) : plainLines(text);
  return {
    rows: read.map(({ cells, text: row, line, fault: broken }) => {
      const isExcess = cells.slice(names.length).some((cell) => trim(cell) !== "");
      const textOf = (name) => cells[positions.get(name)] ?? "";
      const isShort = Boolean(head) && cells.length < names.length;
      const isOther = isShort && others.some((other) => rowOf(textOf(DESTINATION), other, [DESTINATION, "slug"])?.[1]);
      const reason = broken ?? (isExcess ? EXCESS : isOther ? OTHER_SEPARATOR : undefined);
      const decided = rule.decide({ line: line + (head ? linesBefore : 0), text: row, isTable: Boolean(head), textOf, reason });
      // A slug in one of them would be lost.
      for (const at of unnamed.filter((column) => trim(cells[column] ?? "") !== "")) decided.changes.push(`not carried over: column ${at + 1} (no name) “${trim(cells[at])}”`);
      return decided;
    }),
  };
};
