// Changes a link under the version that was shown. If somebody else was faster, both versions are shown.

import { announce, element, once, replace } from "./dom.js";
import { MEMBERS, fieldTextOf, textOf } from "./link_members.js";
import { changeLink, readLink } from "./link_store.js";
import { memberFields } from "./member_fields.js";
import { problemView } from "./problem_view.js";

const MUTABLE = MEMBERS.filter(({ mutable }) => mutable);

/** Returns the merge patch that makes the link have these values: a member without value is removed. */
const patchOf = (link, values) => {
  const isChanged = ([name, value]) => {
    const member = MEMBERS.find((each) => each.name === name);
    return fieldTextOf(member, { [name]: value }) !== fieldTextOf(member, link);
  };
  const changed = values.filter(isChanged);
  return Object.fromEntries(changed.map(([name, value]) => [name, value ?? null]));
};

const conflictView = (patch, stored, { onkeep, ontake }) => {
  const members = MEMBERS.filter(({ name }) => name in patch);
  return element(
    "div",
    { class: "conflict", role: "alert" },
    element("p", null, element("strong", null, "Somebody else has changed this link since you opened it.")),
    element(
      "table",
      null,
      element("caption", { class: "visually-hidden" }, "Both versions"),
      element("thead", null, element("tr", null, ["Member", "Yours", "Stored now"].map((text) => element("th", { scope: "col" }, text)))),
      element("tbody", null, members.map((member) => element(
        "tr",
        null,
        element("th", { scope: "row" }, member.label),
        element("td", { "data-label": "Yours", class: "address" }, textOf(member, patch) || "(none)"),
        element("td", { "data-label": "Stored now", class: "address" }, textOf(member, stored) || "(none)"),
      ))),
    ),
    element(
      "p",
      { class: "actions" },
      element("button", { type: "button", class: "primary", onclick: onkeep }, "Save mine over it"),
      element("button", { type: "button", onclick: ontake }, "Take the stored one"),
    ),
  );
};

/**
 * Returns the form.
 * @param {object} link
 * @param {string} tag version of the link
 * @param {{signal: AbortSignal, notice?: string, onchanged: (stored: object, notice?: string) => void}} options
 */
export const linkEditor = (link, tag, { signal, notice, onchanged }) => {
  const { fields, values } = memberFields(MUTABLE, link, "edit", signal);
  const outcome = element("div", { class: "outcome" }, notice && element("p", { role: "status", class: "good" }, notice));
  if (notice) announce(notice);
  const submit = element("button", { class: "primary" }, "Save");

  const save = once(submit, async (version, patch) => {
    try {
      await saveOrSettle(version, patch);
    } catch (error) {
      if (!signal.aborted) replace(outcome, problemView(error));
    }
  });
  const saveOrSettle = async (version, patch) => {
    try {
      onchanged(await changeLink(link.id, version, patch, { signal }), "Saved.");
    } catch (error) {
      if (error.status !== 412) throw error;
      await settle(version, patch, error);
    }
  };
  /**
   * Shows both versions, unless the stored one already is as wanted: an earlier attempt had arrived. A link that was
   * only disabled or enabled since is changed as wanted.
   */
  const settle = async (version, patch, error) => {
    const stored = await readLink(link.id, { signal });
    // The read lags behind the other change: the same version would be refused again.
    if (stored.tag === version) throw error;
    const others = MUTABLE.map(({ name }) => [name, stored.link[name]]);
    if (Object.keys(patchOf(link, others)).length === 0) {
      await saveOrSettle(stored.tag, patch);
      return;
    }
    const missing = patchOf(stored.link, Object.entries(patch));
    if (Object.keys(missing).length === 0) {
      onchanged(stored, "Saved.");
      return;
    }
    replace(outcome, conflictView(patch, stored.link, {
      onkeep: () => save(stored.tag, patch),
      ontake: () => onchanged(stored),
    }));
  };
  const onsubmit = async (event) => {
    event.preventDefault();
    const patch = patchOf(link, values());
    if (Object.keys(patch).length === 0) {
      replace(outcome, element("p", { role: "status" }, "Nothing was changed."));
      return;
    }
    await save(tag, patch);
  };
  return element("form", { class: "members", onsubmit }, element("div", { class: "fields" }, fields), element("p", { class: "actions" }, submit), outcome);
};
