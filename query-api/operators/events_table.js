// Events of the log with payload and metadata as stored.

import { element, replace } from "../console/dom.js";
import { problemView } from "../console/problem_view.js";
import { read } from "../console/api.js";
import { cell, idLink, table, time, words } from "./layout.js";

const LATEST_MAX = 20;
const HEADS = ["Time", "Type", "Subject", "Account", "By", "Position", "Content"];

const json = (name, value) => [element("dt", null, name), element("dd", null, element("pre", null, JSON.stringify(value, null, 2)))];

/** Returns who caused an event: a key, or a person at the command line. */
const author = ({ actor, operator }) => operator ? words(operator) : actor && idLink(actor);

/** Returns the row of an event; `isOfOne` leaves out the account, which all events of the table have. */
export const eventRow = (event, isOfOne) => element(
  "tr",
  { "data-id": event.id },
  element("th", { scope: "row" }, time(event.time)),
  cell("Type", element("span", { class: "type" }, event.type)),
  cell("Subject", idLink(event.subject)),
  isOfOne ? null : cell("Account", idLink(event.account_id)),
  cell("By", author(event.metadata)),
  cell("Position", element("span", { class: "place" }, `${event.shard}/${event.position}`)),
  cell("Content", element(
    "details",
    null,
    element("summary", null, "Payload and metadata"),
    element(
      "dl",
      null,
      json("Payload", event.payload),
      json("Metadata", event.metadata),
      element("dt", null, "Event"),
      element("dd", null, element("code", null, event.id)),
    ),
  )),
);

/** Returns the table of events whose rows are in `body`. */
export const eventsTable = (body, isOfOne) => table("Events, newest first", isOfOne ? HEADS.filter((head) => head !== "Account") : HEADS, body);

/** Returns the latest events of an account, with the way to all. */
export const latestEvents = (accountId, signal) => {
  const body = element("tbody");
  const outcome = element("div");
  const fill = async () => {
    try {
      const { items } = await read(`/admin/v1/accounts/${accountId}/events`, { latest: true, limit: LATEST_MAX }, signal);
      replace(body, items.reverse().map((event) => eventRow(event, true)));
    } catch (error) {
      if (!signal.aborted) replace(outcome, problemView(error));
    }
  };
  fill();
  return element(
    "section",
    { class: "history", id: "events" },
    element("h2", null, "Latest events"),
    eventsTable(body, true),
    outcome,
    element("p", null, element("a", { href: `#/events?${new URLSearchParams({ account: accountId })}` }, "Events of this account by type")),
  );
};
