// One webhook: its facts, what can be done with it, and its deliveries.

import { announce, copyButton, element, once, replace } from "./dom.js";
import { askAndSend } from "./action_dialog.js";
import { choiceField, lineField } from "./form_fields.js";
import { facts, time, words } from "./layout.js";
import { number } from "./format.js";
import { onKeyReplaced } from "./session.js";
import { problemView } from "./problem_view.js";
import { read, send } from "./api.js";
import { deliveriesPanel } from "./webhook_deliveries.js";
import { lastResult, nameOf, shortAddress, showSecret, stateView, typesText, webhookFields } from "./webhook_parts.js";

const FORBIDDEN = 403;
const NOT_FOUND = 404;
const OVERLAPS_H = [[0, "none: the old secret ends at once"], [1, "an hour"], [24, "a day"], [168, "a week"]];
const OVERLAP_H = 24;
/** Deliveries are counted up to this number. */
const COUNTED_MAX = 1000;

const counted = (value) => `${number(value)}${value < COUNTED_MAX ? "" : " or more"}`;

const lastAttempt = (health) => health.last_attempt_at && [time(health.last_attempt_at), " ", words(lastResult(health))];

const factsOf = (webhook) => facts([
  ["Address", element("span", { class: "address whole" }, webhook.url)],
  webhook.description && ["Description", words(webhook.description)],
  ["State", element("div", null, stateView(webhook))],
  ["Types", typesText(webhook)],
  ["Order", webhook.in_order ? "one request after the other, with up to 100 messages" : "up to 8 messages at once"],
  ["Waiting for a retry", counted(webhook.waiting)],
  ["Failed", counted(webhook.failed)],
  webhook.is_replaying && ["Replay", "running"],
  ["Last success", time(webhook.health.last_success_at)],
  ["Last attempt", lastAttempt(webhook.health) || time(null)],
  webhook.health.next_probe_at && ["Next attempt", time(webhook.health.next_probe_at)],
  ["Created", time(webhook.created_at)],
  ["Id", [element("code", null, webhook.id), " ", copyButton(webhook.id, webhook.id)]],
]);

const instantField = (name, label, attributes) =>
  lineField(name, label, { type: "datetime-local", step: 1, parse: (text) => new Date(text).toISOString(), ...attributes });

const changeCommand = (webhook, types) => ({
  title: "Change webhook",
  label: "Save",
  explanation: "Only what you change is sent. New types count from the next event on.",
  method: "PATCH",
  attempts: 1,
  fields: webhookFields(types, webhook),
});

const ROTATE = {
  title: "Rotate secret",
  label: "Rotate secret",
  explanation: "A new secret signs all messages. During the overlap the old one signs them too.",
  isDangerous: true,
  path: "/rotate-secret",
};

const REPLAY = {
  title: "Replay",
  label: "Send again",
  explanation: "Sends the messages of a time once more, beside new ones. A message has the same webhook-id as before.",
  path: "/replay",
  attempts: 1,
};

const REPLAY_BEGUN = ["The replay has begun.", "good"];
const NOTHING_TO_REPLAY = ["There are no events in this range: nothing is sent.", "warn"];

const deleteCommand = (webhook) => ({
  title: "Delete webhook",
  label: "Delete for ever",
  explanation: [
    "No message goes to ",
    element("b", null, shortAddress(webhook.url)),
    webhook.description && [" (", words(webhook.description), ")"],
    " any more, and its deliveries are forgotten. Messages that wait are not sent.",
  ],
  method: "DELETE",
  attempts: 1,
  isDangerous: true,
});

/** Returns what a test has shown, and the class of the sentence. */
const testOutcome = (delivery) => {
  if (!delivery) return ["The test was not sent yet: it follows the messages that are on their way; a disabled webhook sends nothing until it is enabled.", "warn"];
  if (delivery.state === "delivered") return ["The test was delivered.", "good"];
  return [`The test was not accepted: ${lastResult(delivery)}.`, "bad"];
};

