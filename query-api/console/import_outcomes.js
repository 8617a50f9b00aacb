// Outcomes of the rows of a list: counts, price, refused rows.

import { canPass } from "./batches.js";
import { csv } from "./files.js";
import { count, number } from "./format.js";
import { copyButton, element, outwardLink } from "./dom.js";
import { MEMBERS, textOf } from "./link_members.js";
import { problemLine } from "./problem_view.js";

const REPEATED = { code: "slug_taken", title: "An earlier row of this list has the slug" };
const SAMPLE_SIZE = 3;
const LINKS_SHOWN = 10;
const REFUSALS_SHOWN = 100;
const UNPAID = "insufficient_credits";

/**
 * Returns the outcomes that a dry run of the whole list would have without a limit of credits. A dry run sees no
 * further than one batch: each begins with the whole balance, and knows no slugs of the batches before.
 */
export const wholeOutcomes = (rows, outcomes) => {
  const slugs = new Set();
  return outcomes.map((outcome, index) => {
    const isWanted = outcome.status < 300 || outcome.problem?.code === UNPAID;
    if (!isWanted) return outcome;
    const slug = rows[index].members.slug?.toLowerCase();
    if (slug && slugs.has(slug) && !outcome.replayed) return { status: 409, replayed: false, problem: REPEATED };
    slugs.add(slug);
    return { status: 201, replayed: outcome.replayed };
  });
};

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

/** Returns the rows with their outcomes as CSV. */
export const resultAsCsv = (rows, outcomes) => csv([
  ["line", "status", "replayed", "id", "short_url", "destination_url", "code", "detail"],
  ...outcomes.map(({ status, replayed, link, problem }, index) => [
    rows[index].line, status, replayed, link?.id, link?.short_url,
    link?.destination_url ?? rows[index].members.destination_url, problem?.code, problem && problemLine(problem),
  ]),
]);

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
        element("td", { "data-label": "Refused because" }, problemLine(problem)),
      ))),
    ),
  ];
};
