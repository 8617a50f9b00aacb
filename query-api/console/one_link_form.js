// Form for one new link. The key of the create is kept with the form until the link exists, so that each
// further attempt, also after a reload, makes the same link or none.

import { copyButton, element, once, outwardLink, replace } from "./dom.js";
import { count, number } from "./format.js";
import { draftOf } from "./draft.js";
import { MEMBERS } from "./link_members.js";
import { memberFields } from "./member_fields.js";
import { problemView } from "./problem_view.js";
import { send } from "./api.js";

const draft = draftOf("one-link");
const RETRIED = "No answer yet. The request is repeated under the same key: at most one link is made and charged.";

const fresh = () => ({ key: crypto.randomUUID(), members: {} });

const createdView = (link, isReplayed) => element(
  "div",
  { class: "created", role: "status" },
  element("p", null, element("strong", null, outwardLink(link.short_url)), " ", copyButton(link.short_url, link.short_url)),
  element(
    "p",
    null,
    isReplayed ? "An earlier attempt under the same key had made this link: one link, charged once. " : `Charged ${count(link.credits_charged, "credit")}; balance ${number(link.credits_balance)}. `,
    element("a", { href: `#/links/${link.id}` }, "Open the link"),
  ),
);

/** Returns the form. */
export const oneLinkForm = ({ signal, oncreated }) => {
  let kept = draft.read() ?? fresh();
  const form = element("form", { class: "members" });
  const outcome = element("div", { class: "outcome" });

  const show = () => {
    const { fields, values } = memberFields(MEMBERS, kept.members, "new", signal);
    const keep = () => {
      kept.members = Object.fromEntries(values().filter(([, value]) => value !== undefined));
      draft.write(kept);
    };
    const submit = element("button", { class: "primary" }, "Create link");
    const reset = element("button", { type: "button", onclick: begin }, "Start over");
    form.oninput = keep;
    const submitOnce = once(submit, () => {
      keep();
      replace(outcome);
      return create();
    });
    form.onsubmit = (event) => {
      event.preventDefault();
      submitOnce();
    };
    replace(form, element("div", { class: "fields" }, fields), element("p", { class: "actions" }, submit, reset));
  };
  const begin = () => {
    draft.clear();
    kept = fresh();
    replace(outcome);
    show();
  };
  const create = async () => {
    try {
      const { body: link, headers } = await send("POST", "/v1/links", {
        body: kept.members,
        headers: { "Idempotency-Key": kept.key },
        signal,
        onRetry: () => replace(outcome, element("p", { role: "status" }, RETRIED)),
      });
      begin();
      replace(outcome, createdView(link, headers.has("idempotent-replayed")));
      form.querySelector("input").focus();
      oncreated();
    } catch (error) {
      if (!signal.aborted) replace(outcome, problemView(error));
    }
  };
  show();
  return element("div", null, form, outcome);
};
