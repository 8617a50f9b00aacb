// Unsent content of a form, kept in this tab so that a reload loses nothing.

/** Longest content that is kept, in characters; browsers give a page some millions. */
const LENGTH_MAX = 1000000;

/** Returns the draft of a form. */
export const draftOf = (name) => {
  const place = `linkledger.draft.${name}`;
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
