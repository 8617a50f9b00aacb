// The way into the console of an account's owner, for support: a link that is good for one use within a minute.

import { copyButton, element, once, outwardLink, replace } from "../console/dom.js";
import { problemView } from "../console/problem_view.js";
import { send } from "../console/api.js";
import { READ_SCOPES, scopesField } from "./form_fields.js";

const LIFETIME_S = 60;

const linkView = (url) => element(
  "div",
  { class: "created", role: "status" },
  element("p", null, outwardLink(url, "Open the owner's console"), " ", copyButton(url, "The link")),
  element("p", { class: "quiet" }, `The link works once, within ${LIFETIME_S} s. Its key ends after 8 hours, and the account's keys list it.`),
);

/** Returns the panel. */
export const consolePanel = (path, signal) => {
  const scopes = scopesField("console", READ_SCOPES);
  const outcome = element("div", { class: "outcome" });
  const submit = element("button", null, "Make a link to the console");
  let ending;
  const make = once(submit, async () => {
    clearTimeout(ending);
    replace(outcome);
    try {
      const { body } = await send("POST", `${path}/console-sessions`, { body: { scopes: scopes.value() }, attempts: 1, signal });
      replace(outcome, linkView(body.url));
      ending = setTimeout(() => replace(outcome, element("p", { class: "quiet" }, "The link has ended.")), LIFETIME_S * 1000);
    } catch (error) {
      if (!signal.aborted) replace(outcome, problemView(error));
    }
  });
  const onsubmit = (event) => {
    event.preventDefault();
    make();
  };
  signal.addEventListener("abort", () => clearTimeout(ending));
  return element(
    "section",
    { id: "owner-console" },
    element("h2", null, "The owner's console"),
    element("p", { class: "quiet" }, "Links and clicks of the account, as its owner sees them."),
    element("form", { onsubmit }, scopes.view, element("p", { class: "actions" }, submit)),
    outcome,
  );
};
