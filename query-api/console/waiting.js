// Pauses before retries, visible in a banner: a countdown, a button to retry at once, a button to give up.

import { element, replace } from "./dom.js";

const TICK_MS = 1000;

/** Requests that wait; all of them go on together. */
const waiting = new Set();
let ticking;

const banner = () => document.getElementById("banner");

/**
 * Waits before a retry. Resolves after the pause, as soon as the browser is online again, or when
 * the user asks for a retry; rejects with the reason of `signal`, or with `problem` if the user gives up.
 */
export const pause = (problem, milliseconds, signal) =>
  new Promise((resolve, reject) => {
    const waiter = { problem, until: Date.now() + milliseconds };
    const end = (finish, value) => {
      waiting.delete(waiter);
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
      show();
      finish(value);
    };
    const abort = () => end(reject, signal.reason);
    waiter.retry = () => end(resolve);
    waiter.giveUp = () => end(reject, problem);
    const timer = setTimeout(waiter.retry, milliseconds);
    signal?.addEventListener("abort", abort);
    waiting.add(waiter);
    show();
  });

const all = (action) => () => {
  for (const waiter of [...waiting]) waiter[action]();
};

const show = () => {
  const [first] = waiting;
  if (!first) {
    clearInterval(ticking);
    ticking = undefined;
    replace(banner());
    return;
  }
  // Built once, so that the focus stays on a button while the seconds change.
  if (banner().dataset.shows !== first.problem.message || !banner().firstChild) {
    banner().dataset.shows = first.problem.message;
    replace(
      banner(),
      element("strong", null, first.problem.message),
      element("span", { class: "countdown", "aria-live": "off" }),
      element("button", { type: "button", class: "small", onclick: all("retry") }, "Retry now"),
      element("button", { type: "button", class: "small", onclick: all("giveUp") }, "Give up"),
    );
  }
  tick();
  ticking ??= setInterval(tick, TICK_MS);
};

const tick = () => {
  const [first] = waiting;
  const seconds = Math.max(0, Math.ceil((first.until - Date.now()) / 1000));
  banner().querySelector(".countdown").textContent = `Retrying in ${seconds} s`;
};

addEventListener("online", all("retry"));
