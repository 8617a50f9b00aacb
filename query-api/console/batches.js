// Batches of creates: cut by number and bytes, repeated under their keys until each item has an outcome.

import { ApiProblem, backoff, send } from "./api.js";
import { Retries } from "./waiting.js";

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

/** Returns true if the same item can have another outcome later; at the end of a run the outcome is unknown. */
export const canPass = ({ status, problem }) => status >= 500 || problem?.code === KEY_IN_USE;

const sendBatch = async (mode, batch, options) => {
  const { body } = await send("POST", "/v1/links/batch", { ...options, body: { mode, items: batch } });
  return body;
};

/** Sends one batch, and then, after a pause, its items again whose problem can pass. */
const settle = async (mode, batch, options) => {
  const retries = new Retries(options.signal);
  try {
    return await inRounds(mode, batch, options, retries);
  } finally {
    retries.end();
  }
};

const inRounds = async (mode, batch, options, retries) => {
  const answer = await sendBatch(mode, batch, options);
  const outcomes = answer.items;
  const before = answer.credits_balance === null ? null : answer.credits_balance + answer.credits_charged;
  for (let round = 1; round < ROUNDS_MAX; round += 1) {
    const open = [...outcomes.keys()].filter((index) => canPass(outcomes[index]));
    if (open.length === 0) break;
    const { status, problem } = outcomes[open[0]];
    options.onRetry?.();
    await retries.pause(new ApiProblem(status, problem), backoff(round));
    const again = await sendBatch(mode, open.map((index) => batch[index]), options);
    open.forEach((index, position) => {
      outcomes[index] = again.items[position];
    });
    answer.credits_charged += again.credits_charged;
    answer.credits_balance = again.credits_balance ?? answer.credits_balance;
  }
  return { outcomes, charged: answer.credits_charged, balance: answer.credits_balance, before };
};

/**
 * Sends items, and yields the outcomes of each batch in the order of the items.
 * @param {"partial"|"dry_run"} mode
 * @param {object[]} items
 * @param {{key: string, signal?: AbortSignal, onRetry?: () => void}} options the key of another account would
 *   make other links of the same items
 */
export const sendItems = async function* (mode, items, options) {
  for (const batch of cut(items)) yield settle(mode, batch, options);
};
