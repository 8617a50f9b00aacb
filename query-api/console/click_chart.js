// Chart of clicks over time: bars of people and bots, one above the other; visitors as dots; what lies beyond
// the last counted instant is hatched.

import { element, fill, replace } from "./dom.js";
import { LOCALE, number } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 260;
const LEFT = 56;
const RIGHT = 8;
const TOP = 12;
const BOTTOM = 26;
const PLOT_HEIGHT = HEIGHT - TOP - BOTTOM;
/** Width of the label of a bucket, with the gap to the next. */
const LABEL_WIDTH = 90;
const LINES = 4;
/** Part of a bucket's width that its bar fills. */
const FILL = 0.78;

const RANGE_FORMAT = { dateStyle: "medium", timeStyle: "short" };
const FORMATS = {
  hour: { weekday: "short", hour: "2-digit", minute: "2-digit" },
  day: { day: "numeric", month: "short" },
  week: { day: "numeric", month: "short" },
  month: { month: "short", year: "2-digit" },
};

/** Returns a new SVG element. */
const svg = (tag, properties, ...children) =>
  fill(document.createElementNS(SVG, tag), properties, children);

/** Returns a function that names instants in a time zone, without the name of the zone. */
const timeIn = (timeZone, options) => {
  const format = new Intl.DateTimeFormat(LOCALE, { timeZone, ...options });
  return (value) => format.format(new Date(value));
};

/**
 * Returns a function that names instants in the time zone of an answer; before a limit only UTC days are known, so
 * their begins are named in UTC.
 */
const namesIn = ({ timezone, utc_days_before: before }, options) => {
  const [own, utc] = [timezone, "UTC"].map((zone) => timeIn(zone, options));
  return (value, isEnd = false) => {
    const left = Date.parse(before) - Date.parse(value);
    return left > 0 || (isEnd && left === 0) ? utc(value) : own(value);
  };
};

/** Returns the range of an answer, which has whole buckets, in words. */
export const rangeText = (clicks) => {
  const nameOf = namesIn(clicks, RANGE_FORMAT);
  return `${nameOf(clicks.from)} to ${nameOf(clicks.to, true)}`;
};

/** Returns a round number that is at least the value, and a multiple of the grid. */
const roof = (value) => {
  const wanted = Math.max(LINES, value);
  const magnitude = 10 ** Math.floor(Math.log10(wanted));
  return [1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10].map((step) => step * magnitude).find((step) => step >= wanted && step % LINES === 0) ?? 20 * magnitude;
};

