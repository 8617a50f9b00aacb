// Form with the filters and the order of the list of links, and the query of the list that the form means.

import { element, field, replace, selection } from "./dom.js";

/** Parameters of the API that the one field for text can fill. */
const KINDS = [
  ["", "Best guess"],
  ["slug_prefix", "Slug begins with"],
  ["slug", "Slug"],
  ["destination_url", "Destination"],
  ["destination_host", "Host of destination"],
  ["tag", "Tag"],
  ["external_id", "External id"],
];
const STATES = [["", "Any"], ["active", "Active"], ["disabled", "Disabled"], ["expired", "Expired"]];
const ORDERS = [["", "Newest first"], ["created_at", "Oldest first"]];
const TEXTS = KINDS.map(([name]) => name).filter(Boolean);
const DAYS = ["created_from", "created_to"];
const OTHERS = ["state", ...DAYS, "sort"];
/** Last day of the years that an instant of the API can have. */
const LAST_DAY = "9999-12-31";
const LINK_ID = /^lnk_[0-9a-z]{26}$/;
const WORD = /^[\w-]*$/;
/** An API key, also one that was cut: it must neither be sent nor get into an address. */
const API_KEY = /llk_[0-9A-Za-z]{16}/;

/** Returns the filters of an address of the console; days are without a time. */
export const filtersOf = (query) => {
  const pairs = [...TEXTS, ...OTHERS].map((name) => [name, query.get(name)]);
  return Object.fromEntries(pairs.filter(([, value]) => value));
};

const beginOf = (day) => {
  const begin = new Date(`${day}T00:00`);
  // The API says what is wrong with a day that is none.
  return Number.isNaN(begin.getTime()) ? day : begin.toISOString();
};

/** Returns the parameters of the API: a day begins at midnight in the time zone of the browser. */
export const parametersOf = (filters) =>
  Object.fromEntries(Object.entries(filters).map(([name, value]) => [name, DAYS.includes(name) ? beginOf(value) : value]));

const input = (id, type, value, more) =>
  element("input", { id, type, value, autocomplete: "off", spellcheck: "false", autocapitalize: "none", ...more });

/**
 * Returns the form. `onfilters` gets the filters when the form is sent, a choice changes, or a field for a day
 * is left; `onlink` gets the id of a link that was looked for, `onfault` an error.
 */
export const filterForm = (filters, signal, { onfilters, onlink, onfault }) => {
  let sent = filters;
  const given = TEXTS.find((name) => filters[name]);
  const text = input("find", "search", given && filters[given], {
    list: "find-tags", maxlength: 8192, placeholder: "Slug, short link, destination",
  });
  /** Returns name and value of the parameter for a text. */
  const parameterOf = async (wanted) => {
    if (WORD.test(wanted)) return [kind.value || "slug_prefix", wanted];
    return (await import("./search_text.js")).parameterOf(wanted, kind.value, signal);
  };
  const send = async (event) => {
    event?.preventDefault();
    const wanted = text.value.trim();
    if (API_KEY.test(wanted)) {
      text.value = "";
      text.setCustomValidity("This was an API key, which nobody should see: it was not sent.");
      text.reportValidity();
      return;
    }
    if (!kind.value && LINK_ID.test(wanted)) {
      onlink(wanted);
      return;
    }
    const values = Object.fromEntries(OTHERS.map((name) => [name, form.querySelector(`#${name}`).value]));
    sent = values;
    try {
      const [name, value] = await parameterOf(wanted);
      onfilters({ ...values, [name]: value });
    } catch (error) {
      onfault(error);
    }
  };
  const day = (name) => {
    // While a year is typed, the field changes with each digit.
    const onblur = () => control.validity.valid && control.value !== (sent[name] ?? "") && send();
    const control = input(name, "date", filters[name], { max: LAST_DAY, onblur });
    return control;
  };
  const tags = element("datalist", { id: "find-tags" });
  const suggest = async () => {
    if (kind.value === "tag") (await import("./tag_suggestions.js")).suggestTags(text, tags, signal);
    else replace(tags);
  };
  text.addEventListener("focus", suggest);
  text.addEventListener("input", suggest);
  // What was guessed for one text means nothing for the next; but a tag can get others.
  text.addEventListener("input", () => {
    text.setCustomValidity("");
    if (!isChosen && !(filters.tag && text.value.startsWith(filters.tag))) kind.value = "";
  });
  let isChosen = false;
  const kind = selection("kind", KINDS, given ?? "", () => {
    isChosen = kind.value !== "";
    if (text.value) send();
  });
  const form = element(
    "form",
    { class: "filters", role: "search", onsubmit: send },
    field("Find", text),
    tags,
    field("In", kind),
    field("State", selection("state", STATES, filters.state ?? "", send)),
    field("Created from", day("created_from")),
    field("Created before", day("created_to")),
    field("Order", selection("sort", ORDERS, filters.sort ?? "", send)),
    element("p", { class: "actions" }, element("button", null, "Find")),
  );
  return form;
};