/**
 * Opens a webhook. Nothing is shown before it is read, so that nothing moves.
 * @param {object} place
 * @param {import("./webhook_parts.js").Webhooks} webhooks
 */
export const openOne = async ({ main, parts: [id], signal, reopen }, { path: list, title, types }) => {
  const path = `${list}/${id}`;
  const heading = element("h1");
  const about = element("div");
  const actions = element("div", { class: "actions" });
  const outcome = element("div", { role: "status", id: "outcome" });
  const deliveries = deliveriesPanel(path, signal);
  const readOne = () => read(path, null, signal);

  const tell = (text, kind) => replace(outcome, element("p", { class: kind }, text));
  /** Reads the webhook again after a change. */
  const refresh = async (text, kind) => {
    tell(text, kind);
    try {
      show(await readOne());
    } catch (error) {
      if (!signal.aborted) outcome.append(problemView(error));
    }
  };
  const ask = (command, ondone) => askAndSend(
    { ...command, path: `${path}${command.path ?? ""}` },
    signal,
    ondone,
    (text) => refresh(text, "warn"),
  );
  const asking = (label, askNow, kind) => element("button", { type: "button", class: kind, onclick: askNow }, label);
  /** Returns a button that sends its command without a question. */
  const doing = (label, action) => {
    const button = element("button", { type: "button", onclick: () => doOnce() }, label);
    const doOnce = once(button, async () => {
      try {
        await action();
      } catch (error) {
        if (!signal.aborted) replace(outcome, problemView(error));
      }
    });
    return button;
  };

  const test = async () => {
    tell("The test is on its way.");
    const { body } = await send("POST", `${path}/test`, { attempts: 1, signal });
    await refresh(...testOutcome(await deliveries.showNew(body)));
  };
  const enable = async (isEnabled) => {
    await send("PATCH", path, { body: { enabled: isEnabled }, signal });
    await refresh(isEnabled ? "The webhook is enabled: messages go on where they stopped." : "The webhook is disabled: messages wait in the log.", "good");
  };
  const rotate = () => ask(
    { ...ROTATE, fields: [choiceField("overlap_hours", "Overlap", OVERLAPS_H, OVERLAP_H, Number)] },
    (made) => showSecret(made, () => refresh("The secret is rotated.", "good")),
  );
  const replay = () => ask(
    { ...REPLAY, fields: [instantField("from", "From", { required: true }), instantField("to", "Until", { help: "Without it, until now." })] },
    ({ is_replaying: isReplaying }) => refresh(...(isReplaying ? REPLAY_BEGUN : NOTHING_TO_REPLAY)),
  );
  const remove = (webhook) => ask(deleteCommand(webhook), () => {
    location.hash = "#/webhooks";
    announce("Webhook deleted");
  });
  const buttonsOf = (webhook) => [
    doing("Send a test", test),
    asking("Change", () => ask(changeCommand(webhook, types), () => refresh("Changed.", "good"))),
    doing(webhook.enabled ? "Disable" : "Enable", () => enable(!webhook.enabled)),
    asking("Rotate secret", rotate),
    asking("Replay", replay),
    asking("Delete", () => remove(webhook), "danger"),
  ];
  // Each button has a place of its own, in which a focus stays when the webhook is shown anew.
  const show = (webhook) => {
    document.title = `${nameOf(webhook)} · ${title}`;
    replace(heading, words(nameOf(webhook)));
    replace(about, factsOf(webhook));
    const buttons = buttonsOf(webhook);
    if (actions.children.length === 0) actions.append(...buttons.map(() => element("span")));
    buttons.forEach((button, index) => replace(actions.children[index], button));
  };

  // A next key of the same account keeps the page.
  onKeyReplaced(async () => {
    try {
      await readOne();
    } catch (error) {
      if (!signal.aborted && [FORBIDDEN, NOT_FOUND].includes(error.status)) reopen();
    }
  }, signal);
  document.title = `Webhook · ${title}`;
  show(await readOne());
  main.append(heading, about, element("section", { id: "actions" }, actions, outcome), deliveries.view);
  deliveries.show();
};
