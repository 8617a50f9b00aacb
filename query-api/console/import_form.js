// Many new links from a pasted text or a file: preview, progress, result. Nothing about a run is kept but its
// text and name, since the keys of its rows follow from these: a second run continues the first.

import { announce, element, field, replace } from "./dom.js";
import { download } from "./files.js";
import { count, number } from "./format.js";
import { draftOf } from "./draft.js";
import { keysOf } from "./item_keys.js";
import { MEMBERS } from "./link_members.js";
import { problemView } from "./problem_view.js";
import { changeTable, costOf, costText, linkTable, payable, refusalTable, resultAsCsv, sampleTable, tally, wholeOutcomes, withRepeats } from "./import_outcomes.js";
import { apiKey } from "./session.js";
import { selectLinks } from "./links_page.js";
import { rowsOf } from "./link_rows.js";
import { canPass, sendItems } from "./batches.js";

const ROWS_MAX = 10000;
const BYTES_MAX = 20 * 1024 * 1024;

const COLUMNS = MEMBERS.map(({ name }) => name).join(", ");

const draft = draftOf("many-links");

/** Returns the rows of a list with their keys. */
const keyedRows = async (name, rows) => {
  const keys = await keysOf(name, rows.map((row) => row.keyText));
  return rows.map((row, index) => ({ ...row, key: keys[index] }));
};

const itemOf = ({ key, members }) => ({ idempotency_key: key, ...members });

/** Marks of encodings at the begin of a file. */
const MARKS = [["utf-16le", [0xff, 0xfe]], ["utf-16be", [0xfe, 0xff]]];

/**
 * Returns the text of a file. In a file of UTF-8, bytes that are none refuse their row; a file without any character
 * of UTF-8 beyond ASCII is in another encoding.
 */
const textOf = async (file) => {
  let bytes;
  try {
    bytes = new Uint8Array(await file.arrayBuffer());
  } catch {
    throw new Error(`${file.name} can't be read.`);
  }
  if ([0x50, 0x4b, 3, 4].every((byte, index) => bytes[index] === byte)) throw new Error(`${file.name} is a spreadsheet: export it as “CSV UTF-8”, and choose that file.`);
  const [encoding] = MARKS.find(([, mark]) => mark.every((byte, index) => bytes[index] === byte)) ?? ["utf-8"];
  const text = new TextDecoder(encoding).decode(bytes);
  const at = text.indexOf("\uFFFD");
  if (encoding === "utf-8" && at >= 0 && !/[^\0-\x7f\uFFFD]/.test(text)) {
    const line = text.slice(0, at).split("\n").length;
    throw new Error(`${file.name} is no text in UTF-8 (line ${number(line)}): save it as “CSV UTF-8”, and choose it again.`);
  }
  return text;
};

class Import {
  constructor({ signal, oncreated }) {
    this.signal = signal;
    this.oncreated = oncreated;
    this.text = element("textarea", {
      id: "rows", rows: 7, spellcheck: "false", autocapitalize: "none", oninput: () => this.edit(),
      placeholder: "https://example.com/first\nhttps://example.com/second  my-slug",
    });
    this.name = element("input", { id: "list-name", maxlength: 200, autocomplete: "off", oninput: () => this.edit() });
    this.file = element("input", { id: "file", type: "file", accept: ".csv,.tsv,.txt,text/*", onchange: () => this.take(this.file.files[0]) });
    this.outcome = element("div", { class: "outcome" });
    this.view = element("div", { class: "import", ondragover: (event) => this.drag(event, true), ondragleave: (event) => this.drag(event, false), ondrop: (event) => this.drop(event) });
    this.show();
  }

