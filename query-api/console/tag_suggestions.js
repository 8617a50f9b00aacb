// Suggestions where tags are typed: the first tags of the account, read once a page, when such a field is first used.

import { ApiProblem, send } from "./api.js";
import { count, tagsIn } from "./format.js";
import { element, replace } from "./dom.js";
import { apiKey } from "./session.js";

const TAGS_MAX = 100;
/** Text before the tag that is being typed. */
const BEFORE_LAST = /^(.*[,;]\s*)?/;

/** Tags by the signal of their page, with the key that they were read with. */
const readings = new WeakMap();

const readTags = async (signal) => {
  try {
    // Nobody waits for suggestions, so the request is not repeated.
    const { body } = await send("GET", "/v1/tags", { query: { limit: TAGS_MAX }, signal, attempts: 1 });
    return body.items;
  } catch (error) {
    if (!(error instanceof ApiProblem) && !signal.aborted) throw error;
    readings.delete(signal);
    return [];
  }
};

const tagsOf = (signal) => {
  if (readings.get(signal)?.key !== apiKey()) readings.set(signal, { key: apiKey(), tags: readTags(signal) });
  return readings.get(signal).tags;
};

/** Fills the list of an input with the tags that can complete the last one of its text. */
export const suggestTags = async (input, list, signal) => {
  const tags = await tagsOf(signal);
  const [before] = BEFORE_LAST.exec(input.value);
  const typed = tagsIn(before);
  replace(list, tags.filter(({ tag }) => !typed.includes(tag)).map(({ tag, links }) =>
    element("option", { value: `${before}${tag}`, label: count(links, "link") })));
};

/** Suggests tags in an input as long as the page is open; returns the list, which must be in the page. */
export const tagSuggestions = (input, signal) => {
  const list = element("datalist", { id: `${input.id}-tags` });
  const suggest = () => suggestTags(input, list, signal);
  input.setAttribute("list", list.id);
  input.addEventListener("focus", suggest);
  input.addEventListener("input", suggest);
  return list;
};
