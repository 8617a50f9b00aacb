// Batches of creates: cut by number and bytes, repeated under their keys until each item has an outcome.

import { send } from "./api.js";

const ITEMS_MAX = 100;
/** Limit of the API, less room for the frame of the request. */
const BYTES_MAX = 256 * 1024 - 1024;
/** Rounds in which items are sent again whose problem can pass. */
const ROUNDS_MAX = 4;
const KEY_IN_USE = "idempotency_key_in_use";

const encoder = new TextEncoder();

/** Cuts items into batches. */
const cut = function* (items) {
  let [batch, bytes] = [[], 0];
  for (const item of items) {
    const size = encoder.encode(JSON.stringify(item)).length + 1;
    if (batch.length === ITEMS_MAX || (batch.length > 0 && bytes + size > BYTES_MAX)) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(item);
    bytes += size;
  }
  if (batch.length > 0) yield batch;
};

const canPass = ({ status, problem }) => status >= 500 || problem?.code === KEY_IN_USE;

const sendBatch = async (mode, batch, options) => {
  const response = await send("POST", "/v1/links/batch", { ...options, body: { mode, items: batch } });
  return response.json();
};

/** Sends one batch, and then its items again whose problem can pass. */
const settle = async (mode, batch, options) => {
  const answer = await sendBatch(mode, batch, options);
  const outcomes = answer.items;
  for (let round = 1; round < ROUNDS_MAX; round += 1) {
    const open = [...outcomes.keys()].filter((index) => canPass(outcomes[index]));
    if (open.length === 0) break;
    const again = await sendBatch(mode, open.map((index) => batch[index]), options);
    open.forEach((index, position) => {
      outcomes[index] = again.items[position];
    });
    answer.credits_charged += again.credits_charged;
    answer.credits_balance = again.credits_balance ?? answer.credits_balance;
  }
  return { outcomes, charged: answer.credits_charged, balance: answer.credits_balance };
};

/**
 * Sends items, and yields the outcomes of each batch in the order of the items.
 * @param {"partial"|"dry_run"} mode
 * @param {object[]} items
 * @param {{signal?: AbortSignal, onRetry?: Function}} options
 */
export const sendItems = async function* (mode, items, options) {
  for (const batch of cut(items)) yield settle(mode, batch, options);
};
