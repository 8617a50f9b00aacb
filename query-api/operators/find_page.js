// What a text of the find field means: the id of a link, an account or a key; a short address; otherwise a slug, or a
// part of an account's name or external id. A single hit is opened at once.

import { element, replace } from "../console/dom.js";
import { count, number } from "../console/format.js";
import { problemView } from "../console/problem_view.js";
import { read } from "../console/api.js";
import { stateBadge } from "./account_state.js";
import { cell, table, words } from "./layout.js";

const ID = /^(lnk|acc|key)_[0-7][0-9a-z]{25}$/;
const ADDRESS = /^https?:\/\//i;
const HOST_AND_PATH = /^[^/\s]+\.[^/\s]+\/\S/;
const TEXT_LENGTH_MIN = 3;
const ACCOUNTS_MAX = 20;
/** Codes of the API for a text that nothing is named by. */
const NOTHING = ["account_not_found", "key_not_found", "link_not_found", "invalid_parameter"];

const linkHit = (link) => ({ page: `#/links/${link.id}`, kind: "Link", name: link.short_url, about: link.destination_url });

const accountHit = (account) => ({
  page: `#/accounts/${account.id}`,
  kind: "Account",
  name: account.name,
  about: [stateBadge(account), ` ${account.external_id ?? account.id}, ${count(account.balance, "credit")}`],
});

const NOTHING_FOUND = "Nothing has this name: no link this slug, id or short address, and no account this id, or this text in its name or external id.";

/** Returns the searches for a text: each returns its hits. */
const searchesFor = (text, signal) => {
  const get = (path, query) => read(`/admin/v1${path}`, query, signal);
  const link = async (query) => [linkHit(await get("/links", query))];
  const accounts = async (query) => (await get("/accounts", { ...query, limit: ACCOUNTS_MAX })).items.map(accountHit);
  if (text === "") return [];
  const [, kind] = text.match(ID) ?? [];
  if (kind === "lnk") return [link({ id: text })];
  if (kind === "acc") return [get(`/accounts/${text}`).then((account) => [accountHit(account)])];
  if (kind === "key") return [get(`/keys/${text}`).then(({ account_id: id }) => get(`/accounts/${id}`)).then((account) => [accountHit(account)])];
  if (ADDRESS.test(text)) return [link({ short_url: text })];
  if (HOST_AND_PATH.test(text)) return [link({ short_url: `https://${text}` }), accounts({ q: text })];
  return [link({ slug: text }), accounts(text.length < TEXT_LENGTH_MIN ? { external_id: text } : { q: text })];
};

/** Returns the hits of a search; none if nothing has the name. */
const hitsOf = async (search) => {
  try {
    return await search;
  } catch (error) {
    if (NOTHING.includes(error.code)) return [];
    throw error;
  }
};

const row = ({ page, kind, name, about }) => element(
  "tr",
  null,
  element("th", { scope: "row" }, element("a", { href: page }, words(name))),
  cell("Kind", kind),
  cell("About", about, "address"),
);

const listOf = (hits) => [
  element("p", { role: "status" }, hits.length < ACCOUNTS_MAX ? `${number(hits.length)} found.` : `The first ${number(hits.length)} of those found.`),
  table("What was found", ["Name", "Kind", "About"], element("tbody", null, hits.map(row))),
];

/** Opens the page. */
export const open = async ({ main, query, signal, reopen }) => {
  const text = (query.get("q") ?? "").trim();
  document.title = "Find · linkledger operators";
  const found = element("section", { id: "found" }, element("p", { role: "status" }, "Searching …"));
  main.append(element("h1", null, "Find: ", element("bdi", null, text)), found);
  const follow = () => reopen();
  try {
    const hits = (await Promise.all(searchesFor(text, signal).map(hitsOf))).flat();
    if (signal.aborted) return follow;
    if (hits.length === 1) {
      // The way back leads to the page before, and not here again.
      history.replaceState(null, "", hits[0].page);
      reopen();
      return follow;
    }
    replace(found, hits.length === 0 ? element("p", { role: "status", class: "empty" }, NOTHING_FOUND) : listOf(hits));
  } catch (error) {
    if (!signal.aborted) replace(found, problemView(error));
  }
  return follow;
};
