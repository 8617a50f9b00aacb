// Pauses before retries, visible in a banner: a countdown, a button to retry at once, a button to give up. The
// banner stays until the request has succeeded or failed for good, so that no button moves away.

import { element, replace } from "./dom.js";

const TICK_MS = 1000;

/** Requests that are retried; all of them go on together. */
const retried = new Set();
let ticking;

const banner = () => document.getElementById("banner");

/** The retries of one request. */
export class Retries {
  constructor(signal) {
    this.signal = signal;
    this.isGivenUp = false;
  }

  /**
   * Waits before an attempt. Resolves after the time, as soon as the browser is online again, or when the user
   * asks for it; rejects with `problem` if the user gives up, and with the reason of the signal.
   */
  pause(problem, milliseconds) {
    this.problem = problem;
    this.until = Date.now() + milliseconds;
    retried.add(this);
    show();
    return new Promise((resolve, reject) => {
      const abort = () => this.settle(reject, this.signal.reason);
      this.settle = (finish, value) => {
        clearTimeout(timer);
        this.signal?.removeEventListener("abort", abort);
        this.settle = undefined;
        this.until = 0;
        finish(value);
      };
      this.retry = () => this.settle?.(resolve);
      this.refuse = () => this.settle?.(reject, problem);
      const timer = setTimeout(this.retry, milliseconds);
      this.signal?.addEventListener("abort", abort);
      if (this.isGivenUp) this.refuse();
    });
  }

  /** Gives up now, or at the end of the attempt that is on its way. */
  giveUp() {
    this.isGivenUp = true;
    this.refuse();
  }

  /** Ends the retries: the request has succeeded or failed for good. */
  end() {
    if (retried.delete(this)) show();
  }
}

const all = (action) => () => {
  for (const retries of [...retried]) retries[action]();
};

const show = () => {
  const [first] = retried;
  if (!first) {
    clearInterval(ticking);
    ticking = undefined;
    replace(banner());
    return;
  }
  if (!banner().firstChild) {
    replace(
      banner(),
      element("strong"),
      element("span", { class: "countdown", "aria-live": "off" }),
      element("button", { type: "button", class: "small", onclick: all("retry") }, "Retry now"),
      element("button", { type: "button", class: "small", onclick: all("giveUp") }, "Give up"),
    );
    ticking = setInterval(tick, TICK_MS);
  }
  replace(banner().querySelector("strong"), first.problem.message);
  tick();
};

const tick = () => {
  const [first] = retried;
  const seconds = Math.ceil((first.until - Date.now()) / 1000);
  replace(banner().querySelector(".countdown"), seconds > 0 ? `Retrying in ${seconds} s` : "Retrying …");
};

addEventListener("online", all("retry"));
