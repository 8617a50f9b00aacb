// Unsent content of a form, kept in this tab so that a reload loses nothing.

/** Longest content that is kept, in characters; browsers give a page some millions. */
const LENGTH_MAX = 1000000;

const PREFIX = "linkledger.draft.";

/** Forgets the drafts of all forms. */
export const clearDrafts = () => {
  for (const place of Object.keys(sessionStorage).filter((name) => name.startsWith(PREFIX))) sessionStorage.removeItem(place);
};

/** Returns the draft of a form. */
export const draftOf = (name) => {
  const place = `${PREFIX}${name}`;
  return {
    read: () => JSON.parse(sessionStorage.getItem(place) ?? "null"),
    /** Returns false if the content is too long to be kept. */
    write: (content) => {
      const text = JSON.stringify(content);
      const fits = text.length <= LENGTH_MAX;
      if (fits) sessionStorage.setItem(place, text);
      else sessionStorage.removeItem(place);
      return fits;
    },
    clear: () => sessionStorage.removeItem(place),
  };
};
