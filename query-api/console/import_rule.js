// The rule of all imports, as `linkledger import` has it: no address is lost or moved in silence. A row becomes a link
// with the very slug of the row, or is refused; labels are fitted or dropped; each difference is named.

import { addressOf, trim } from "./addresses.js";
import { unguarded } from "./files.js";

const TITLE_MAX = 200;
const TAGS_MAX = 20;
const TAG_MAX = 64;
const EXTERNAL_ID = /^[A-Za-z0-9._:/-]{1,128}$/;
const INSTANT = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?)?\s*(Z|[+-]\d\d(?::?\d\d)?)?$/i;
const REFUSED = {
  link_disabled: "The link is disabled, and an import creates only links that redirect",
  encoding_invalid: "The row has bytes that are no UTF-8",
  slug_missing: "The short address has no slug",
  slug_has_query: "The short address has a query, which no slug has",
};
/** Longest time to an expiry that the API takes: 100 years. */
const EXPIRY_AHEAD_MAX = 36525 * 24 * 3600 * 1000;

/**
 * @typedef {object} Row
 * @property {number} line
 * @property {string} text
 * @property {string} keyText text that the idempotency key of the row is made of
 * @property {string} [address] old address, or slug
 * @property {object} members
 * @property {string[]} changes differences between row and link, old to new
 * @property {object} [fault] problem of a row that is never sent
 */

const characters = (text, length) => [...text].slice(0, length).join("");

/** Returns the tag as the API stores it, without the characters that no tag has. */
const fittedTag = (text) => characters(
  trim(text).normalize("NFC").toLowerCase().normalize("NFC")
    .replace(/[^\p{L}\p{M}\p{Nd} ._:\-+#&/']+/gu, " ")
    .replace(/^[^\p{L}\p{Nd}]+/u, "")
    .replace(/\s+/g, " "),
  TAG_MAX,
).trim();

/** Returns the title on one line. */
const fittedTitle = (text) => characters(trim(text).replace(/[\t\n\r\v\f]+/g, " ").replace(/\p{Cc}/gu, ""), TITLE_MAX).trim();

/** Returns an instant of RFC 3339; the text if it is no date. A date without a zone is one of UTC. */
const fittedInstant = (text) => {
  const [, date, minutes, seconds, zone] = INSTANT.exec(text) ?? [];
  if (!date) return text;
  const offset = (zone ?? "Z").toUpperCase().replace(/^([+-]\d\d):?(\d\d)?$/, (_, hours, rest) => `${hours}:${rest ?? "00"}`);
  return `${date}T${minutes ?? "00:00"}${seconds ?? ":00"}${offset}`;
};

/** Returns a path with its encoded characters as they are, unless a slash is among them. */
const decoded = (path) => {
  try {
    return /%2f/i.test(path) ? path : decodeURIComponent(path);
  } catch {
    return path;
  }
};

/**
 * Returns host, path and query of an address. The path is whole but for one slash at its end, since a part of the path
 * is another address. A text that names no host is a slug.
 */
const partsOf = (address) => {
  const bare = address.replace(/^([a-z][a-z0-9+.-]*:)?\/\//i, "");
  const end = bare.search(/[/?#]/);
  if (end < 0) return bare === address && !/[.:]/.test(bare) ? { path: bare } : { host: bare };
  const [path, ...query] = bare.slice(end).replace(/#.*$/s, "").split("?");
  return { host: bare.slice(0, end), path: decoded(path.replace(/^\//, "").replace(/\/$/, "")), query: query.join("?") };
};

/** Returns an address without the user and password before its host. */
const withoutUser = (address) => (address.includes("/") ? address.replace(/^((?:[a-z][a-z0-9+.-]*:)?\/\/)?[^/?#]*@/i, "$1") : address);

/** The rule, with what earlier rows of a text have taken. Which of several rows gets their slug, `sendItems` decides. */
export class Rule {
  externalIds = new Set();

  /**
   * @param {{line: number, text: string, isTable: boolean, textOf: (name: string) => string, reason?: string}} row
   * @returns {Row}
   */
  decide({ line, text, isTable, textOf, reason }) {
    const changes = [];
    const given = (name) => (isTable ? unguarded(textOf(name)) : textOf(name));
    const members = {};
    /** Sets a member, and names a difference that people would not expect. */
    const set = (name, label, value) => {
      const before = given(name).replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, "");
      if (value) members[name] = value;
      if (value && value !== before) changes.push(`${label} “${before}” became “${value}”`);
      if (!value && before !== "") changes.push(`${label} “${before}” was dropped`);
    };
    const refuse = (code, title = REFUSED[code]) => ({ code, title });
    let fault = reason && refuse("record_invalid", reason);
    set("destination_url", "destination", addressOf(given("destination_url")));
    const moved = withoutUser(trim(given("old_address")));
    const address = moved || withoutUser(trim(given("short_url")));
    const { host, path, query } = partsOf(address);
    const isOwn = textOf("id").startsWith("lnk_");
    if (host) changes.push(`not carried over: domain ${host}`);
    // The addresses of this service may begin with a path, and end with the slug.
    const chosen = withoutUser(trim(given("slug"))) || (moved && trim(given("short_url")));
    const slug = chosen || (isOwn ? path?.split("/").pop() : path);
    if (slug) members.slug = slug;
    if (moved && chosen) {
      // Visitors of the old address are redirected.
      if (query || path?.toLowerCase() !== slug.toLowerCase()) changes.push(`old address “${address}” became “${slug}”`);
    } else if (address !== "" && !isOwn) {
      if (query) fault ??= refuse("slug_has_query");
      if (!path) fault ??= refuse("slug_missing");
      if (path?.toLowerCase() !== slug?.toLowerCase()) fault ??= refuse("slug_differs", `The slug is “${slug}”, the short address “${address}”: one link has one slug`);
      if (host && path && !address.endsWith(path)) changes.push(`old address “${address}” became “${path}”`);
    }
    if (trim(given("disabled_by")) !== "") fault ??= refuse("link_disabled");
    if (text.includes("\uFFFD")) fault ??= refuse("encoding_invalid");
    // This service has accepted the titles that it exports.
    if (isOwn && given("title") !== "") members.title = given("title");
    else set("title", "title", fittedTitle(given("title")));
    const tags = this.tags(given("tags"), changes);
    if (tags.length > 0) members.tags = tags;
    const instant = fittedInstant(trim(given("expires_at")));
    set("expires_at", "expiry", Date.parse(instant) - Date.now() > EXPIRY_AHEAD_MAX ? "" : instant);
    set("expired_url", "destination after expiry", members.expires_at && addressOf(given("expired_url")));
    const id = trim(given("external_id"));
    const isKept = EXTERNAL_ID.test(id) && !this.externalIds.has(id);
    if (isKept && !fault) this.externalIds.add(id);
    set("external_id", "external id", isKept ? id : "");
    const isBare = Object.keys(members).length === 1;
    return { line, text, keyText: isBare ? members.destination_url ?? text : text, address: address || slug, members, changes, fault };
  }

  tags(cell, changes) {
    const tags = new Set();
    for (const text of cell.split(",").map(trim).filter(Boolean)) {
      const tag = fittedTag(text);
      const isFull = tags.size === TAGS_MAX && !tags.has(tag);
      if (tag === "" || isFull) changes.push(`tag “${text}” was dropped${isFull ? `: a link has at most ${TAGS_MAX} tags` : ""}`);
      else if (tag !== text) changes.push(`tag “${text}” became “${tag}”`);
      if (tag !== "" && !isFull) tags.add(tag);
    }
    return [...tags];
  }
}
