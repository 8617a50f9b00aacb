// One link: its addresses, change, deletion, QR code, clicks.

import { copyButton, element, outwardLink, replace } from "./dom.js";
import { clickPanel } from "./click_panel.js";
import { deletion } from "./link_deletion.js";
import { instant } from "./format.js";
import { linkEditor } from "./link_editor.js";
import { qrCode } from "./qr_code.js";
import { problemView } from "./problem_view.js";
import { send } from "./api.js";

/**
 * Reads a link with the version that a change must name.
 * @returns {Promise<{link: object, tag: string}>}
 */
export const readLink = async (id, signal) => {
  const response = await send("GET", `/v1/links/${id}`, { signal });
  return { link: await response.json(), tag: response.headers.get("etag") };
};

const facts = (link) => element(
  "dl",
  { class: "facts" },
  [
    ["Short link", element("span", null, outwardLink(link.short_url), " ", copyButton(link.short_url, link.short_url))],
    ["Destination", outwardLink(link.destination_url)],
    ["Created", element("time", { datetime: link.created_at }, instant(link.created_at))],
    ["Id", element("code", null, link.id)],
  ].map(([name, value]) => element("div", null, element("dt", null, name), element("dd", null, value))),
);

const TOPS = ["country", "referrer_host", "browser", "os", "device"];

/** Opens the page. Nothing is shown before the link is read, so that nothing moves. */
export const open = async ({ main, parts: [id], signal }) => {
  document.title = "Link · linkledger";
  const clicks = () => clickPanel(`/v1/links/${id}/clicks`, TOPS, signal);
  const heading = element("h1", null, "Link");
  const about = element("div");
  const edit = element("section", { class: "edit" });
  const show = ({ link, tag }) => {
    const slug = link.short_url.slice(link.short_url.lastIndexOf("/") + 1);
    document.title = `${slug} · linkledger`;
    replace(heading, slug);
    replace(about, facts(link));
    replace(edit, element("h2", null, "Change"), linkEditor(link, tag, { signal, onchanged: show }), deletion(link, signal));
  };
  try {
    show(await readLink(id, signal));
    const code = element("section", { class: "qr" }, qrCode(id, signal));
    main.append(heading, about, element("div", { class: "columns" }, edit, code), clicks());
  } catch (error) {
    if (signal.aborted) return;
    // Clicks of a deleted link stay readable.
    main.append(heading, element("section", null, problemView(error)), clicks());
  }
};
