// Many new links from a pasted text or a file: preview, progress, result. Nothing about a run is kept but its
// text and name, since the keys of its rows follow from these: a second run continues the first.

import { announce, element, field, replace } from "./dom.js";
import { count, csv, download, number } from "./format.js";
import { draftOf } from "./draft.js";
import { keysOf } from "./item_keys.js";
import { MEMBERS } from "./link_members.js";
import { problemLine, problemView } from "./problem_view.js";
import { rowsOf } from "./link_rows.js";
import { sendItems } from "./batches.js";

const ROWS_MAX = 10000;
const BYTES_MAX = 20 * 1024 * 1024;
const REFUSALS_SHOWN = 100;

const COLUMNS = MEMBERS.map(({ name }) => name).join(", ");

const draft = draftOf("many-links");

/**
 * @typedef {object} Row
 * @property {number} line
 * @property {string} text
 * @property {object} members
 * @property {string} key
 */

/** Returns the rows of a list with their keys. */
const keyedRows = async (name, text) => {
  const rows = rowsOf(text);
  const keys = await keysOf(name, rows.map((row) => row.text));
  return rows.map((row, index) => ({ ...row, key: keys[index] }));
};

const itemOf = ({ key, members }) => ({ idempotency_key: key, ...members });

/** Slugs that an earlier row of the list has; a dry run sees no further than one batch. */
const repeatedSlugs = (rows) => {
  const [seen, repeated] = [new Set(), new Set()];
  for (const row of rows) {
    const slug = row.members.slug?.toLowerCase();
    if (slug && seen.has(slug)) repeated.add(row);
    seen.add(slug);
  }
  return repeated;
};

const REPEATED = { code: "slug_taken", title: "The slug stands in an earlier row of this list" };

/** Counts outcomes by kind. */
const tally = (outcomes) => {
  const created = outcomes.filter(({ status, replayed }) => status < 300 && !replayed).length;
  const replayed = outcomes.filter((outcome) => outcome.replayed).length;
  return { created, replayed, refused: outcomes.length - created - replayed };
};

const resultAsCsv = (rows, outcomes) => csv([
  ["line", "status", "replayed", "id", "short_url", "destination_url", "code", "detail"],
  ...outcomes.map(({ status, replayed, link, problem }, index) => [
    rows[index].line, status, replayed, link?.id, link?.short_url,
    link?.destination_url ?? rows[index].members.destination_url, problem?.code, problem && problemLine(problem),
  ]),
]);

const refusalTable = (rows, outcomes) => {
  const refused = outcomes.map((outcome, index) => ({ ...outcome, row: rows[index] })).filter(({ problem }) => problem);
  if (refused.length === 0) return null;
  const head = ["Line", "Row", "Refused because"];
  return [
    element(
      "table",
      null,
      element("caption", null, refused.length > REFUSALS_SHOWN ? `The first ${REFUSALS_SHOWN} of ${number(refused.length)} refused rows` : "Refused rows"),
      element("thead", null, element("tr", null, head.map((text) => element("th", { scope: "col" }, text)))),
      element("tbody", null, refused.slice(0, REFUSALS_SHOWN).map(({ row, problem }) => element(
        "tr",
        null,
        element("th", { scope: "row" }, number(row.line)),
        element("td", { "data-label": "Row", class: "address" }, row.text.slice(0, 300)),
        element("td", { "data-label": "Refused because" }, problemLine(problem)),
      ))),
    ),
  ];
};

