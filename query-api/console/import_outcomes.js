// Outcomes of the rows of a list: counts, price, refused rows.

import { SLUG_TAKEN as TAKEN, canPass } from "./batches.js";
import { csv } from "./files.js";
import { count, number } from "./format.js";
import { copyButton, element, outwardLink } from "./dom.js";
import { MEMBERS, textOf } from "./link_members.js";
import { problemLine } from "./problem_view.js";

const SAMPLE_SIZE = 3;
const LINKS_SHOWN = 10;
const REFUSALS_SHOWN = 100;
const CHANGES_SHOWN = 20;
const UNPAID = "insufficient_credits";

/**
 * Returns the outcomes with the earlier row that has the slug of a refused one. Two rows with one slug that only lack
 * credits would not both be created, so the later one is refused.
 */
export const withRepeats = (rows, outcomes) => {
  const holders = new Map();
  return outcomes.map((outcome, index) => {
    const { problem } = outcome;
    const slug = rows[index].members.slug?.toLowerCase();
    const earlier = slug && holders.get(slug);
    if (earlier && (!problem || problem.code === TAKEN)) return { status: 409, replayed: false, problem: { code: TAKEN, earlier } };
    if (slug && !problem) holders.set(slug, rows[index]);
    return outcome;
  });
};

/**
 * Returns the outcomes that a dry run of the whole list would have without a limit of credits: each batch begins with
 * the whole balance.
 */
export const wholeOutcomes = (rows, outcomes) => withRepeats(rows, outcomes.map((outcome) => {
  const isWanted = outcome.status < 300 || outcome.problem?.code === UNPAID;
  return isWanted ? { status: 201, replayed: outcome.replayed } : outcome;
}));

const isNew = ({ status, replayed }) => status < 300 && !replayed;

/** Counts outcomes by kind. */
export const tally = (outcomes) => {
  const created = outcomes.filter(isNew).length;
  const replayed = outcomes.filter((outcome) => outcome.replayed).length;
  const unknown = outcomes.filter(canPass).length;
  return { created, replayed, unknown, refused: outcomes.length - created - replayed - unknown };
};

/**
 * Returns the cost of the new links of the whole list: the sum of the credits that the batches of the dry run would
 * charge, with the rows that the balance does not cover, and without the rows that repeat a slug of a batch before.
 */
export const costOf = ({ outcomes, charged }, created) => {
  const unpaid = outcomes.filter(({ problem }) => problem?.code === UNPAID);
  const sum = unpaid.reduce((total, { problem }) => total + problem.required, charged);
  const decided = unpaid.length + outcomes.filter(isNew).length;
  return decided > 0 ? Math.round((sum * created) / decided) : 0;
};

/** Returns the number of links that the balance covers; all links if the balance is unknown. */
export const payable = (created, cost, balance) => (
  balance !== null && cost > balance ? Math.floor((created * Math.max(0, balance)) / cost) : created);

/** Returns the cost beside the balance, in words. */
export const costText = (cost, balance) => {
  const missing = balance === null ? 0 : cost - balance;
  return `Costs ${count(cost, "credit")}.`
    + (missing > 0 ? ` The balance is ${number(balance)}: ${count(missing, "credit")} missing.` : "");
};

/** Returns the reason of a refusal; a taken slug is named, since nobody sees it in the row of an address. */
const reasonOf = ({ problem, row }) => {
  if (problem.code !== TAKEN) return problemLine(problem);
  const { earlier } = problem;
  if (!earlier) return `${problemLine(problem)} · “${row.members.slug}” is taken by another link; letter case does not count`;
  const isSame = earlier.address === row.address && earlier.members.destination_url === row.members.destination_url;
  return isSame
    ? `Line ${earlier.line} is the same link: see what became of it`
    : `Line ${earlier.line} has the slug already: “${earlier.address}” and “${row.address}” would be one address`;
};

/** Returns what became of each row as CSV, in the columns of `linkledger import --out`. */
export const resultAsCsv = (rows, outcomes) => csv([
  ["line", "old_address", "destination_url", "short_url", "status", "code", "reason", "changes"],
  ...outcomes.map((outcome, index) => {
    const { replayed, link, problem } = outcome;
    const row = rows[index];
    const status = canPass(outcome) ? "unknown" : problem ? "refused" : replayed ? "existing" : "created";
    return [
      row.line, row.address, link?.destination_url ?? row.members.destination_url, link?.short_url, status,
      problem?.code, problem && reasonOf({ problem, row }), row.changes.join("; "),
    ];
  }),
]);

/** Returns a table of the first differences between rows and their links; null if there are none. */
export const changeTable = (rows) => {
  const changes = rows.flatMap((row) => row.changes.map((change) => ({ line: row.line, change })));
  if (changes.length === 0) return null;
  return element(
    "table",
    null,
    element("caption", null, changes.length > CHANGES_SHOWN ? `The first ${CHANGES_SHOWN} of ${number(changes.length)} changes; the result as CSV has all` : "Changed to fit"),
    element("thead", null, element("tr", null, ["Line", "Change"].map((text) => element("th", { scope: "col" }, text)))),
    element("tbody", null, changes.slice(0, CHANGES_SHOWN).map(({ line, change }) => element(
      "tr",
      null,
      element("th", { scope: "row" }, number(line)),
      element("td", { "data-label": "Change", class: "address" }, change.slice(0, 300)),
    ))),
  );
};

/** Returns a table of the first rows, with the members that were read from them. */
export const sampleTable = (rows) => {
  const sample = rows.slice(0, SAMPLE_SIZE);
  const members = MEMBERS.filter(({ name }) => sample.some((row) => name in row.members));
  return element(
    "table",
    null,
    element("caption", null, "The first rows, as they are understood"),
    element("thead", null, element("tr", null, members.map(({ label }) => element("th", { scope: "col" }, label)))),
    element("tbody", null, sample.map((row) => element("tr", null, members.map((member, index) => element(
      index === 0 ? "th" : "td",
      { scope: index === 0 && "row", "data-label": member.label, class: "address" },
      textOf(member, row.members),
    ))))),
  );
};

/** Returns a table of the first links of a run; false if there are none. */
export const linkTable = (links) => links.length > 0 && element(
  "table",
  null,
  element("caption", null, links.length > LINKS_SHOWN ? `The first ${LINKS_SHOWN} of ${number(links.length)} links` : "Links"),
  element("thead", null, element("tr", null, ["Short link", "Destination"].map((text) => element("th", { scope: "col" }, text)))),
  element("tbody", null, links.slice(0, LINKS_SHOWN).map((link) => element(
    "tr",
    null,
    element("th", { scope: "row" }, element("a", { href: `#/links/${link.id}` }, link.short_url), " ", copyButton(link.short_url, link.short_url)),
    element("td", { "data-label": "Destination", class: "address" }, outwardLink(link.destination_url)),
  ))),
);

/** Returns a table of the refused rows; null if there are none. */
export const refusalTable = (rows, outcomes) => {
  const refused = outcomes.map((outcome, index) => ({ ...outcome, row: rows[index] })).filter((outcome) => outcome.problem && !canPass(outcome));
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
        element("td", { "data-label": "Refused because" }, reasonOf({ problem, row })),
      ))),
    ),
  ];
};
