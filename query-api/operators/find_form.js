// The field in the head that finds a link or an account.

import { openAddress } from "../console/navigation.js";

/** A key, also one that was cut: it must neither be sent nor get into an address. */
const KEY = /ll[ak]_[0-9A-Za-z]{16}/;

/** Opens the page with what was found when the form is sent. */
export const startFind = () => {
  const form = document.getElementById("find-form");
  const input = document.getElementById("find");
  input.addEventListener("input", () => input.setCustomValidity(""));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = input.value.trim();
    input.value = "";
    if (KEY.test(wanted)) {
      input.setCustomValidity("This was a key, which nobody should see: it was not sent.");
      input.reportValidity();
      return;
    }
    if (wanted) openAddress(`#/find?${new URLSearchParams({ q: wanted })}`);
  });
};
