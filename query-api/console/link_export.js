// Links as CSV: the selected ones, or the whole list with its filters.

import { csv, download } from "./files.js";
import { count } from "./format.js";
import { MEMBERS, textOf } from "./link_members.js";
import { element, replace } from "./dom.js";
import { problemView } from "./problem_view.js";
import { send } from "./api.js";
import { apiKey } from "./session.js";

const PAGE_SIZE = 100;
/** Links in one file; `linkledger links list` has no limit. */
const LINKS_MAX = 50000;

/** Returns links as CSV. The columns that `linkledger` and this console read back have their names of the API. */
export const linksAsCsv = (links) => {
  const written = MEMBERS.filter(({ name }) => name !== "slug");
  const head = ["id", "short_url", "slug", ...written.map(({ name }) => name), "disabled_by", "created_at"];
  const rows = links.map((link) => [
    link.id,
    link.short_url,
    link.short_url.slice(link.short_url.lastIndexOf("/") + 1),
    ...written.map((member) => textOf(member, link)),
    link.disabled_by,
    link.created_at,
  ]);
  return csv([head, ...rows]);
};

/** Offers links as a file. */
export const saveLinks = (links) => download("links.csv", "text/csv", linksAsCsv(links));

/**
 * Reads the whole list, shows the progress in `place`, and offers the file. A reading that broke off can go on, but not
 * with another key.
 */
export const exportLinks = async (filters, place, signal) => {
  const links = [];
  const key = apiKey();
  let cursor = "";
  const button = (label, onclick) => element("button", { type: "button", class: "small", onclick }, label);
  const readAll = async () => {
    const stop = new AbortController();
    const progress = element("span");
    replace(place, element("p", { class: "actions" }, progress, button("Stop", () => stop.abort())));
    while (cursor !== null && links.length < LINKS_MAX) {
      const query = { ...filters, cursor, limit: PAGE_SIZE };
      const { body: page } = await send("GET", "/v1/links", { query, key, signal: AbortSignal.any([signal, stop.signal]) });
      links.push(...page.items);
      cursor = page.next_cursor;
      replace(progress, `${count(links.length, "link")} read …`);
    }
  };
  const save = () => {
    saveLinks(links);
    const isCut = cursor !== null ? ": the list goes on; the command line has no limit" : "";
    replace(place, element("p", null, `${count(links.length, "link")} saved as links.csv${isCut}.`));
  };
  const run = async () => {
    try {
      await readAll();
    } catch (error) {
      if (signal.aborted) return;
      replace(
        place,
        error.name !== "AbortError" && problemView(error),
        element("p", { class: "actions" }, `${count(links.length, "link")} read.`, key === apiKey() && button("Read on", run), links.length > 0 && button("Save these", save)),
      );
      return;
    }
    save();
  };
  await run();
};
