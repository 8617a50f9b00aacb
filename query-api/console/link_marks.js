// Marks of a link: its tags, each of which leads to the links that have the tag, and its states: disabled, expired, an
// expiry ahead.

import { element } from "./dom.js";
import { instant } from "./format.js";

const SOON_MS = 7 * 86400000;
const GONE = "visitors get “gone” (410)";

/** Returns the tags of a link. */
export const tagList = (tags) => element(
  "span",
  { class: "tags" },
  tags.map((tag) => element("a", { class: "tag", href: `#/links?${new URLSearchParams({ tag })}` }, tag)),
);

const serviceState = ({ disabled, disabled_by: by }) => disabled && (by === "operator"
  ? { kind: "bad", text: "disabled by an operator", meaning: `${GONE}. Only the operator of this service can enable the link: ask there, and name its id.` }
  : { kind: "bad", text: "disabled", meaning: `${GONE} until the link is enabled again.` });

const expiryState = ({ expires_at: at, expired_url: after }, now) => {
  if (!at) return undefined;
  const end = after ? `visitors go to ${after}` : GONE;
  const left = Date.parse(at) - now;
  if (left <= 0) return { kind: "bad", text: "expired", meaning: `${end}. A later time of expiry puts the link back.` };
  return { kind: left < SOON_MS && "warn", text: `expires ${left < SOON_MS ? "soon, " : ""}${instant(at)}`, meaning: `from then on ${end}.` };
};

const statesOf = (link, now) => [serviceState(link), expiryState(link, now)].filter(Boolean);

const badge = ({ kind, text }) => element("span", { class: `badge ${kind || ""}` }, text);

/** Returns the states of a link as badges. */
export const stateBadges = (link) => statesOf(link, Date.now()).map(badge);

/** Returns the states of a link at an instant, each with its meaning for visitors. */
export const stateNotes = (link, now = Date.now()) => statesOf(link, now).map((state) =>
  element("p", { class: "state" }, badge(state), ` ${state.meaning[0].toUpperCase()}${state.meaning.slice(1)}`));
