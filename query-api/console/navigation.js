// Opens the page that the part of the address after `#` names, and loads its script when it is first needed.

import { element, replace } from "./dom.js";
import { problemView } from "./problem_view.js";
import { signOut } from "./session.js";

const main = document.getElementById("content");
/** Page that is open. */
let opened = { path: undefined, follow: undefined, leaving: new AbortController() };

const markCurrent = (nav) => {
  for (const link of document.querySelectorAll("#pages a")) {
    if (link.getAttribute("href") === nav) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
};

const fail = (error) => {
  if (error.name === "AbortError") return;
  replace(main, element("section", null, element("h1", null, "This page can't be shown"), problemView(error)));
};

const noSuchPage = (first) => {
  replace(main, element("section", null, element("h1", null, "There is no such page"), element("a", { href: `#${first}` }, "To the first page")));
};

/** Opens an address such as `#/links`; reads the page again if it is the present one. */
export const openAddress = (address) => {
  if (location.hash === address) dispatchEvent(new PopStateEvent("popstate"));
  else location.hash = address;
};

/**
 * Opens the page of the address, and that of each later address.
 *
 * A page has `open(place)`, which fills `place.main`, and may return a function that follows a change of the query
 * alone. `place.reopen()` opens the page of the address anew.
 * @param {{shape: RegExp, nav?: string, load: () => Promise<{open: (place: object) => *}>}[]} pages pages by the shape
 *   of their path; `nav` is the link of the head that leads there
 * @param {string} first path of the page without an address
 */
export const startPages = (pages, first) => {
  const address = () => {
    const [path, query] = location.hash.slice(1).split("?");
    return { path: path || first, query: new URLSearchParams(query) };
  };
  const reopen = () => {
    opened = { ...opened, path: undefined, follow: undefined };
    navigate();
  };
  const navigate = async () => {
    // The target of the link to the content is no page.
    if (location.hash === "#content") return;
    const { path, query } = address();
    if (path === opened.path && opened.follow) {
      opened.follow(query);
      return;
    }
    opened.leaving.abort();
    const isFirst = opened.path === undefined;
    const leaving = new AbortController();
    opened = { path, follow: undefined, leaving };
    const page = pages.find(({ shape }) => shape.test(path));
    markCurrent(page?.nav);
    if (!page) {
      noSuchPage(first);
      return;
    }
    try {
      const { open } = await page.load();
      if (leaving.signal.aborted) return;
      replace(main);
      scrollTo(0, 0);
      const place = { main, parts: path.match(page.shape).slice(1), query, signal: leaving.signal, reopen };
      const follow = await open(place);
      if (leaving.signal.aborted) return;
      opened.follow = follow;
      // Screen readers begin to read where the new page begins.
      if (!isFirst && !main.contains(document.activeElement)) main.focus({ preventScroll: true });
    } catch (error) {
      if (!leaving.signal.aborted) fail(error);
    }
  };
  document.getElementById("sign-out").addEventListener("click", signOut);
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  addEventListener("popstate", navigate);
  navigate();
};
