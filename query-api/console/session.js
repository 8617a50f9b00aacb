// The key of this tab: an API key, or that of an operator. It is only in sessionStorage and in the header
// `Authorization`.

import { replace } from "./dom.js";
import { keepWayBack } from "./way_back.js";

const KEY = "linkledger.api-key";
const TOKEN = "linkledger.consistency-token";
/** Event of the window: the next key can be of another account. */
const REPLACED = "keyreplaced";
/** Time after which a reload has been stopped. */
const RELOAD_MS_MAX = 10_000;

/** Question that is open; all requests without a valid key share it. */
let question;
/** Ends the question that is open. */
let closeQuestion;

export const apiKey = () => sessionStorage.getItem(KEY);

/** Returns the latest token of all writes. */
export const consistencyToken = () => sessionStorage.getItem(TOKEN);

/** Returns epoch and position of a token, as text whose order is theirs (core/src/consistency.rs). */
const placeOf = (token) => atob(token.replaceAll("-", "+").replaceAll("_", "/")).slice(1, 13);

/**
 * Keeps the token of a write under a key; not if the key was replaced since, as the next may be of another account, and
 * not if a later token is kept: a write without effect returns the token of an earlier one.
 */
export const keepConsistencyToken = (token, key) => {
  const kept = consistencyToken();
  const isLater = !kept || placeOf(token) > placeOf(kept);
  if (key === apiKey() && isLater) sessionStorage.setItem(TOKEN, token);
};

/** Calls the action each time when another key was given, until the signal. */
export const onKeyReplaced = (action, signal) => addEventListener(REPLACED, action, { signal });

/** Forgets the key, and all else that the tab has kept. */
export const signOut = () => {
  // A request that ends before the reload must not ask for a key on the page that goes away.
  question = new Promise((resolve) => {
    setTimeout(resolve, RELOAD_MS_MAX);
  }).finally(() => {
    question = undefined;
  });
  sessionStorage.clear();
  location.reload();
};

/**
 * Asks for a key, above the page: forms below the dialog keep their content. Resolves when a key was given.
 * @param {string} reason words of the problem; empty at the first time
 */
export const askForKey = (reason) => {
  question ??= ask(reason).finally(() => {
    question = undefined;
  });
  return question;
};

/** Takes a key in place of the one before. The requests that wait for a key go on. */
export const takeKey = (given) => {
  const before = apiKey();
  if (given !== before) sessionStorage.removeItem(TOKEN);
  sessionStorage.setItem(KEY, given);
  closeQuestion?.();
  if (before && given !== before) dispatchEvent(new Event(REPLACED));
};

/** Asks in the dialog of the page, whose input says the shape of a key by `pattern` and, in words, by `title`. */
const ask = (reason) => {
  const dialog = document.getElementById("key-dialog");
  const form = dialog.querySelector("form");
  const input = dialog.querySelector("input");
  replace(dialog.querySelector("#key-reason"), reason);
  input.value = "";
  // Browsers let the Esc key close any dialog, but all requests wait for a key.
  const reopen = () => dialog.showModal();
  dialog.addEventListener("close", reopen);
  dialog.showModal();
  return new Promise((resolve) => {
    const accept = (event) => {
      event.preventDefault();
      const given = input.value.trim();
      // The site that has opened the console did so with another key.
      if (given !== apiKey()) keepWayBack(null);
      takeKey(given);
    };
    closeQuestion = () => {
      closeQuestion = undefined;
      input.value = "";
      dialog.removeEventListener("close", reopen);
      form.removeEventListener("submit", accept);
      dialog.close();
      resolve();
    };
    form.addEventListener("submit", accept);
  });
};
