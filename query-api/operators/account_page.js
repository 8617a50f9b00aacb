// One account: its facts, what operators do with it, its keys, ledger and latest events.

import { copyButton, element, replace } from "../console/dom.js";
import { count } from "../console/format.js";
import { pageParts } from "../console/page_parts.js";
import { problemView } from "../console/problem_view.js";
import { read } from "../console/api.js";
import { actionButtons } from "./account_actions.js";
import { suspensionNote, stateBadge } from "./account_state.js";
import { consolePanel } from "./console_panel.js";
import { latestEvents } from "./events_table.js";
import { keysPanel } from "./keys_panel.js";
import { facts, time, words } from "./layout.js";
import { ledgerPanel } from "./ledger_panel.js";

const factsOf = (account) => facts([
  ["Id", [element("code", null, account.id), " ", copyButton(account.id, account.id)]],
  ["External id", words(account.external_id)],
  ["State", stateBadge(account)],
  ["Balance", element("span", { id: "balance" }, count(account.balance, "credit"))],
  ["Low balance at", words(account.low_balance_at.join(", "))],
  ["Created", time(account.created_at)],
]);

/** Opens the page. Nothing is shown before the account is read, so that nothing moves. */
export const open = async ({ main, parts: [id], signal }) => {
  document.title = "Account · linkledger operators";
  const path = `/admin/v1/accounts/${id}`;
  const heading = element("h1");
  const about = element("div");
  const actions = element("div", { class: "actions" });
  const outcome = element("div", { role: "status", id: "outcome" });
  const change = element("section", { id: "actions" }, element("h2", null, "Credits and state"), actions, outcome);
  const [keys, ledger, events] = [element("div"), element("div"), element("div")];

  const show = (account) => {
    document.title = `${account.name} · linkledger operators`;
    replace(heading, words(account.name));
    replace(about, suspensionNote(account), factsOf(account));
    replace(actions, actionButtons(account, options));
    replace(keys, keysPanel(path, options));
    replace(ledger, ledgerPanel(path, options));
    replace(events, latestEvents(id, signal));
  };
  /** Reads all again after a change. */
  const refresh = async (text, kind) => {
    replace(outcome, element("p", { class: kind }, text));
    try {
      show(await read(path, null, signal));
    } catch (error) {
      if (!signal.aborted) outcome.append(problemView(error));
    }
  };
  const options = { signal, ondone: (text) => refresh(text, "good"), onunsure: (text) => refresh(text, "warn") };
  show(await read(path, null, signal));
  const entrance = consolePanel(path, signal);
  const partsOfPage = [["Credits and state", change], ["Console", entrance], ["Keys", keys], ["Ledger", ledger], ["Events", events]];
  main.append(heading, pageParts(partsOfPage), about, change, entrance, keys, ledger, events);
};
