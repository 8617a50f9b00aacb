// Taking a link out of service, and putting it back.

import { announce, element, once, replace } from "./dom.js";
import { problemView } from "./problem_view.js";
import { setDisabled } from "./link_store.js";

/**
 * Returns the button; nothing for a link that only an operator can enable.
 * @param {object} link
 * @param {{signal: AbortSignal, onchanged: (stored: object) => void}} options
 */
export const serviceSwitch = (link, { signal, onchanged }) => {
  if (link.disabled_by === "operator") return null;
  const outcome = element("div");
  const button = element("button", { type: "button", onclick: () => change() }, link.disabled ? "Enable link" : "Disable link");
  const change = once(button, async () => {
    try {
      onchanged(await setDisabled(link.id, !link.disabled, { signal }));
      announce(link.disabled ? "Link enabled" : "Link disabled");
    } catch (error) {
      if (!signal.aborted) replace(outcome, problemView(error));
    }
  });
  return [
    element(
      "p",
      { class: "actions" },
      button,
      element("span", { class: "quiet" }, link.disabled ? "Visitors reach the destination again." : "Visitors get “gone” until you enable it again."),
    ),
    outcome,
  ];
};
