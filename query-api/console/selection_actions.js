// Actions on selected links: one request for each link, with progress and the outcome of each.

import { announce, element, field, replace } from "./dom.js";
import { csv, download } from "./files.js";
import { count } from "./format.js";
import { problemLine } from "./problem_view.js";
import { saveLinks } from "./link_export.js";
import { MEMBERS } from "./link_members.js";
import { changeLink, readLink, setDisabled } from "./link_store.js";
import { send } from "./api.js";
import { apiKey } from "./session.js";
import { tagSuggestions } from "./tag_suggestions.js";

const UNAUTHENTICATED = 401;
/** Links that are named with a problem; the file has all. */
const FAILURES_SHOWN = 5;

/**
 * @typedef {object} Action
 * @property {string} label
 * @property {string} done past participle of the outcome
 * @property {string} [consequence] text beside the question
 * @property {boolean} [isDeletion] true if the links do not stay selected
 * @property {string} [question] label of the tags that the action needs
 * @property {(link: object, options: import("./link_store.js").Options, text: string) => Promise} run
 */

/** Attempts of a change when somebody else changes the link at the same time. */
const ATTEMPTS_MAX = 3;
const TAGS = MEMBERS.find(({ name }) => name === "tags");

/** Gives a link the tags that `change` makes of the present ones. */
const changeTags = async (id, options, change) => {
  for (let attempts = 1; ; attempts += 1) {
    const { link, tag } = await readLink(id, options);
    try {
      return await changeLink(id, tag, { tags: change(link.tags ?? []) }, options);
    } catch (error) {
      if (error.status !== 412 || attempts === ATTEMPTS_MAX) throw error;
    }
  }
};

/** @type {Action[]} */
const ACTIONS = [
  {
    label: "Add tags",
    done: "tagged",
    question: "Tags to add",
    run: (link, options, text) => changeTags(link.id, options, (tags) => [...new Set([...tags, ...TAGS.parse(text)])]),
  },
  {
    label: "Remove tags",
    done: "without these tags",
    question: "Tags to remove",
    run: (link, options, text) => changeTags(link.id, options, (tags) => tags.filter((tag) => !TAGS.parse(text).includes(tag))),
  },
  {
    label: "Disable",
    done: "disabled",
    consequence: "Visitors of these links get “gone” until you enable them again.",
    run: (link, options) => setDisabled(link.id, true, options),
  },
  {
    label: "Enable",
    done: "enabled",
    consequence: "Visitors reach the destinations again, except those of expired links.",
    run: (link, options) => setDisabled(link.id, false, options),
  },
  {
    label: "Delete",
    done: "deleted",
    isDeletion: true,
    consequence: "Deleted links never come back: their short addresses answer “gone”, their slugs are never given out again, and nothing is refunded.",
    run: (link, options) => send("DELETE", `/v1/links/${link.id}`, options),
  },
];

/**
 * Shows what can be done with the links. The actions run with the present key only: the next one can be of another
 * account.
 * @param {HTMLElement} bar
 * @param {object[]} links
 * @param {{signal: AbortSignal, onclear: () => void, onstart: () => void, ondone: (ids: string[]) => Promise,
 *   onclose: () => void}} options
 */
export const openActions = (bar, links, given) => {
  const options = { ...given, key: apiKey() };
  const action = (each) => element(
    "button",
    { type: "button", class: each.isDeletion && "danger", onclick: () => ask(bar, each, links, options) },
    each.label,
  );
  replace(
    bar,
    element("p", { role: "status" }, `${count(links.length, "link")} selected`),
    ACTIONS.map(action),
    element("button", { type: "button", onclick: () => saveLinks(links) }, "CSV"),
    element("button", { type: "button", onclick: given.onclear }, "Clear selection"),
  );
};

/** Asks for what the action needs, or whether its consequence is meant, and runs the action. */
const ask = (bar, action, links, options) => {
  const input = element("input", { id: "action-text", required: true, pattern: TAGS.pattern, title: TAGS.help, autocomplete: "off", spellcheck: "false", autocapitalize: "none" });
  const accept = (event) => {
    event.preventDefault();
    dialog.close();
    run(bar, action, links, input.value, options);
  };
  const dialog = element(
    "dialog",
    { "aria-labelledby": "action-title", onclose: () => dialog.remove() },
    element(
      "form",
      { onsubmit: accept },
      element("h2", { id: "action-title" }, `${action.label}: ${count(links.length, "link")}?`),
      action.consequence && element("p", null, action.consequence),
      action.question && [field(action.question, input, TAGS.help), tagSuggestions(input, options.signal)],
      element(
        "p",
        { class: "actions" },
        element("button", { type: "button", onclick: () => dialog.close() }, action.isDeletion ? "Keep them" : "Cancel"),
        element("button", { class: action.isDeletion ? "danger" : "primary" }, action.label),
      ),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  if (action.question) input.focus();
};

const run = async (bar, action, links, text, { key, signal, onstart, ondone, onclose }) => {
  onstart();
  const stop = new AbortController();
  const progress = element("progress", { max: links.length, value: 0, "aria-label": `${action.label}: progress` });
  const state = element("p", { role: "status" });
  replace(bar, state, progress, element("button", { type: "button", onclick: () => stop.abort() }, "Stop"));
  const outcomes = [];
  let refusedKey;
  for (const link of links) {
    replace(state, `${outcomes.length} of ${count(links.length, "link")}`);
    try {
      await action.run(link, { key, signal: AbortSignal.any([signal, stop.signal]) }, text);
      outcomes.push({ link });
    } catch (error) {
      if (signal.aborted) return;
      if (stop.signal.aborted) break;
      if (!error.problem) throw error;
      if (error.status === UNAUTHENTICATED) {
        refusedKey = error.problem;
        break;
      }
      outcomes.push({ link, problem: error.problem });
    }
    progress.value = outcomes.length;
  }
  const done = outcomes.filter(({ problem }) => !problem).map(({ link }) => link.id);
  await ondone(action.isDeletion ? done : []);
  showOutcomes(bar, action, links, { outcomes, refusedKey }, onclose);
};

/** Returns an item for each problem, with its links. */
const failureItems = (failed) => Object.entries(Object.groupBy(failed, ({ problem }) => problemLine(problem))).map(([line, outcomes]) => {
  const shown = outcomes.slice(0, FAILURES_SHOWN).map(({ link }) => link.short_url).join(" ");
  const more = outcomes.length > FAILURES_SHOWN ? ` and ${count(outcomes.length - FAILURES_SHOWN, "other")}` : "";
  return element("li", null, `${line} `, element("span", { class: "slug" }, shown), more);
});

const showOutcomes = (bar, action, links, { outcomes, refusedKey }, onclose) => {
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
    refusedKey && element("p", { class: "failures" }, `${refusedKey.title}. ${refusedKey.detail}`),
    failed.length > 0 && element("ul", { class: "failures" }, failureItems(failed)),
  );
  bar.querySelector("button").focus();
  announce(text);
};
