// The dialog for a command: what it does, its fields, and its outcome. The key of a POST is that of the
// dialog, so that each further attempt has the same effect or none.

import { element, once, replace } from "./dom.js";
import { problemView } from "./problem_view.js";
import { send } from "./api.js";
import { bodyOf, showAtFields } from "./form_fields.js";
import { newKey } from "./item_keys.js";

const [CLIENT_FAULT, SERVER_FAULT] = [400, 500];
const RETRIED = "No answer yet. The request is repeated under the same key: it has its effect once, or none.";
const UNSURE = "It is not known whether this was done. Look again before you repeat it.";
const UNCHANGED = "Nothing is changed here, so nothing is sent.";

/** Shows a dialog until it is closed, or until the signal. */
export const openDialog = (title, content, { signal, onclose }) => {
  const opener = document.activeElement;
  const dialog = element(
    "dialog",
    { "aria-labelledby": "dialog-title", class: "action" },
    element("h2", { id: "dialog-title" }, title),
    content,
  );
  const close = () => dialog.close();
  dialog.addEventListener("close", () => {
    signal?.removeEventListener("abort", close);
    dialog.remove();
    // The page may have been shown anew meanwhile.
    if (!opener.isConnected) document.getElementById(opener.id)?.focus();
    onclose?.();
  });
  signal?.addEventListener("abort", close);
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
};

/** Shows a dialog that has no other way out than its button. */
export const openNotice = (title, content, label, onclose) => {
  const button = element("button", { type: "button", class: "primary", onclick: () => dialog.close() }, label);
  const dialog = openDialog(title, [content, element("p", { class: "actions" }, button)], { onclose });
  // `closedby` also stops a second Esc, which browsers let close any other dialog.
  dialog.setAttribute("closedby", "none");
  dialog.addEventListener("cancel", (event) => event.preventDefault());
};

/** True if the request had no effect. */
const isRefusal = ({ status }) => status >= CLIENT_FAULT && status < SERVER_FAULT;

/**
 * @typedef {object} Command
 * @property {string} title
 * @property {string|Node[]} explanation what the command does
 * @property {string} label text of the button that sends it
 * @property {boolean} [isDangerous]
 * @property {string} [method] POST by default
 * @property {string} path
 * @property {import("./form_fields.js").Field[]} [fields]
 * @property {object} [members] members of the body besides those of the fields
 * @property {number} [attempts] 1 for a command whose repetition could undo what others did meanwhile
 */

/**
 * Asks for what a command needs, and sends it.
 * @param {Command} command
 * @param {AbortSignal} signal
 * @param {(body: object) => void} ondone gets the answer, when the dialog is closed
 * @param {(text: string) => void} onunsure shows the text and the present state, when the dialog is closed before it is
 *   known whether the command had its effect
 */
export const askAndSend = (
  { title, explanation, label, isDangerous, method = "POST", path, fields = [], members, attempts },
  signal,
  ondone,
  onunsure,
) => {
  const key = newKey();
  let isUnsure = false;
  const closing = new AbortController();
  const outcome = element("div", { class: "outcome" });
  const submit = element("button", { class: isDangerous ? "danger" : "primary" }, label);
  const attempt = once(submit, async () => {
    replace(outcome);
    const wanted = method === "DELETE" ? undefined : { ...members, ...bodyOf(fields) };
    if (method === "PATCH" && Object.keys(wanted).length === 0) {
      replace(outcome, element("p", { role: "status" }, UNCHANGED));
      return;
    }
    // A refusal says nothing of the attempts before it.
    let wasUnsure = isUnsure;
    isUnsure = true;
    try {
      const { body } = await send(method, path, {
        body: wanted,
        headers: method === "POST" ? { "Idempotency-Key": key } : {},
        attempts,
        signal: closing.signal,
        onRetry: () => {
          wasUnsure = true;
          replace(outcome, element("p", { role: "status" }, RETRIED));
        },
      });
      isUnsure = false;
      dialog.close();
      dialog.remove();
      ondone(body);
    } catch (error) {
      isUnsure = wasUnsure || !isRefusal(error);
      if (closing.signal.aborted) return;
      replace(outcome, problemView(error));
      showAtFields(form, error);
    }
  });
  const onclose = () => {
    closing.abort();
    if (!isUnsure) return;
    // A page that was left shows nothing.
    if (signal.aborted) openNotice(title, element("p", null, UNSURE), "Close");
    else onunsure(UNSURE);
  };
  const onsubmit = (event) => {
    event.preventDefault();
    attempt();
  };
  const form = element(
    "form",
    { onsubmit },
    element("p", null, explanation),
    fields.map(({ view }) => view),
    outcome,
    element("p", { class: "actions" }, element("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), submit),
  );
  const dialog = openDialog(title, form, { signal, onclose });
  form.querySelector("input, select")?.focus();
};
