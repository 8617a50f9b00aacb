// The way back to the site that has opened the console, for as long as the tab keeps the key.

import { isOfTheWeb } from "./dom.js";

const PLACE = "linkledger.return-url";

/** Shows the way in the head, and where a key is asked for. */
export const showWayBack = () => {
  const address = sessionStorage.getItem(PLACE);
  for (const link of document.querySelectorAll(".way-back")) {
    link.hidden = address === null;
    if (address !== null) link.href = address;
  }
};

/** Keeps and shows the address of the site; without one of the web there is no way back. */
export const keepWayBack = (address) => {
  if (isOfTheWeb(address)) sessionStorage.setItem(PLACE, address);
  else sessionStorage.removeItem(PLACE);
  showWayBack();
};
