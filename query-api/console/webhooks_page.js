// The webhooks of the account: all of them, or one.

import "./page_style.js";
import { openList } from "./webhook_list.js";
import { openOne } from "./webhook_details.js";
import { OWNERS_TYPES } from "./webhook_parts.js";

const WEBHOOKS = {
  path: "/v1/webhooks",
  title: "linkledger",
  explanation: "A webhook posts a signed message to a server of yours for each change of your account.",
  types: OWNERS_TYPES,
};

/** Opens the page. */
export const open = (place) => (place.parts[0] ? openOne(place, WEBHOOKS) : openList(place, WEBHOOKS));
