// Meaning of a text in the search that is more than a word: a short link, a destination, a host, several tags.

import { ApiProblem, read } from "./api.js";
import { tagsIn } from "./format.js";

// The last label of a host is no number, that of a slug such as v2.1 may be one.
const HOST = /^[^/\s]+\.(?!\d+$)[^/\s]+$/;
const SLUG_BEGIN = /^[A-Za-z0-9][\w.-]{0,63}$/;
const HOST_AND_PATH = /^[^/\s]+\.[^/\s]+\//;
const SCHEME = /^https?:\/\//i;
const SLUGS = ["slug", "slug_prefix"];

/** Beginning of the short addresses, once a link was read. */
let shortHost;

const readShortHost = async (signal) => {
  const { items: [link] } = await read("/v1/links", { limit: 1 }, signal);
  return link?.short_url.slice(0, link.short_url.lastIndexOf("/") + 1);
};

/** Returns the slug of a short link, with or without its scheme; undefined for any other text. */
const slugOf = (text) => {
  if (!shortHost) return undefined;
  const [link, begin] = [text, shortHost].map((address) => address.replace(SCHEME, ""));
  if (!link.toLowerCase().startsWith(begin.toLowerCase())) return undefined;
  return link.slice(begin.length).split(/[?#/]/)[0] || undefined;
};

const notSearched = () => new ApiProblem(400, {
  title: "Titles are not searched",
  detail: "Enter the beginning of a slug, a short link, a destination or its host, or choose another meaning beside the text.",
});

/**
 * Returns the parameter of the API that a text most likely means: name and value.
 * @param {string} text
 * @param {string} kind parameter that was chosen; empty for any
 * @param {AbortSignal} signal
 * @throws {ApiProblem} if no parameter can have the text
 */
export const parameterOf = async (text, kind, signal) => {
  if (kind === "tag") return ["tag", tagsIn(text).join(",")];
  if (text.includes("/") && (!kind || SLUGS.includes(kind))) {
    shortHost ??= await readShortHost(signal);
    const slug = slugOf(text);
    if (slug) return [kind || "slug", slug];
  }
  if (kind) return [kind, text];
  if (text.includes("://")) return ["destination_url", text];
  if (HOST_AND_PATH.test(text)) return ["destination_url", `https://${text}`];
  if (HOST.test(text)) return ["destination_host", text];
  if (SLUG_BEGIN.test(text)) return ["slug_prefix", text];
  throw notSearched();
};
