// Meaning of an address that was pasted into the search: a short link, or a destination.

import { read } from "./api.js";

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

/**
 * Returns the parameter of the API that an address most likely means: name and value.
 * @param {string} text
 * @param {string} kind parameter that was chosen; empty for any
 * @param {AbortSignal} signal
 */
export const parameterOf = async (text, kind, signal) => {
  shortHost ??= await readShortHost(signal);
  const slug = !kind || SLUGS.includes(kind) ? slugOf(text) : undefined;
  if (slug) return [kind || "slug", slug];
  if (kind) return [kind, text];
  if (text.includes("://")) return ["destination_url", text];
  return HOST_AND_PATH.test(text) ? ["destination_url", `https://${text}`] : ["slug_prefix", text];
};
