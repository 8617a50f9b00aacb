// Rows of a pasted text or a file, as members of new links.

import { unguarded } from "./files.js";
import { MEMBERS, valueOf } from "./link_members.js";

const MANDATORY = "destination_url";
const EXCESS = { title: "The row has more cells than there are columns: quote cells that contain the separator" };
const EXCESS_WORDS = { title: "The line has more than a destination and a slug" };
/** Columns of the files of this console that are no members of a new link. */
const WRITTEN = ["id", "short_url", "disabled_by", "created_at", "line", "status", "replayed", "code", "detail"];
const SEPARATORS = [",", ";", "\t"];

/**
 * Splits CSV into records (RFC 4180; cells in quotes can have line breaks).
 * @returns {{cells: string[], text: string, line: number}[]}
 */
const records = (text, separator) => {
  const found = [];
  let [cells, cell, isQuoted, begin, line, lineOfRecord] = [[], "", false, 0, 1, 1];
  const finish = (end) => {
    const source = text.slice(begin, end).replace(/\r$/, "");
    if (source.trim() !== "") found.push({ cells: [...cells, cell.replace(/\r$/, "")], text: source, line: lineOfRecord });
    [cells, cell, begin, lineOfRecord] = [[], "", end + 1, line];
  };
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (character === "\n") line += 1;
    if (isQuoted) {
      if (character !== '"') cell += character;
      else if (text[at + 1] === '"') cell += text[at += 1];
      else isQuoted = false;
    } else if (character === '"' && cell === "") isQuoted = true;
    else if (character === separator) {
      cells.push(cell);
      cell = "";
    } else if (character === "\n") finish(at);
    else cell += character;
  }
  finish(text.length);
  return found;
};

/** Splits lines of a destination and, after white space, a slug. */
const plainLines = (text) => text.split("\n").map((line, index) => {
  const source = line.replace(/\r$/, "");
  return { cells: source.trim().split(/\s+/), text: source, line: index + 1 };
}).filter(({ text: source }) => source.trim() !== "");

const firstLine = (source) => source.replace(/^\uFEFF/, "").split("\n", 1)[0].trim();

const namesIn = (line) => {
  for (const separator of SEPARATORS) {
    const names = line.split(separator).map((name) => name.trim().replace(/^"|"$/g, "").toLowerCase());
    if (names.includes(MANDATORY)) return { separator, names };
  }
  return undefined;
};

/** Returns the columns of a text that name no member of a link, and none that the console itself writes. */
export const ignoredColumns = (source) => {
  const names = namesIn(firstLine(source))?.names ?? [];
  return names.filter((name) => name && !WRITTEN.includes(name) && !MEMBERS.some((member) => member.name === name));
};

/**
 * Reads rows. The first line can name columns as the API names members, with `destination_url` among them;
 * columns with other names are ignored. Without such a line, each line is a destination and, after white
 * space, perhaps a slug. A row with more than that has a `fault`.
 * @param {string} source
 * @returns {{line: number, text: string, members: object, fault?: object}[]}
 */
export const rowsOf = (source) => {
  const text = source.replace(/^\uFEFF/, "");
  const head = namesIn(firstLine(source));
  const names = head?.names ?? [MANDATORY, "slug"];
  const rows = head ? records(text, head.separator).slice(1) : plainLines(text);
  return rows.map(({ cells, text: row, line }) => {
    const textOf = ({ name }) => {
      const cell = cells[names.indexOf(name)] ?? "";
      return head ? unguarded(cell) : cell;
    };
    const pairs = MEMBERS.map((member) => [member.name, valueOf(member, textOf(member))]);
    const isExcess = cells.slice(names.length).some((cell) => cell.trim() !== "");
    const fault = isExcess ? (head ? EXCESS : EXCESS_WORDS) : undefined;
    return { line, text: row, fault, members: Object.fromEntries(pairs.filter(([, value]) => value !== undefined)) };
  });
};
