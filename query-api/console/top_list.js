// Most frequent values of clicks, or most clicked links.

import { element, replace } from "./dom.js";
import { number } from "./format.js";
import { problemView } from "./problem_view.js";
import { read } from "./api.js";

const TITLES = {
  country: "Countries",
  referrer_host: "Referrers",
  browser: "Browsers",
  os: "Systems",
  device: "Devices",
  link: "Links",
};
const LENGTH = 10;

const countries = new Intl.DisplayNames("en", { type: "region", fallback: "code" });
const isRegion = (value) => /^[A-Z]{2}$/.test(value);

const nameOf = (by, item) => {
  if (by === "link") {
    if (!item.short_url) return element("span", { class: "quiet" }, "deleted link");
    return [
      element("a", { class: "slug", href: `#/links/${item.link_id}` }, item.short_url.slice(item.short_url.lastIndexOf("/") + 1)),
      element("span", { class: "quiet address" }, ` ${item.destination_url}`),
    ];
  }
  if (item.value === null) return by === "referrer_host" ? "direct or not told" : "unknown";
  return by === "country" && isRegion(item.value) ? countries.of(item.value) : item.value;
};

const rowsOf = (by, { items, other }) => {
  const most = Math.max(1, ...items.map(({ clicks }) => clicks));
  const rows = items.map((item) => element(
    "li",
    null,
    element("span", { class: "name" }, nameOf(by, item)),
    element("span", { class: "number" }, number(item.clicks)),
    element("meter", { min: 0, max: most, value: item.clicks, "aria-hidden": "true" }),
  ));
  if (other > 0) rows.push(element("li", { class: "quiet" }, element("span", { class: "name" }, "others"), element("span", { class: "number" }, number(other))));
  return rows;
};

/** Returns a list that fills itself; `path` is that of the clicks in the API. */
export const topList = (path, by, range, signal) => {
  const place = element("div", { class: "top-place" }, element("p", { class: "quiet" }, "…"));
  const fill = async () => {
    try {
      const asked = { limit: LENGTH, ...range };
      const top = by === "link" ? await read(`${path}/top-links`, asked, signal) : await read(`${path}/top`, { by, ...asked }, signal);
      replace(place, top.items.length > 0 ? element("ol", { class: "top" }, rowsOf(by, top)) : element("p", { class: "quiet" }, "No clicks in this range."));
    } catch (error) {
      if (!signal.aborted) replace(place, problemView(error));
    }
  };
  fill();
  return element("div", { class: "top-list" }, element("h3", null, TITLES[by]), place);
};
