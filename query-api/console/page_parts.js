// The way to the parts of a long page.

import { element } from "./dom.js";

/** Moves the page and the focus to the heading of a part. */
const goTo = (part) => {
  const heading = part.querySelector("h2");
  heading.tabIndex = -1;
  heading.scrollIntoView();
  heading.focus({ preventScroll: true });
};

/**
 * Returns a button for each part.
 * @param {[label: string, part: HTMLElement][]} parts each with a heading of the second level, when a button is pressed
 */
export const pageParts = (parts) => element(
  "nav",
  { class: "parts", "aria-label": "Parts of this page" },
  parts.map(([label, part]) => element("button", { type: "button", class: "small", onclick: () => goTo(part) }, label)),
);
