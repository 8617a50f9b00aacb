// An empty list of links: the first step of an account without links, or the text that was looked for, and where else
// to look for it.

import { element } from "./dom.js";
import { tagsIn } from "./format.js";

/** Meanings of a text: the parameter, the sentence about nothing found, the offer to look for the text so. */
const MEANINGS = [
  { name: "slug_prefix", sentence: "No slug begins with", offer: "as the beginning of a slug", shape: /^[A-Za-z0-9][\w.-]{0,63}$/ },
  { name: "slug", sentence: "No link has the slug" },
  { name: "tag", sentence: "No link has the tag", offer: "as a tag", shape: /^[\p{L}\p{Nd}][^,]{0,63}$/u, parse: (text) => tagsIn(text).join(",") },
  { name: "destination_host", sentence: "No link leads to the host", offer: "as a host", shape: /^[^\s/]+\.[^\s/]+$/ },
  { name: "destination_url", sentence: "No link leads to" },
  { name: "external_id", sentence: "No link has the external id", offer: "as an external id", shape: /^\S+$/ },
];

const addressOf = (filters) => `#/links?${new URLSearchParams(filters)}`;

/** Returns where else a text can be looked for, with the other filters; for an address also its host. */
const offersFor = (text, given, others) => {
  const host = given.name === "destination_url" && URL.canParse(text) && new URL(text).hostname;
  if (host) return [["by its host", { ...others, destination_host: host }]];
  return MEANINGS.filter(({ name, shape }) => name !== given.name && shape?.test(text))
    .map(({ name, offer, parse }) => [offer, { ...others, [name]: parse ? parse(text) : text }]);
};

/** Returns what a list without links says. */
export const emptyList = (filters) => {
  const given = MEANINGS.find(({ name }) => filters[name]);
  const isFiltered = (names) => names.some((name) => name !== "sort");
  if (!isFiltered(Object.keys(filters))) {
    return [
      element("p", null, "There are no links yet."),
      element("p", null, element("a", { href: "#/create" }, "Create one, or many from a file")),
    ];
  }
  if (!given) return element("p", null, "No link meets these filters.");
  const { [given.name]: text, ...others } = filters;
  const rest = isFiltered(Object.keys(others)) ? " and meets the other filters" : "";
  const offers = offersFor(text, given, others);
  return [
    element("p", null, `${given.sentence} “${text}”${rest}. Titles and parts of addresses are not searched.`),
    offers.length > 0 && element("p", { class: "offers" }, "Look for it: ", offers.map(([offer, wanted]) => element("a", { href: addressOf(wanted) }, offer))),
  ];
};
