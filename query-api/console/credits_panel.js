// Balance beside the charges of the last 7 days, and the days that the balance lasts at this rate.

import { element, replace } from "./dom.js";
import { count, number } from "./format.js";
import { problemView } from "./problem_view.js";
import { read } from "./api.js";

const DAYS = 7;
const DAY_MS = 86400000;
const DAYS_SHOWN_MAX = 3650;
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

const NAMES = ["Balance", `Charged in ${DAYS} days`, "Lasts at this rate", "Price of a link"];

const fact = (name, value) => element("div", null, element("dt", null, name), element("dd", null, value));

const daysLeft = (balance, { charged, isWhole }) => {
  if (charged === 0) return "no charges yet";
  const days = Math.floor((balance / charged) * DAYS);
  if (days > DAYS_SHOWN_MAX) return "more than 10 years";
  return `${isWhole ? "" : "at most "}${count(days, "day")}`;
};

/** Returns the panel. */
export const creditsPanel = (signal) => {
  const place = element("dl", { class: "totals" }, NAMES.map((name) => fact(name, "…")));
  const fill = async () => {
    try {
      const [credits, charges] = await Promise.all([read("/v1/credits", null, signal), chargesOfLastDays(signal)]);
      const values = [
        number(credits.balance),
        `${charges.isWhole ? "" : "over "}${number(charges.charged)}`,
        daysLeft(credits.balance, charges),
        number(credits.link_price),
      ];
      replace(place, values.map((value, index) => fact(NAMES[index], value)));
    } catch (error) {
      if (!signal.aborted) place.replaceWith(problemView(error));
    }
  };
  fill();
  return element("section", { class: "credits" }, element("h2", null, "Credits"), place);
};
