// A problem of the API in the words of the API; a fault of the page with a way to load it again.

import { element } from "./dom.js";

/** Advice on problems that only somebody else can mend. */
const ADVICE = {
  link_disabled_by_operator: "Ask the operator of this service to enable the link, and name its id.",
};

const places = (entry) => entry.pointer?.replace(/^#\//, "") ?? entry.parameter ?? entry.header;

/** Returns a notice about an error that is none of the API: a script that cannot be loaded, a missing function. */
const faultView = (error) => {
  console.error(error);
  return element(
    "div",
    { class: "problem", role: "alert" },
    element("p", null, element("strong", null, "The page could not be loaded"), ` ${error.message}`),
    element("p", null, "After an update of the service, a tab that was opened before needs to be loaded again."),
    element("p", { class: "actions" }, element("button", { type: "button", onclick: () => location.reload() }, "Reload")),
  );
};

/** Returns a notice about any error. */
export const problemView = (error) => {
  if (!error.problem) return faultView(error);
  const { code, title, detail, errors = [], request_id: requestId } = error.problem;
  return element(
    "div",
    { class: "problem", role: "alert" },
    element("p", null, element("strong", null, title), detail && ` ${detail}`),
    errors.length > 0 && element(
      "ul",
      null,
      errors.map((entry) => element(
        "li",
        null,
        element("code", null, places(entry)),
        !detail?.includes(entry.detail) && ` ${entry.detail}`,
      )),
    ),
    ADVICE[code] && element("p", null, ADVICE[code]),
    requestId && element("p", { class: "quiet" }, "Request ", element("code", null, requestId)),
  );
};

/** Returns the words of a problem as one line. */
export const problemLine = ({ code, title, detail, errors = [] }) => {
  const faults = errors.map((entry) => `${places(entry)}: ${entry.detail}`);
  return [title, ...(faults.length > 0 ? faults : [ADVICE[code] ?? detail])].filter(Boolean).join(" · ");
};