  show() {
    const kept = draft.read();
    this.text.value = kept?.text ?? "";
    this.name.value = kept?.name ?? "";
    replace(
      this.view,
      element(
        "form",
        { onsubmit: (event) => this.preview(event) },
        field("Paste rows", this.text, `One destination per line, after a space perhaps its slug. Or CSV whose first line names its columns: ${COLUMNS}.`),
        element(
          "div",
          { class: "row" },
          field("Or choose or drop a file", this.file, `Up to ${number(ROWS_MAX)} rows.`),
          field("Name of the list (optional)", this.name, "The same rows under the same name create nothing twice. Under another name they are new links."),
        ),
        element("p", { class: "actions" }, element("button", { class: "primary" }, "Preview"), element("button", { type: "button", onclick: () => this.reset() }, "Start over")),
      ),
      this.outcome,
    );
    if (kept?.isRunning) this.offerToContinue();
  }

  reset() {
    draft.clear();
    this.stop?.abort();
    this.stop = undefined;
    this.lock(false);
    replace(this.outcome);
    this.file.value = "";
    this.show();
  }

  /** Clears what was shown about the text before. The text can't be edited during a run. */
  edit() {
    this.keep();
    replace(this.outcome);
  }

  lock(isOn) {
    this.text.readOnly = isOn;
    this.name.readOnly = isOn;
  }

  keep(isRunning = false) {
    this.isKept = draft.write({ text: this.text.value, name: this.name.value, isRunning });
  }

  drag(event, isOver) {
    event.preventDefault();
    this.view.classList.toggle("over", isOver);
  }

  drop(event) {
    this.drag(event, false);
    this.take(event.dataTransfer.files[0]);
  }

  async take(file) {
    if (!file) return;
    if (file.size > BYTES_MAX) {
      this.say(`${file.name} is larger than 20 MiB: use linkledger import.`);
      return;
    }
    try {
      this.text.value = await textOf(file);
    } catch (error) {
      this.say(error.message);
      return;
    }
    this.name.value = file.name;
    this.keep();
    await this.preview();
  }

  say(text, ...more) {
    replace(this.outcome, element("p", { role: "status" }, text), more);
  }

  offerToContinue() {
    this.say(
      "This list was interrupted. Links that exist are not created again, and not charged again.",
      element("p", { class: "actions" }, element("button", { type: "button", class: "primary", onclick: () => this.preview() }, "Continue")),
    );
  }

  /** Reads the rows; undefined, with a message, if there are none or too many, or the browser makes no keys. */
  async rows() {
    const { fault, rows } = rowsOf(this.text.value);
    if (fault) this.say(fault);
    else if (rows.length === 0) this.say("There are no rows yet.");
    else if (rows.length > ROWS_MAX) this.say(`These are ${number(rows.length)} rows; the console takes ${number(ROWS_MAX)}. Use linkledger import, or cut the list.`);
    else {
      this.lock(true);
      try {
        return await keyedRows(this.name.value, rows);
      } catch (error) {
        replace(this.outcome, problemView(error));
      } finally {
        this.lock(false);
      }
    }
    return undefined;
  }

  /** Sends the rows without fault with visible progress; undefined if stopped or refused as a whole. */
  async run(mode, verb, rows) {
    this.stop?.abort();
    const stop = new AbortController();
    this.stop = stop;
    this.lock(true);
    const sent = rows.filter(({ fault }) => !fault);
    const progress = element("progress", { max: sent.length, value: 0, "aria-label": verb });
    const text = element("p", { role: "status" });
    const again = element("p", { class: "quiet" });
    replace(this.outcome, text, progress, again, element("p", { class: "actions" }, element("button", { type: "button", onclick: () => stop.abort() }, "Stop")));
    const result = { outcomes: [], charged: 0, balance: null, before: null };
    let answered = 0;
    const options = {
      key: this.key,
      signal: AbortSignal.any([this.signal, stop.signal]),
      onRetry: () => replace(again, "The last rows are sent again under the same keys: nothing is created or charged twice."),
    };
    try {
      replace(text, `${verb} …`);
      for await (const batch of sendItems(mode, sent.map(itemOf), options)) {
        batch.indices.forEach((index, position) => {
          result.outcomes[index] = batch.outcomes[position];
        });
        answered += batch.indices.length;
        result.charged += batch.charged;
        result.balance = batch.balance ?? result.balance;
        result.before ??= batch.before;
        progress.value = answered;
        replace(text, `${verb}: ${number(answered)} of ${count(sent.length, "row")}`);
        replace(again);
      }
      const outcomes = result.outcomes.values();
      return { ...result, outcomes: rows.map(({ fault }) => (fault ? { status: 422, replayed: false, problem: fault } : outcomes.next().value)) };
    } catch (error) {
      // Another run, or another page, has taken the place.
      if (this.signal.aborted || this.stop !== stop) return undefined;
      const tried = count(answered, "row");
      if (!stop.signal.aborted) replace(this.outcome, problemView(error), element("p", null, `${tried} of ${number(sent.length)} were answered. Preview and create again to continue.`));
      else this.say(`Stopped after ${tried}. Preview and create again to continue.`);
      return undefined;
    } finally {
      if (this.stop === stop) this.lock(false);
    }
  }

