// Actions on selected links: one request for each link, with progress and the outcome of each.

import { announce, element, replace } from "./dom.js";
import { count, csv, download } from "./format.js";
import { problemLine } from "./problem_view.js";
import { saveLinks } from "./link_export.js";
import { send } from "./api.js";

const FAILURES_SHOWN = 50;

/**
 * @typedef {object} Action
 * @property {string} label
 * @property {string} done past participle of the outcome
 * @property {string} [warning] consequence that must be confirmed
 * @property {(link: object, signal: AbortSignal) => Promise<Response>} run
 */

/** @type {Action[]} */
const ACTIONS = [
  {
    label: "Delete",
    done: "deleted",
    warning: "Deleted links never come back: their short addresses answer “gone”, their slugs are never given out again, and nothing is refunded.",
    run: (link, signal) => send("DELETE", `/v1/links/${link.id}`, { signal }),
  },
];

/**
 * Shows what can be done with the links.
 * @param {HTMLElement} bar
 * @param {object[]} links
 * @param {{signal: AbortSignal, onclear: () => void, onstart: () => void, ondone: (ids: string[]) => Promise,
 *   onclose: () => void}} options
 */
export const openActions = (bar, links, options) => {
  const action = (each) => element(
    "button",
    { type: "button", class: each.warning && "danger", onclick: () => (each.warning ? confirm(bar, each, links, options) : run(bar, each, links, options)) },
    each.label,
  );
  replace(
    bar,
    element("p", { role: "status" }, `${count(links.length, "link")} selected`),
    ACTIONS.map(action),
    element("button", { type: "button", onclick: () => saveLinks(links) }, "CSV"),
    element("button", { type: "button", onclick: options.onclear }, "Clear selection"),
  );
};

const confirm = (bar, action, links, options) => {
  const dialog = element(
    "dialog",
    { "aria-labelledby": "confirm-title", onclose: () => dialog.remove() },
    element("h2", { id: "confirm-title" }, `${action.label} ${count(links.length, "link")}?`),
    element("p", null, action.warning),
    element(
      "p",
      { class: "actions" },
      element("button", { type: "button", onclick: () => dialog.close() }, "Keep them"),
      element("button", {
        type: "button",
        class: "danger",
        onclick: () => {
          dialog.close();
          run(bar, action, links, options);
        },
      }, `${action.label} ${count(links.length, "link")}`),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
};

const run = async (bar, action, links, { signal, onstart, ondone, onclose }) => {
  onstart();
  const stop = new AbortController();
  const progress = element("progress", { max: links.length, value: 0, "aria-label": `${action.label}: progress` });
  const text = element("p", { role: "status" });
  replace(bar, text, progress, element("button", { type: "button", onclick: () => stop.abort() }, "Stop"));
  const outcomes = [];
  for (const link of links) {
    replace(text, `${outcomes.length} of ${count(links.length, "link")}`);
    try {
      await action.run(link, AbortSignal.any([signal, stop.signal]));
      outcomes.push({ link });
    } catch (error) {
      if (signal.aborted) return;
      if (stop.signal.aborted) break;
      if (!error.problem) throw error;
      outcomes.push({ link, problem: error.problem });
    }
    progress.value = outcomes.length;
  }
  const done = outcomes.filter(({ problem }) => !problem).map(({ link }) => link.id);
  await ondone(done);
  showOutcomes(bar, action, links, outcomes, onclose);
};

const showOutcomes = (bar, action, links, outcomes, onclose) => {
  const failed = outcomes.filter(({ problem }) => problem);
  const text = `${count(outcomes.length - failed.length, "link")} ${action.done}`
    + (failed.length > 0 ? `, ${failed.length} refused` : "")
    + (outcomes.length < links.length ? `, ${links.length - outcomes.length} not tried` : "");
  const save = () => download("outcomes.csv", "text/csv", csv([
    ["id", "short_url", "outcome", "detail"],
    ...outcomes.map(({ link, problem }) => [link.id, link.short_url, problem ? problem.code ?? problem.title : action.done, problem && problemLine(problem)]),
  ]));
  replace(
    bar,
    element("p", { role: "status" }, text),
    element("button", { type: "button", onclick: save }, "Outcomes as CSV"),
    element("button", { type: "button", onclick: onclose }, "Close"),
    failed.length > 0 && element("ul", { class: "failures" }, failed.slice(0, FAILURES_SHOWN).map(({ link, problem }) =>
      element("li", null, element("span", { class: "slug" }, link.short_url), ` ${problemLine(problem)}`))),
  );
  bar.querySelector("button").focus();
  announce(text);
};
