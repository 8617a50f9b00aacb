// Balance beside the charges of the last 7 days, and the days that the balance lasts at this rate.

import { element, replace } from "./dom.js";
import { count, number } from "./format.js";
import { problemView } from "./problem_view.js";
import { read } from "./api.js";

const DAYS = 7;
const DAY_MS = 86400000;
const PAGE_SIZE = 100;
/** Pages of the ledger that are read for the sum; beyond them the sum is a lower bound. */
const PAGES_MAX = 30;

/** Adds the charges of the last days, newest first, until an older entry or the limit. */
const chargesOfLastDays = async (signal) => {
  const since = Date.now() - DAYS * DAY_MS;
  let [charged, cursor] = [0, null];
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const { items, next_cursor: next } = await read("/v1/credits/entries", { limit: PAGE_SIZE, cursor }, signal);
    const recent = items.filter((entry) => Date.parse(entry.created_at) >= since);
    for (const entry of recent) {
      if (entry.type === "charge") charged -= entry.amount;
    }
    if (recent.length < items.length || next === null) return { charged, isWhole: true };
    cursor = next;
  }
  return { charged, isWhole: false };
};

const fact = (name, value, more) => element("div", null, element("dt", null, name), element("dd", null, value, more && element("span", { class: "quiet" }, ` ${more}`)));

const daysLeft = (balance, { charged, isWhole }) => {
  if (charged === 0) return "no charges to judge by";
  const days = Math.floor((balance / charged) * DAYS);
  return `${isWhole ? "" : "at most "}${count(days, "day")}`;
};

/** Returns the panel. */
export const creditsPanel = (signal) => {
  const place = element("dl", { class: "totals" }, fact("Balance", "…"));
  const fill = async () => {
    try {
      const [credits, charges] = await Promise.all([read("/v1/credits", null, signal), chargesOfLastDays(signal)]);
      replace(
        place,
        fact("Balance", number(credits.balance), "credits"),
        fact(`Charged in ${DAYS} days`, `${charges.isWhole ? "" : "over "}${number(charges.charged)}`),
        fact("Lasts at this rate", daysLeft(credits.balance, charges)),
        fact("Price of a link", number(credits.link_price)),
      );
    } catch (error) {
      if (!signal.aborted) place.replaceWith(problemView(error));
    }
  };
  fill();
  return element("section", { class: "credits" }, element("h2", null, "Credits"), place);
};