class Import {
  constructor({ signal, oncreated }) {
    this.signal = signal;
    this.oncreated = oncreated;
    this.text = element("textarea", {
      id: "rows", rows: 7, spellcheck: "false", autocapitalize: "none", oninput: () => this.keep(),
      placeholder: "https://example.com/first\nhttps://example.com/second  my-slug",
    });
    this.name = element("input", { id: "list-name", maxlength: 200, autocomplete: "off", oninput: () => this.keep() });
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
          field("Name of the list", this.name, "The same rows under the same name create nothing twice. Under another name they are new links."),
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
    replace(this.outcome);
    this.file.value = "";
    this.show();
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
    this.text.value = await file.text();
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
      element("p", { class: "actions" }, element("button", { type: "button", class: "primary", onclick: () => this.create() }, "Continue")),
    );
  }

  /** Reads the rows; undefined, with a message, if there are none or too many. */
  async rows() {
    const rows = await keyedRows(this.name.value, this.text.value);
    if (rows.length === 0) this.say("There are no rows yet.");
    else if (rows.length > ROWS_MAX) this.say(`These are ${number(rows.length)} rows; the console takes ${number(ROWS_MAX)}. Use linkledger import, or cut the list.`);
    else return rows;
    return undefined;
  }

  /** Sends the rows with visible progress; undefined if stopped or refused as a whole. */
  async run(mode, verb, rows) {
    this.stop?.abort();
    const stop = new AbortController();
    this.stop = stop;
    const progress = element("progress", { max: rows.length, value: 0, "aria-label": verb });
    const text = element("p", { role: "status" });
    const again = element("p", { class: "quiet" });
    replace(this.outcome, text, progress, again, element("p", { class: "actions" }, element("button", { type: "button", onclick: () => stop.abort() }, "Stop")));
    const result = { outcomes: [], charged: 0, balance: null };
    const options = {
      signal: AbortSignal.any([this.signal, stop.signal]),
      onRetry: () => replace(again, "The last rows are sent again under the same keys: nothing is created or charged twice."),
    };
    try {
      replace(text, `${verb} …`);
      for await (const batch of sendItems(mode, rows.map(itemOf), options)) {
        result.outcomes.push(...batch.outcomes);
        result.charged += batch.charged;
        result.balance = batch.balance ?? result.balance;
        progress.value = result.outcomes.length;
        replace(text, `${verb}: ${number(result.outcomes.length)} of ${count(rows.length, "row")}`);
        replace(again);
      }
      return result;
    } catch (error) {
      // Another run, or another page, has taken the place.
      if (this.signal.aborted || this.stop !== stop) return undefined;
      const tried = count(result.outcomes.length, "row");
      if (error.problem) replace(this.outcome, problemView(error), element("p", null, `${tried} of ${number(rows.length)} were answered. Preview and create again to continue.`));
      else this.say(`Stopped after ${tried}. Preview and create again to continue.`);
      return undefined;
    }
  }

  async preview(event) {
    event?.preventDefault();
    const rows = await this.rows();
    const result = rows && (await this.run("dry_run", "Checking", rows));
    if (!result) return;
    const repeated = repeatedSlugs(rows);
    const outcomes = result.outcomes.map((outcome, index) => (
      outcome.status < 300 && !outcome.replayed && repeated.has(rows[index]) ? { status: 409, replayed: false, problem: REPEATED } : outcome));
    this.showPreview(rows, outcomes, result);
  }

  showPreview(rows, outcomes, { charged, balance }) {
    const { created, replayed, refused } = tally(outcomes);
    const total = created + replayed > 0 ? charged : 0;
    const counts = [
      `${count(created, "new link")}`,
      replayed > 0 && `${count(replayed, "link")} of an earlier run, not charged again`,
      refused > 0 && `${count(refused, "row")} refused`,
    ].filter(Boolean).join(" · ");
    const create = element("button", { type: "button", class: "primary", onclick: () => this.create() }, replayed > 0 && created === 0 ? "Show the links" : `Create ${count(created, "link")}`);
    replace(
      this.outcome,
      element("p", { role: "status", class: "counts" }, counts),
      element("p", null, `Costs ${count(total, "credit")}.`, balance !== null && ` A dry run: nothing was created or charged.`),
      created + replayed > 0 && element("p", { class: "actions" }, create),
      refusalTable(rows, outcomes),
    );
    create.focus();
    announce(counts);
  }

  async create() {
    const rows = await this.rows();
    if (!rows) return;
    this.keep(true);
    if (!this.isKept) announce("The list is too long to be kept in this tab: after a reload choose the file again.");
    const result = await this.run("partial", "Creating", rows);
    if (!result) return;
    this.keep(false);
    this.showResult(rows, result);
    this.oncreated();
  }

  showResult(rows, { outcomes, charged, balance }) {
    const { created, replayed, refused } = tally(outcomes);
    const save = () => download("result.csv", "text/csv", resultAsCsv(rows, outcomes));
    replace(
      this.outcome,
      element(
        "p",
        { role: "status", class: "counts" },
        `${count(created, "link")} created`,
        replayed > 0 && ` · ${number(replayed)} existed already`,
        refused > 0 && ` · ${number(refused)} refused`,
      ),
      element("p", null, `Charged ${count(charged, "credit")}.`, balance !== null && ` Balance: ${number(balance)}.`),
      element(
        "p",
        { class: "actions" },
        element("button", { type: "button", class: "primary", onclick: save }, "Result as CSV"),
        element("a", { class: "button", href: "#/links" }, "To the links"),
        element("button", { type: "button", onclick: () => this.reset() }, "Next list"),
      ),
      refusalTable(rows, outcomes),
    );
    announce(`${created} created, ${refused} refused`);
  }
}

/** Returns the form. */
export const importForm = (options) => new Import(options).view;
