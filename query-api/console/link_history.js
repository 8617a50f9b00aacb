// History of a link, also of a deleted one: each event with the members that it changed; and the link as it was
// at an instant.

import { element, field, outwardLink, replace } from "./dom.js";
import { instant } from "./format.js";
import { MEMBERS } from "./link_members.js";
import { olderPages } from "./older_pages.js";
import { problemView } from "./problem_view.js";
import { read } from "./api.js";
import { stateNotes } from "./link_marks.js";

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}`;

const labelOf = (name) => MEMBERS.find((member) => member.name === name)?.label ?? sentence(name.replaceAll("_", " "));

const valueText = (value) => {
  if (value === null) return "(none)";
  if (typeof value === "boolean") return value ? "yes" : "no";
  return Array.isArray(value) ? value.join(" ") : String(value);
};

const changeLine = ([name, { from, to }]) => element(
  "div",
  { class: "address" },
  element("span", { class: "quiet" }, `${labelOf(name)}: `),
  from !== null && [element("s", null, valueText(from)), " → "],
  valueText(to),
);

/** Returns the words of a type of event: "LinkDestinationChanged" is "Destination changed". */
const words = (type) => {
  const parts = type.replace(/^Link/, "").split(/(?=[A-Z])/);
  return parts.map((part, index) => (index === 0 ? part : part.toLowerCase())).join(" ");
};

const row = (event) => element(
  "tr",
  null,
  element("th", { scope: "row" }, element("time", { datetime: event.at }, instant(event.at))),
  element("td", { "data-label": "Event" }, words(event.type)),
  element("td", { "data-label": "Changes" }, element("div", null, Object.entries(event.changes).map(changeLine))),
  element("td", { "data-label": "By" }, event.by ? element("code", null, event.by) : "–"),
);

/** Returns the form that shows the link as it was. */
const asOfForm = (id, signal) => {
  const time = element("input", { id: "as-of", type: "datetime-local", required: true });
  const outcome = element("div", { class: "outcome" });
  const onsubmit = async (event) => {
    event.preventDefault();
    try {
      const link = await read(`/v1/links/${id}`, { at: new Date(time.value).toISOString() }, signal);
      replace(outcome, element("p", { role: "status" }, `At ${instant(time.value)} the link led to `, outwardLink(link.destination_url), "."), stateNotes(link, Date.parse(time.value)));
    } catch (error) {
      if (!signal.aborted) replace(outcome, problemView(error));
    }
  };
  return element(
    "form",
    { class: "as-of", onsubmit },
    element("div", { class: "filters" }, field("Destination as it was at", time), element("p", { class: "actions" }, element("button", null, "Show"))),
    outcome,
  );
};

/** Returns the history. */
export const linkHistory = (id, signal) => {
  const { body, foot } = olderPages(`/v1/links/${id}/history`, "Older events", row, signal);
  return element(
    "section",
    { class: "history" },
    element("h2", null, "History"),
    asOfForm(id, signal),
    element(
      "table",
      null,
      element("caption", { class: "visually-hidden" }, "Events of the link, newest first"),
      element("thead", null, element("tr", null, ["Time", "Event", "Changes", "By"].map((text) => element("th", { scope: "col" }, text)))),
      body,
    ),
    foot,
  );
};
