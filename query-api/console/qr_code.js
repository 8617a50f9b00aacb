// QR code of a link: shown, printed, saved.

import { element, replace } from "./dom.js";
import { problemView } from "./problem_view.js";
import { send } from "./api.js";

const SHOWN_PX = 256;
const SAVED_PX = 1024;

const image = async (id, query, signal) => {
  const { body } = await send("GET", `/v1/links/${id}/qr`, { query, form: "blob", signal });
  return body;
};

const save = async (id, format, signal) => {
  const address = URL.createObjectURL(await image(id, { format, size: SAVED_PX }, signal));
  element("a", { href: address, download: `qr-code.${format}` }).click();
  // The browser has read the address when the event is over.
  setTimeout(() => URL.revokeObjectURL(address));
};

/** Returns the code with its buttons. */
export const qrCode = (id, signal) => {
  const picture = element("img", { width: SHOWN_PX, height: SHOWN_PX, alt: "QR code of the short link" });
  const outcome = element("div");
  const attempt = async (action) => {
    try {
      await action();
    } catch (error) {
      if (!signal.aborted) replace(outcome, problemView(error));
    }
  };
  const button = (label, onclick) => element("button", { type: "button", onclick }, label);
  attempt(async () => {
    picture.src = URL.createObjectURL(await image(id, { format: "svg", size: SHOWN_PX }, signal));
    signal.addEventListener("abort", () => URL.revokeObjectURL(picture.src));
  });
  return [
    element("h2", null, "QR code"),
    picture,
    element(
      "p",
      { class: "actions" },
      button("Save SVG", () => attempt(() => save(id, "svg", signal))),
      button("Save PNG", () => attempt(() => save(id, "png", signal))),
      button("Print this page", () => print()),
    ),
    outcome,
  ];
};
