// The webhooks of the operators: all of them, or one.

import { openList } from "../console/webhook_list.js";
import { openOne } from "../console/webhook_details.js";
import { OPERATORS_TYPES, OWNERS_TYPES } from "../console/webhook_parts.js";

const WEBHOOKS = {
  path: "/admin/v1/webhooks",
  title: "linkledger operators",
  explanation: "A webhook of operators posts a signed message to a server of yours for each change of any account.",
  types: [...OWNERS_TYPES, ...OPERATORS_TYPES],
};

/** Opens the page. */
export const open = (place) => (place.parts[0] ? openOne(place, WEBHOOKS) : openList(place, WEBHOOKS));
