// A problem of the API in the words of the API.

import { element } from "./dom.js";
import { number } from "./format.js";

const places = (entry) => entry.pointer?.replace(/^#\//, "") ?? entry.parameter ?? entry.header;

/** Returns a notice about a problem. Errors that are none of the API are thrown on. */
export const problemView = (error) => {
  if (!error.problem) throw error;
  const { title, detail, errors = [], balance, required, request_id: requestId } = error.problem;
  return element(
    "div",
    { class: "problem", role: "alert" },
    element("p", null, element("strong", null, title), detail && ` ${detail}`),
    errors.length > 0 && element(
      "ul",
      null,
      errors.map((entry) => element("li", null, element("code", null, places(entry)), ` ${entry.detail}`)),
    ),
    required !== undefined && element(
      "p",
      null,
      `Price: ${number(required)}. Balance: ${number(balance)}. The operator of this service grants credits.`,
    ),
    requestId && element("p", { class: "quiet" }, "Request ", element("code", null, requestId)),
  );
};

/** Returns the words of a problem as one line. */
export const problemLine = ({ title, detail, errors = [] }) => {
  const faults = errors.map((entry) => `${places(entry)}: ${entry.detail}`);
  return [title, ...(faults.length > 0 ? faults : [detail])].filter(Boolean).join(" · ");
};
