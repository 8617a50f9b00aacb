// Clicks of a link or of the account: choice of range and bucket, chart, totals, most frequent values.

import { element, field, replace, selection } from "./dom.js";
import { download } from "./files.js";
import { instant, number } from "./format.js";
import { clickChart, rangeText } from "./click_chart.js";
import { problemView } from "./problem_view.js";
import { read, send } from "./api.js";
import { topList } from "./top_list.js";

const ownTimeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const HOUR_MS = 3600000;
const RANGES = [["1", "Last 24 hours"], ["7", "Last 7 days"], ["30", "Last 30 days"], ["90", "Last 90 days"], ["365", "Last 12 months"]];
const INTERVALS = [["hour", "Hours"], ["day", "Days"], ["week", "Weeks"], ["month", "Months"]];
/** Bucket that suits a range, by its days. */
const SUITABLE = { 1: "hour", 7: "day", 30: "day", 90: "week", 365: "month" };
const FIRST_RANGE = "7";
/** Ranges that are not counted in days. */
const [DAY_OF_HOURS, YEAR_OF_MONTHS] = ["1", "365"];
/** Longest range in hours that one chart can show, in days. */
const HOURS_RANGE_MAX = 30;

const UTC_DAY_LENGTH = "2026-11-20".length;

const utcDay = (time) => new Date(time).toISOString().slice(0, UTC_DAY_LENGTH);

/**
 * Returns the begin of a range that ends with the current hour, day or month, so that the chart has no bar more than
 * the name of the range says.
 */
const beginOf = (range, timeZone) => {
  const begin = new Date();
  if (range === DAY_OF_HOURS) begin.setTime(begin.getTime() - 23 * HOUR_MS);
  else if (timeZone === "UTC") {
    if (range === YEAR_OF_MONTHS) begin.setUTCMonth(begin.getUTCMonth() - 11, 1);
    else begin.setUTCDate(begin.getUTCDate() - Number(range) + 1);
    begin.setUTCHours(0, 0, 0, 0);
  } else {
    if (range === YEAR_OF_MONTHS) begin.setMonth(begin.getMonth() - 11, 1);
    else begin.setDate(begin.getDate() - Number(range) + 1);
    begin.setHours(0, 0, 0, 0);
  }
  return begin.toISOString();
};

/** Returns the ranges of the statistics: the API widens those of the chart to whole buckets, those of the lists to days. */
const rangeView = (clicks, { from, to }) => element(
  "p",
  { class: "quiet range" },
  `Chart and totals: ${rangeText(clicks)}. Lists: the UTC days ${utcDay(Date.parse(from))} to ${utcDay(Date.parse(to) - 1)}.`,
  clicks.utc_days_before && clicks.timezone !== "UTC" && ` Bars that begin before ${utcDay(Date.parse(clicks.utc_days_before))} are UTC days.`,
);

const totalsView = ({ totals, complete_until: until }) => element(
  "dl",
  { class: "totals" },
  [["Clicks by people", totals.clicks], ["Visitors, day by day", totals.visitors], ["Bots", totals.bots]].map(([name, value]) =>
    element("div", null, element("dt", null, name), element("dd", null, number(value)))),
  element("div", null, element("dt", null, "Counted until"), element("dd", { class: "until" }, Date.parse(until) === 0 ? "nothing counted yet" : instant(until))),
);

/**
 * Returns the panel.
 * @param {string} path path of the clicks in the API
 * @param {string[]} tops kinds of the most frequent values
 * @param {AbortSignal} signal
 */
export const clickPanel = (path, tops, signal) => {
  const chart = element("div", { class: "chart-place" });
  const statistics = element("div", { class: "totals-place" });
  const lists = element("div", { class: "tops" });
  const notice = element("div");
  let reading = new AbortController();
  let [clicks, width] = [undefined, 0];

  /** Draws for the width of its place; a place that is not shown has none. */
  const draw = () => {
    width = chart.clientWidth;
    if (width > 0) replace(chart, clickChart(clicks, width));
  };
  // The height also changes when the table of statistics is opened.
  const resizing = new ResizeObserver(() => clicks && chart.clientWidth !== width && draw());
  resizing.observe(chart);
  signal.addEventListener("abort", () => resizing.disconnect());

  const query = () =>
    ({ interval: interval.value, timezone: zone.value, from: beginOf(range.value, zone.value), to: new Date().toISOString() });
  const load = async () => {
    reading.abort();
    reading = new AbortController();
    const own = AbortSignal.any([signal, reading.signal]);
    const asked = query();
    replace(notice);
    const { from, to } = asked;
    const answered = read(path, asked, own);
    replace(lists, tops.map((by) => topList(path, by, { from, to }, own)));
    try {
      clicks = await answered;
      replace(statistics, totalsView(clicks), rangeView(clicks, asked));
      draw();
    } catch (error) {
      if (!own.aborted) replace(notice, problemView(error));
    }
  };
  const save = async () => {
    try {
      const { body } = await send("GET", path, { query: query(), headers: { Accept: "text/csv" }, form: "blob", signal });
      download("clicks.csv", "text/csv", body);
    } catch (error) {
      if (!signal.aborted) replace(notice, problemView(error));
    }
  };
  const chooseRange = () => {
    interval.value = SUITABLE[range.value];
    chooseInterval();
  };
  const chooseInterval = () => {
    if (interval.value === "hour" && Number(range.value) > HOURS_RANGE_MAX) range.value = String(HOURS_RANGE_MAX);
    load();
  };
  const range = selection("range", RANGES, FIRST_RANGE, chooseRange);
  const interval = selection("interval", INTERVALS, SUITABLE[FIRST_RANGE], chooseInterval);
  const zones = [...new Set([ownTimeZone, "UTC"])].map((name) => [name, name.replaceAll("_", " ")]);
  const zone = selection("zone", zones, ownTimeZone, load);
  load();
  return element(
    "section",
    { class: "clicks" },
    element("h2", null, "Clicks"),
    element("div", { class: "filters" }, field("Range", range), field("By", interval), field("Time zone", zone),
      element("p", { class: "actions" }, [["Refresh", load], ["CSV", save]].map(([label, onclick]) => element("button", { type: "button", onclick }, label)))),
    notice,
    statistics,
    chart,
    lists,
  );
};
