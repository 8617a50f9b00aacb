// The latest commands of operators on the followers of the log.

import { element } from "../console/dom.js";
import { cell, sentence, table, time, words } from "./layout.js";

const outcome = ({ outcome: name, detail, finished_at: end, is_running: isRunning }) => {
  if (isRunning) return element("span", { class: "warn" }, "… running");
  if (!end) return [element("span", { class: "bad" }, "✗ its process died"), ": run the command again"];
  return [
    element("span", { class: name === "done" ? "good" : "bad" }, name === "done" ? "✓ done" : `✗ ${name}`),
    detail && [": ", sentence(detail)],
    element("div", { class: "quiet" }, "at ", time(end)),
  ];
};

const row = (command) => element(
  "tr",
  null,
  element("th", { scope: "row" }, time(command.started_at)),
  cell("Command", [
    element("b", null, command.command),
    command.projection && ` ${command.projection}`,
    command.subject && [" ", element("span", { class: "id" }, command.subject)],
  ]),
  cell("Outcome", outcome(command), "what"),
  cell("By", words(command.operator)),
  cell("Why", words(command.reason)),
);

/** Returns the panel. */
export const commandsPanel = (commands) => element(
  "section",
  { id: "commands" },
  element("h2", null, "Operators' commands"),
  commands.length === 0
    ? element("p", { class: "quiet" }, "None on record.")
    : table("Operators' commands, the last one first", ["Began", "Command", "Outcome", "By", "Why"], element("tbody", null, commands.map(row))),
);
