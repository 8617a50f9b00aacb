// Deletion of a link, after a question.

import { announce, element, replace } from "./dom.js";
import { problemView } from "./problem_view.js";
import { send } from "./api.js";

/** Returns the button with its question. */
export const deletion = (link, signal) => {
  const view = element("div", { class: "deletion" });
  const remove = async () => {
    try {
      await send("DELETE", `/v1/links/${link.id}`, { signal });
      location.hash = "#/links";
      announce("Link deleted");
    } catch (error) {
      if (!signal.aborted) replace(view, problemView(error));
    }
  };
  const keep = () => {
    replace(view, element("button", { type: "button", class: "danger", onclick: ask }, "Delete link …"));
  };
  const ask = () => {
    const no = element("button", { type: "button", onclick: () => keepAndFocus() }, "Keep it");
    replace(
      view,
      element("p", { role: "alert" }, "A deleted link never comes back: its short address answers “gone”, its slug is never given out again, and nothing is refunded."),
      element("p", { class: "actions" }, no, element("button", { type: "button", class: "danger", onclick: remove }, "Delete for ever")),
    );
    no.focus();
  };
  const keepAndFocus = () => {
    keep();
    view.querySelector("button").focus();
  };
  keep();
  return view;
};