const grid = (top, y, end) => Array.from({ length: LINES + 1 }, (_, line) => {
  const value = (top / LINES) * line;
  return [
    svg("line", { class: "grid", x1: LEFT, x2: end, y1: y(value), y2: y(value) }),
    svg("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, number(value)),
  ];
});

/** Returns the part that is not counted yet; nothing if all is counted. */
const unknown = (clicks, end) => {
  const [from, to, until] = [clicks.from, clicks.to, clicks.complete_until].map(Date.parse);
  const share = Math.max(0, (until - from) / (to - from));
  if (share >= 1) return null;
  const edge = LEFT + share * (end - LEFT);
  return [
    svg("rect", { class: "unknown", x: edge, y: TOP, width: end - edge, height: PLOT_HEIGHT, fill: "url(#hatch)" }),
    svg("line", { class: "edge", x1: edge, x2: edge, y1: TOP, y2: TOP + PLOT_HEIGHT }),
  ];
};

const hatch = () => svg(
  "defs",
  null,
  svg(
    "pattern",
    { id: "hatch", width: 8, height: 8, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("line", { class: "hatch", x1: 0, y1: 0, x2: 0, y2: 8 }),
  ),
);

const readout = (bucket, name) => {
  const visitors = bucket.visitors === null ? "" : `, ${number(bucket.visitors)} visitors`;
  return `${name}: ${number(bucket.clicks)} clicks by people, ${number(bucket.bots)} by bots${visitors}`;
};

const legend = (hasVisitors) => element(
  "ul",
  { class: "legend" },
  [["people", "Clicks by people"], ["bots", "Bots"], hasVisitors && ["visitors", "Visitors"], ["uncounted", "Not counted yet"]]
    .filter(Boolean)
    .map(([key, text]) => element("li", { class: key }, text)),
);

const statisticsTable = (series, nameOf) => element(
  "details",
  null,
  element("summary", null, "Statistics as a table"),
  element(
    "table",
    null,
    element("caption", { class: "visually-hidden" }, "Clicks over time"),
    element("thead", null, element("tr", null, ["Begin", "People", "Bots", "Visitors"].map((text, index) => element("th", { scope: "col", class: index > 0 && "number" }, text)))),
    element("tbody", null, series.map((bucket) => element(
      "tr",
      null,
      element("th", { scope: "row" }, nameOf(bucket.start)),
      [["People", bucket.clicks], ["Bots", bucket.bots], ["Visitors", bucket.visitors]].map(([label, value]) =>
        element("td", { class: "number", "data-label": label }, value === null ? "–" : number(value))),
    ))),
  ),
);

/**
 * Returns the chart of an answer of the API, with a line that tells the counts of the bucket under the pointer.
 * @param {object} clicks
 * @param {number} whole width of the chart in pixels
 */
export const clickChart = (clicks, whole) => {
  const { series, interval } = clicks;
  const nameOf = namesIn(clicks, FORMATS[interval]);
  const top = roof(Math.max(0, ...series.map((bucket) => Math.max(bucket.clicks + bucket.bots, bucket.visitors ?? 0))));
  const y = (value) => TOP + PLOT_HEIGHT * (1 - value / top);
  const end = whole - RIGHT;
  const width = (end - LEFT) / series.length;
  const xOf = (index) => LEFT + index * width;
  const hasVisitors = series.some(({ visitors }) => visitors !== null);
  const every = Math.ceil(LABEL_WIDTH / width);

  const bar = (kind, index, from, value) => value > 0 && svg("rect", {
    class: kind, x: xOf(index) + (width * (1 - FILL)) / 2, y: y(from + value), width: width * FILL, height: y(from) - y(from + value),
  });
  const buckets = series.map((bucket, index) => [
    bar("people", index, 0, bucket.clicks),
    bar("bots", index, bucket.clicks, bucket.bots),
    bucket.visitors !== null && svg("circle", { class: "visitors", cx: xOf(index) + width / 2, cy: y(bucket.visitors), r: 3.5 }),
    index % every === 0 && svg("text", { x: xOf(index) + width / 2, y: HEIGHT - 8, "text-anchor": "middle" }, nameOf(bucket.start)),
  ].filter(Boolean));

  const marker = svg("rect", { class: "marker", y: TOP, width, height: PLOT_HEIGHT, visibility: "hidden" });
  const line = element("p", { class: "readout", "aria-live": "polite" });
  let chosen = series.length - 1;
  const choose = (index) => {
    chosen = Math.min(series.length - 1, Math.max(0, index));
    marker.setAttribute("x", xOf(chosen));
    marker.setAttribute("visibility", "visible");
    replace(line, readout(series[chosen], nameOf(series[chosen].start)));
  };
  const hint = () => {
    marker.setAttribute("visibility", "hidden");
    replace(line, "Point at a bar, or move with the arrow keys, to read its counts.");
  };
  const onkeydown = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    choose(chosen + step);
  };
  const picture = svg(
    "svg",
    {
      viewBox: `0 0 ${whole} ${HEIGHT}`, role: "img", tabindex: 0, onkeydown,
      "aria-label": `Chart: ${number(clicks.totals.clicks)} clicks by people and ${number(clicks.totals.bots)} by bots from ${rangeText(clicks)}. Arrow keys read the bars.`,
      onfocus: () => choose(chosen),
      onblur: hint,
      onpointerleave: hint,
      onpointermove: (event) => {
        const { left, width: shown } = picture.getBoundingClientRect();
        const x = ((event.clientX - left) / shown) * whole;
        choose(Math.floor((x - LEFT) / width));
      },
    },
    hatch(),
    grid(top, y, end),
    unknown(clicks, end),
    marker,
    buckets,
  );
  hint();
  return element("figure", { class: "chart" }, legend(hasVisitors), picture, line, statisticsTable(series, nameOf));
};
