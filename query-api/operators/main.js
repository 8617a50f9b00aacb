// The pages of the console for operators.

import { startFind } from "./find_form.js";
import { startPages } from "../console/navigation.js";

startFind();
startPages([
  { shape: /^\/overview$/, nav: "#/overview", load: () => import("./overview_page.js") },
  { shape: /^\/accounts$/, nav: "#/accounts", load: () => import("./accounts_page.js") },
  { shape: /^\/accounts\/(acc_[0-9a-z]+)$/, nav: "#/accounts", load: () => import("./account_page.js") },
  { shape: /^\/links\/(lnk_[0-9a-z]+)$/, load: () => import("./link_page.js") },
  { shape: /^\/events$/, nav: "#/events", load: () => import("./events_page.js") },
  { shape: /^\/webhooks(?:\/(whe_[0-9a-z]+))?$/, nav: "#/webhooks", load: () => import("./webhooks_page.js") },
  { shape: /^\/find$/, load: () => import("./find_page.js") },
], "/overview");
