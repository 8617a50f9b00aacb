// The followers of the log: each projection, and the aggregation of clicks; with their pause.

import { element } from "../console/dom.js";
import { number } from "../console/format.js";
import { askAndSend } from "../console/action_dialog.js";
import { reasonField } from "./form_fields.js";
import { cell, duration, table, time } from "./layout.js";

const HEADS = ["Follower", "State", ["Lag", "number"], ["Age", "number"], ["Rate", "number"], ["Parked", "number"], "Generation", "Verified", "Action"];
const OF_CLICKS = "Statistics stay as they are, and the topic keeps the clicks.";
const OF_EVENTS = "Answers of the public API that come from it stay as they are; reads of anything newer get 503.";
const KINDS = { live: "good", catching_up: "warn", paused: "warn" };

const stateCell = ({ state, paused_at: since, paused_by: by }) => cell("State", state && [
  element("span", { class: KINDS[state] ?? "bad" }, state.replaceAll("_", " ")),
  since && element(
    "div",
    { class: "quiet" },
    "since ",
    time(since),
    by && [" by ", element("bdi", null, by.operator), by.reason && [": ", element("bdi", null, by.reason)]],
  ),
]);

const changeButton = ({ name, paused_at: since }, { signal, onchanged }) => {
  const verb = since ? "Resume" : "Pause";
  const change = () => askAndSend({
    title: `${verb} ${name}`,
    explanation: since ? "The follower continues at its position." : `The follower stays at its position until it is resumed. ${name === "clicks" ? OF_CLICKS : OF_EVENTS}`,
    label: verb,
    isDangerous: !since,
    path: `/admin/v1/followers/${name}/${verb.toLowerCase()}`,
    fields: [reasonField()],
    attempts: 1,
  }, signal, () => onchanged(name), (text) => onchanged(name, text));
  return element("button", { type: "button", class: "small", id: `follower-${name}`, "aria-label": `${verb} ${name}`, onclick: change }, verb);
};

const rate = (perSecond) => (perSecond === 0 || perSecond >= 10 ? number(Math.round(perSecond)) : perSecond.toFixed(1));

const verified = ({ verification: last, unverified_since: since }) => {
  if (since) return element("span", { class: "warn" }, "not since the upgrade");
  if (!last) return null;
  return [time(last.verified_at), last.mismatches > 0 && element("div", { class: "bad" }, `${number(last.mismatches)} wrong`)];
};

const row = (follower, options) => element(
  "tr",
  null,
  element("th", { scope: "row" }, follower.name),
  stateCell(follower),
  cell("Lag", follower.lag_events !== undefined && number(follower.lag_events), "number"),
  cell("Age", duration(follower.lag_seconds), "number"),
  cell("Rate", follower.events_per_second !== undefined && rate(follower.events_per_second), "number"),
  cell("Parked", follower.parked_accounts !== undefined && number(follower.parked_accounts), "number"),
  cell("Generation", follower.active_generation),
  cell("Verified", verified(follower)),
  cell("Action", changeButton(follower, options)),
);

/**
 * Returns the table.
 * @param {object} status
 * @param {{signal: AbortSignal, onchanged: (name: string, unsure?: string) => void}} options
 */
export const followersTable = ({ projections, clicks }, options) => {
  const followers = projections.map((projection) => ({ ...projection, name: projection.projection }));
  // Of the aggregation only a pause is a state of its own; the facts below tell how far it is.
  if (clicks) followers.push({ ...clicks, name: "clicks", state: clicks.paused_at && "paused" });
  return table("Followers of the log", HEADS, element("tbody", null, followers.map((follower) => row(follower, options))));
};
