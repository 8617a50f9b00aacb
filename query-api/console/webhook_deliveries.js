// Deliveries of a webhook, newest first: state, result and answer of each, and another attempt.

import { element, once, replace, selection } from "./dom.js";
import { number } from "./format.js";
import { cell, table, time, words } from "./layout.js";
import { olderPages } from "./older_pages.js";
import { problemView } from "./problem_view.js";
import { read, send } from "./api.js";
import { lastResult } from "./webhook_parts.js";

const STATES = [["", "Any"], ["waiting", "Waiting"], ["failed", "Failed"], ["delivered", "Delivered"]];
const HEADS = ["Time", "Type", "State", ["Attempts", "number"], "Result", "Action"];
const KINDS = { waiting: "warn", failed: "bad" };
/** Time between the looks at an attempt, and their number: an attempt takes 20 s at most. */
const LOOK_MS = 1000;
const LOOKS_MAX = 25;

const pause = (milliseconds) => new Promise((resolve) => {
  setTimeout(resolve, milliseconds);
});

const detail = (name, value) => value && [element("dt", null, name), element("dd", null, value)];

const details = (delivery, isOpen) => element(
  "details",
  { open: isOpen },
  element("summary", null, "Answer and ids"),
  element(
    "dl",
    null,
    detail("Last attempt", delivery.last_attempt_at && time(delivery.last_attempt_at)),
    detail("Status", delivery.last_status && String(delivery.last_status)),
    detail("Error", delivery.last_error && words(delivery.last_error)),
    detail("Answer", delivery.response && element("pre", null, delivery.response)),
    detail("Event", element("code", null, delivery.event_id)),
    detail("Delivery", element("code", null, delivery.id)),
  ),
);

const cells = (delivery, isOpen, retry) => {
  const label = delivery.state === "delivered" ? "Send again" : "Retry";
  return [
    element("th", { scope: "row" }, time(delivery.created_at)),
    cell("Type", element("span", { class: "type" }, delivery.type)),
    cell("State", [
      element("span", { class: `badge ${KINDS[delivery.state] ?? ""}` }, delivery.state),
      delivery.next_attempt_at && element("div", { class: "quiet" }, "next attempt ", time(delivery.next_attempt_at)),
    ]),
    cell("Attempts", number(delivery.attempts), "number"),
    cell("Result", [words(lastResult(delivery)), details(delivery, isOpen)]),
    cell("Action", element("button", { type: "button", class: "small", "aria-label": `${label} ${delivery.id}`, onclick: retry }, label)),
  ];
};

/**
 * Returns the panel, and what it does for the page.
 * @param {string} path path of the webhook in the API
 * @param {AbortSignal} signal
 */
export const deliveriesPanel = (path, signal) => {
  const place = element("div");
  const outcome = element("div", { role: "status" });
  const tell = (error) => {
    if (!signal.aborted) replace(outcome, problemView(error));
  };
  let shownRows = element("tbody");

  const fillRow = (row, delivery) => {
    const isOpen = row.querySelector("details")?.open;
    const retry = once(row, async () => {
      replace(outcome);
      try {
        const { body } = await send("POST", `${path}/deliveries/${delivery.id}/retry`, { signal });
        fillRow(row, body);
        await follow(body);
      } catch (error) {
        tell(error);
      }
    });
    return replace(row, cells(delivery, isOpen, retry));
  };
  const rowOf = (delivery) => fillRow(element("tr", { "data-id": delivery.id }), delivery);
  const shownRow = ({ id }) => shownRows.querySelector(`tr[data-id="${id}"]`);
  /** Shows a delivery after its next attempt; returns undefined if there is none for long. */
  const follow = async ({ id, last_attempt_at: lastAttemptAt }) => {
    for (let looks = 0; looks < LOOKS_MAX; looks += 1) {
      await pause(LOOK_MS);
      const present = await read(`${path}/deliveries/${id}`, null, signal);
      // Not their number: attempts that meet an ill receiver do not count.
      if (present.last_attempt_at !== lastAttemptAt) {
        const row = shownRow(present);
        if (row) fillRow(row, present);
        return present;
      }
    }
    return undefined;
  };
  const show = () => {
    const query = states.value ? `?${new URLSearchParams({ state: states.value })}` : "";
    const { body, foot, shown } = olderPages(`${path}/deliveries${query}`, "Older deliveries", rowOf, signal);
    shownRows = body;
    replace(place, table("Deliveries, newest first", HEADS, body), foot);
    return shown;
  };
  const states = selection("deliveries-state", STATES, "", show);
  const view = element(
    "section",
    { class: "webhooks history", id: "deliveries" },
    element(
      "div",
      { class: "title" },
      element("h2", null, "Deliveries"),
      element("p", { class: "actions" }, element("label", { for: states.id }, "State"), states, element("button", { type: "button", onclick: () => show() }, "Refresh")),
    ),
    outcome,
    place,
  );
  /** Shows all deliveries, with a new one among them. */
  const showNew = async (delivery) => {
    states.value = "";
    await show();
    if (!shownRow(delivery)) shownRows.prepend(rowOf(delivery));
    return follow(delivery);
  };
  return { view, show, showNew };
};