  async preview(event) {
    event?.preventDefault();
    this.key = apiKey();
    const rows = await this.rows();
    const result = rows && (await this.run("dry_run", "Checking", rows));
    if (result) this.showPreview(rows, result);
  }

  showPreview(rows, result) {
    const outcomes = wholeOutcomes(rows, result.outcomes);
    const { created, replayed, refused, unknown } = tally(outcomes);
    const cost = costOf(result, created);
    const creatable = payable(created, cost, result.before);
    const counts = [
      `${count(created, "new link")}`,
      replayed > 0 && `${count(replayed, "link")} of an earlier run, not charged again`,
      refused > 0 && `${count(refused, "row")} refused`,
      unknown > 0 && `${count(unknown, "row")} with unknown outcome: preview again`,
    ].filter(Boolean).join(" · ");
    const create = element("button", { type: "button", class: "primary", onclick: () => this.create(rows) }, replayed > 0 && creatable === 0 ? "Show the links" : `Create ${count(creatable, "link")}`);
    replace(
      this.outcome,
      element("p", { role: "status", class: "counts" }, counts),
      element("p", null, costText(cost, result.before), " A dry run: nothing was created or charged."),
      creatable + replayed > 0 && element("p", { class: "actions" }, create),
      refusalTable(rows, outcomes),
      changeTable(rows),
      sampleTable(rows),
    );
    create.focus();
    announce(counts);
  }

  /** Creates the links of exactly these rows. */
  async create(rows) {
    this.keep(true);
    if (!this.isKept) announce("The list is too long to be kept in this tab: after a reload choose the file again.");
    const result = await this.run("partial", "Creating", rows);
    if (!result) return;
    this.keep(result.outcomes.some(canPass));
    this.showResult(rows, { ...result, outcomes: withRepeats(rows, result.outcomes) });
    this.oncreated();
  }

  showResult(rows, { outcomes, charged, balance }) {
    const { created, replayed, refused, unknown } = tally(outcomes);
    const links = outcomes.map(({ link }) => link).filter(Boolean);
    const save = () => download("result.csv", "text/csv", resultAsCsv(rows, outcomes));
    replace(
      this.outcome,
      element(
        "p",
        { role: "status", class: "counts" },
        `${count(created, "link")} created`,
        replayed > 0 && ` · ${number(replayed)} existed already`,
        refused > 0 && ` · ${number(refused)} refused`,
        unknown > 0 && ` · ${number(unknown)} with unknown outcome: run again`,
      ),
      element("p", null, `Charged ${count(charged, "credit")}.`, balance !== null && ` Balance: ${number(balance)}.`),
      element(
        "p",
        { class: "actions" },
        unknown > 0 && element("button", { type: "button", class: "primary", onclick: () => this.create(rows) }, "Run again"),
        links.length > 0 && element("a", { class: `button ${unknown === 0 ? "primary" : ""}`, href: "#/links", onclick: () => selectLinks(links) }, "Tag or change them in the list"),
        element("button", { type: "button", onclick: save }, "Result as CSV"),
      ),
      linkTable(links),
      refusalTable(rows, outcomes),
      changeTable(rows),
    );
    announce(`${created} created, ${refused} refused`);
  }
}

/** Returns the form. */
export const importForm = (options) => new Import(options).view;
