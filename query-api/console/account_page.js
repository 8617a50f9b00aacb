// The account: credits and their use, clicks of all links, most clicked links.

import "./page_style.js";
import { element, replace } from "./dom.js";
import { clickPanel } from "./click_panel.js";
import { creditsPanel } from "./credits_panel.js";
import { ledger } from "./ledger.js";
import { onKeyReplaced } from "./session.js";

/** Opens the page. */
export const open = ({ main, signal, reopen }) => {
  onKeyReplaced(reopen, signal);
  document.title = "Account · linkledger";
  replace(
    main,
    element("h1", null, "Account"),
    creditsPanel(signal),
    clickPanel("/v1/clicks", ["link", "country", "referrer_host", "browser", "os", "device"], signal),
    ledger(signal),
  );
};
