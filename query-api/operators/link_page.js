// One link of any account: its facts, its state, what it was charged, and all its events.

import { copyButton, element, outwardLink, replace } from "../console/dom.js";
import { olderPages } from "../console/older_pages.js";
import { problemView } from "../console/problem_view.js";
import { read } from "../console/api.js";
import { askAndSend } from "../console/action_dialog.js";
import { reasonField } from "./form_fields.js";
import { eventRow, eventsTable } from "./events_table.js";
import { facts, idLink, time, words } from "./layout.js";
import { linkLedgerPanel } from "./ledger_panel.js";

const statesOf = ({ deleted, disabled, disabled_by: by, expires_at: expiresAt }) => [
  deleted && "deleted by its owner",
  disabled && `disabled by its ${by}`.replace("its operator", "an operator"),
  expiresAt && Date.parse(expiresAt) <= Date.now() && "expired",
].filter(Boolean);

/** Returns the facts. An address to which the link leads is no link here: it may be the reason to disable the link. */
const factsOf = (link) => facts([
  ["State", statesOf(link).length > 0 ? statesOf(link).map((text) => element("span", { class: "badge bad" }, text)) : "in service"],
  ["Short link", [outwardLink(link.short_url), " ", copyButton(link.short_url, link.short_url)]],
  ["Destination", element("span", { class: "address" }, link.destination_url)],
  ["Account", idLink(link.account_id)],
  link.title && ["Title", words(link.title)],
  link.tags?.length > 0 && ["Tags", element("span", { class: "tags" }, link.tags.map((tag) => element("span", { class: "tag" }, tag)))],
  link.external_id && ["External id", words(link.external_id)],
  link.expires_at && ["Expires", time(link.expires_at)],
  link.expired_url && ["Destination after expiry", element("span", { class: "address" }, link.expired_url)],
  ["Created", time(link.created_at)],
  ["Id", [element("code", null, link.id), " ", copyButton(link.id, link.id)]],
]);

const DISABLE = {
  title: "Disable link",
  explanation: "Visitors get “gone” (410) until an operator enables the link; its owner cannot.",
  label: "Disable",
  isDangerous: true,
  path: "/disable",
};
const ENABLE = {
  title: "Enable link",
  explanation: "Visitors reach the destination again, unless the owner has disabled the link too, or it has expired.",
  label: "Enable",
  path: "/enable",
};

/** Opens the page. Nothing is shown before the link is read, so that nothing moves. */
export const open = async ({ main, parts: [id], signal }) => {
  document.title = "Link · linkledger operators";
  const heading = element("h1");
  const about = element("div");
  const actions = element("p", { class: "actions" });
  const outcome = element("div", { role: "status", id: "outcome" });
  const [ledger, events] = [element("div"), element("div")];
  const readLink = () => read("/admin/v1/links", { id }, signal);

  const tell = (text, kind) => replace(outcome, element("p", { class: kind }, text));
  /** Reads all again after a change. */
  const refresh = async (text, kind) => {
    tell(text, kind);
    try {
      await show(await readLink());
    } catch (error) {
      if (!signal.aborted) outcome.append(problemView(error));
    }
  };
  const options = { signal, ondone: (text) => refresh(text, "good"), onunsure: (text) => refresh(text, "warn") };
  const change = ({ path, ...command }, done) => askAndSend(
    { ...command, path: `/admin/v1/links/${id}${path}`, fields: [reasonField()] },
    signal,
    async (changed) => {
      await show(changed);
      tell(done, "good");
    },
    options.onunsure,
  );
  const changeButton = ({ deleted, disabled_by: by }) => {
    if (deleted) return null;
    return by === "operator"
      ? element("button", { type: "button", id: "enable", onclick: () => change(ENABLE, "The link is enabled.") }, "Enable link")
      : element("button", { type: "button", class: "danger", id: "disable", onclick: () => change(DISABLE, "The link is disabled.") }, "Disable link");
  };
  const show = async (link) => {
    // First, since what comes later would move the events.
    const entries = await linkLedgerPanel(link, options);
    const slug = link.short_url.slice(link.short_url.lastIndexOf("/") + 1);
    document.title = `${slug} · linkledger operators`;
    replace(heading, "Link ", element("span", { class: "slug" }, slug));
    replace(about, factsOf(link));
    replace(actions, changeButton(link));
    replace(ledger, entries);
    const { body, foot } = olderPages(`/admin/v1/links/${id}/events`, "Older events", (event) => eventRow(event, true), signal);
    replace(events, eventsTable(body, true), foot);
  };
  await show(await readLink());
  main.append(heading, about, actions, outcome, ledger, element("section", { class: "history", id: "events" }, element("h2", null, "Events"), events));
};
