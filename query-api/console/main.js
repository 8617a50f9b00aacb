// Opens the page that the part of the address after `#` names, and loads its script when it is first needed.

import { element, replace } from "./dom.js";
import { problemView } from "./problem_view.js";
import { signOut } from "./session.js";

/**
 * Pages by the shape of their path. A page has `open(place)`, which fills `place.main`, and may return a
 * function that follows a change of the query alone. `place.reopen()` opens the page anew.
 */
const PAGES = [
  { shape: /^\/links$/, nav: "#/links", load: () => import("./links_page.js") },
  { shape: /^\/links\/(lnk_[0-9a-z]+)$/, nav: "#/links", load: () => import("./link_page.js") },
  { shape: /^\/create$/, nav: "#/create", load: () => import("./create_page.js") },
  { shape: /^\/account$/, nav: "#/account", load: () => import("./account_page.js") },
];
const FIRST_PAGE = "/links";

const main = document.getElementById("content");
/** Page that is open. */
let opened = { path: undefined, follow: undefined, leaving: new AbortController() };

const address = () => {
  const [path, query] = location.hash.slice(1).split("?");
  return { path: path || FIRST_PAGE, query: new URLSearchParams(query) };
};

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

const noSuchPage = () => {
  replace(main, element("section", null, element("h1", null, "There is no such page"), element("a", { href: "#/links" }, "To the links")));
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
  const page = PAGES.find(({ shape }) => shape.test(path));
  markCurrent(page?.nav);
  if (!page) {
    noSuchPage();
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
