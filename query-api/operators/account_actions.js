// What operators do with the credits and the state of an account.

import { element } from "../console/dom.js";
import { count, number } from "../console/format.js";
import { askAndSend } from "../console/action_dialog.js";
import {
  creditsField, descriptionField, externalIdField, lowBalanceField, nameField, reasonField, referenceField, tickField,
} from "./form_fields.js";

const booked = ({ amount, balance_after: balance }) => `Booked: ${number(amount)}; balance ${count(balance, "credit")}.`;

/**
 * @typedef {object} Action
 * @property {string} label
 * @property {(account: object) => Partial<import("../console/action_dialog.js").Command>} commandOf
 * @property {(answer: object) => string} done
 */

/** @type {Action[]} */
const CREDITS = [
  {
    label: "Grant credits",
    commandOf: () => ({
      explanation: "Adds credits to the balance, such as those of a payment. The grant can be taken back in the ledger.",
      path: "/grants",
      fields: [creditsField("amount", "Credits", { min: 1 }), reasonField(), referenceField(), descriptionField()],
    }),
    done: booked,
  },
  {
    label: "Adjust balance",
    commandOf: () => ({
      explanation: "Corrects the balance by an amount; a negative one is subtracted.",
      path: "/adjustments",
      fields: [creditsField("amount", "Credits to add, or to subtract with a minus"), reasonField(), referenceField(), descriptionField()],
    }),
    done: booked,
  },
  {
    label: "Set balance",
    commandOf: ({ balance }) => ({
      explanation: `The balance becomes the given one, whatever it is by then; it is ${count(balance, "credit")} on this page.`,
      path: "/balance",
      fields: [creditsField("balance", "Balance", { min: 0 }), reasonField()],
    }),
    done: booked,
  },
];

const stopField = (areStopped) => tickField("stop_redirects", "Stop redirects: visitors of the account's links get “gone”", areStopped);

/** @type {Action} */
const SUSPEND = {
  label: "Suspend",
  commandOf: () => ({
    explanation: "Within 5 s, the API refuses all requests of the account except those of its credits (balance and ledger), until it is resumed.",
    path: "/suspend",
    isDangerous: true,
    fields: [reasonField(), stopField(false)],
  }),
  done: () => "The account is suspended.",
};

/** @type {Action[]} */
const SUSPENDED = [
  {
    label: "Resume",
    commandOf: () => ({
      explanation: "The API takes requests of the account again, and its links redirect, within 5 s.",
      path: "/resume",
      fields: [reasonField()],
    }),
    done: () => "The account is resumed.",
  },
  {
    label: "Redirects",
    commandOf: ({ redirects_stopped: areStopped }) => ({
      title: "Redirects of the suspended account",
      explanation: "The account stays suspended; its links redirect, or stop.",
      path: "/suspend",
      isDangerous: true,
      fields: [reasonField(), stopField(areStopped)],
    }),
    done: ({ redirects_stopped: areStopped }) => (areStopped ? "Redirects are stopped." : "The links redirect."),
  },
];

/** @type {Action} */
const CHANGE = {
  label: "Change account",
  commandOf: ({ name, external_id: externalId, low_balance_at: thresholds }) => ({
    explanation: "Only what you change is sent. An empty external id is removed, and so are thresholds.",
    method: "PATCH",
    attempts: 1,
    path: "",
    fields: [
      nameField({ required: true, value: name }),
      externalIdField({ value: externalId, empty: null }),
      lowBalanceField({ value: thresholds.join(", "), empty: [] }),
    ],
  }),
  done: () => "Changed.",
};

/**
 * Returns a button for each action.
 * @param {object} account
 * @param {{signal: AbortSignal, ondone: (text: string) => void, onunsure: (text: string) => void}} options
 */
export const actionButtons = (account, { signal, ondone, onunsure }) => {
  const button = ({ label, commandOf, done }) => {
    const command = commandOf(account);
    const ask = () => askAndSend(
      { title: label, label, ...commandOf(account), path: `/admin/v1/accounts/${account.id}${command.path}` },
      signal,
      (answer) => ondone(done(answer)),
      onunsure,
    );
    return element("button", { type: "button", class: command.isDangerous && "danger", onclick: ask }, label);
  };
  return [...CREDITS, ...(account.state === "suspended" ? SUSPENDED : [SUSPEND]), CHANGE].map(button);
};
