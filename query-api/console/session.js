// The API key of this tab. The key is only in sessionStorage and in the header `Authorization`.

import { replace } from "./dom.js";

const KEY = "linkledger.api-key";
const SHAPE = /^llk_[0-9A-Za-z]{36}$/;

/** Question that is open; all requests without a valid key share it. */
let question;

export const apiKey = () => sessionStorage.getItem(KEY);

/** Forgets the key, and all else that the tab has kept. */
export const signOut = () => {
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

const ask = (reason) => {
  const dialog = document.getElementById("key-dialog");
  const form = dialog.querySelector("form");
  const input = dialog.querySelector("input");
  replace(dialog.querySelector("#key-reason"), reason);
  input.value = "";
  const stay = (event) => event.preventDefault();
  dialog.addEventListener("cancel", stay);
  dialog.showModal();
  return new Promise((resolve) => {
    const check = () => input.setCustomValidity(
      SHAPE.test(input.value.trim()) ? "" : "A key is llk_ and 36 letters and digits.",
    );
    const accept = (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, input.value.trim());
      input.value = "";
      dialog.removeEventListener("cancel", stay);
      form.removeEventListener("submit", accept);
      input.removeEventListener("input", check);
      dialog.close();
      resolve();
    };
    input.addEventListener("input", check);
    form.addEventListener("submit", accept);
  });
};
