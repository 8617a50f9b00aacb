// Keeps the part of a page that is marked `data-live` up to date: asks for the page again and takes
// that part of the answer. Without this script a reload does the same.
"use strict";

const INTERVAL_MS = 2000;
const TIMEOUT_MS = 5000;

const live = () => document.querySelector("[data-live]");

const refresh = async () => {
  const answer = await fetch(location.href, { signal: AbortSignal.timeout(TIMEOUT_MS) });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const next = page.querySelector("[data-live]");
  if (!next) {
    throw new Error(page.querySelector("h1")?.textContent ?? `HTTP status ${answer.status}`);
  }
  live().replaceWith(next);
};

const start = (state) => {
  const button = document.createElement("button");
  button.type = "button";
  const said = document.createElement("span");
  state.replaceChildren(said, button);
  let isPaused = false;
  let lastAt = new Date();

  const say = (trouble) => {
    const time = lastAt.toLocaleTimeString([], { hour12: false });
    said.textContent = trouble
      ? `⚠ ${trouble}; this is how it was at ${time}`
      : isPaused ? `paused at ${time}` : `live, ${time}`;
    said.className = trouble ? "bad" : "quiet";
    button.textContent = isPaused ? "Go on" : "Pause";
  };

  const tick = async () => {
    if (!isPaused && !document.hidden) {
      try {
        await refresh();
        lastAt = new Date();
        say();
      } catch (error) {
        say(error.name === "TimeoutError" || error.name === "TypeError" ? "no answer" : error.message);
      }
    }
    setTimeout(tick, INTERVAL_MS);
  };

  button.addEventListener("click", () => {
    isPaused = !isPaused;
    say();
  });
  say();
  setTimeout(tick, INTERVAL_MS);
};

document.addEventListener("DOMContentLoaded", () => {
  const state = document.getElementById("live-state");
  if (state && live()) {
    start(state);
  }
});
