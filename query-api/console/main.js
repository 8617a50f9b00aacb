// The pages of the console for owners of links.

import { startPages } from "./navigation.js";
import { showWayBack } from "./way_back.js";

showWayBack();
startPages([
  { shape: /^\/links$/, nav: "#/links", load: () => import("./links_page.js") },
  { shape: /^\/links\/(lnk_[0-9a-z]+)$/, nav: "#/links", load: () => import("./link_page.js") },
  { shape: /^\/create$/, nav: "#/create", load: () => import("./create_page.js") },
  { shape: /^\/webhooks(?:\/(whe_[0-9a-z]+))?$/, nav: "#/webhooks", load: () => import("./webhooks_page.js") },
  { shape: /^\/account$/, nav: "#/account", load: () => import("./account_page.js") },
  { shape: /^\/enter$/, load: () => import("./enter_page.js") },
], "/links");
