// One link: its addresses, change, deletion, QR code, clicks.

import "./page_style.js";
import { copyButton, element, outwardLink, replace } from "./dom.js";
import { clickPanel } from "./click_panel.js";
import { deletion } from "./link_deletion.js";
import { instant } from "./format.js";
import { linkEditor } from "./link_editor.js";
import { linkHistory } from "./link_history.js";
import { MEMBERS, textOf } from "./link_members.js";
import { pageParts } from "./page_parts.js";
import { qrCode } from "./qr_code.js";
import { problemView } from "./problem_view.js";
import { onKeyReplaced } from "./session.js";
import { readLink } from "./link_store.js";
import { serviceSwitch } from "./link_service.js";
import { stateNotes, tagList } from "./link_marks.js";

/** Members that have a place of their own on the page. */
const PLACED = ["destination_url", "slug", "title", "tags", "expires_at"];

const details = (link) => [
  link.tags?.length > 0 && ["Tags", tagList(link.tags)],
  link.expires_at && [
    Date.parse(link.expires_at) > Date.now() ? "Expires" : "Expired",
    element("time", { datetime: link.expires_at }, instant(link.expires_at)),
  ],
  ...MEMBERS.filter(({ name }) => !PLACED.includes(name) && link[name]).map((member) => [member.label, textOf(member, link)]),
].filter(Boolean);

const facts = (link) => element(
  "dl",
  { class: "facts" },
  [
    ["Short link", element("span", null, outwardLink(link.short_url), " ", copyButton(link.short_url, link.short_url))],
    ["Destination", outwardLink(link.destination_url)],
    ...details(link),
    ["Created", element("time", { datetime: link.created_at }, instant(link.created_at))],
    ["Id", element("code", null, link.id)],
  ].map(([name, value]) => element("div", null, element("dt", null, name), element("dd", null, value))),
);

const FORBIDDEN = 403;
const NOT_FOUND = 404;
const TOPS = ["country", "referrer_host", "browser", "os", "device"];

/** Returns the way to a link whose slug looks like an id. */
const slugSearch = (text) => element("p", null, element("a", { href: `#/links?${new URLSearchParams({ slug: text })}` }, "Look for a link with this slug"));

/** Opens the page. Nothing is shown before the link is read, so that nothing moves. */
export const open = async ({ main, parts: [id], signal, reopen }) => {
  document.title = "Link · linkledger";
  const clicks = () => clickPanel(`/v1/links/${id}/clicks`, TOPS, signal);
  const heading = element("h1", null, "Link");
  const about = element("div");
  const service = element("div", { class: "service" });
  const edit = element("section", { class: "edit" });
  const past = element("div");
  /** Shows all but the form, which may have unsent content. */
  const showState = ({ link }) => {
    const slug = link.short_url.slice(link.short_url.lastIndexOf("/") + 1);
    const name = link.title ?? slug;
    document.title = `${name} · linkledger`;
    replace(heading, name);
    replace(about, stateNotes(link), facts(link));
    replace(service, serviceSwitch(link, { signal, onchanged: showState }));
    replace(past, linkHistory(id, signal));
  };
  const show = ({ link, tag }, notice) => {
    showState({ link });
    replace(edit, element("h2", null, "Change"), linkEditor(link, tag, { signal, notice, onchanged: show }));
  };
  // A next key of the same account keeps the page with all that was typed.
  onKeyReplaced(async () => {
    try {
      await readLink(id, { signal });
    } catch (error) {
      if (!signal.aborted && [FORBIDDEN, NOT_FOUND].includes(error.status)) reopen();
    }
  }, signal);
  try {
    const stored = await readLink(id, { signal });
    show(stored);
    const code = element("section", { class: "qr" }, qrCode(id, signal));
    const ending = element("section", { class: "ending" }, element("h2", null, "Disable or delete"), service, deletion(stored.link, signal));
    const statistics = clicks();
    const parts = pageParts([["Change", edit], ["QR code", code], ["Clicks", statistics], ["History", past]]);
    main.append(heading, parts, about, element("div", { class: "columns" }, edit, element("div", null, code, ending)), statistics, past);
  } catch (error) {
    if (signal.aborted) return;
    replace(past, linkHistory(id, signal));
    // Clicks and history of a deleted link stay readable.
    main.append(heading, element("section", null, problemView(error), error.status === NOT_FOUND && slugSearch(id)), clicks(), past);
  }
};
