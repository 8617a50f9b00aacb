// Batches of creates: cut by number and bytes, repeated under their keys until each item has an outcome.

import { ApiProblem, backoff, send } from "./api.js";
import { Retries } from "./waiting.js";

const ITEMS_MAX = 100;
/** Limit of the API, less room for the frame of the request. */
const BYTES_MAX = 256 * 1024 - 1024;
/** Rounds in which items are sent again whose problem can pass. */
const ROUNDS_MAX = 4;
const KEY_IN_USE = "idempotency_key_in_use";
export const SLUG_TAKEN = "slug_taken";

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

/** Returns the indices of the items whose slug no earlier one has, and those of the others, each with the earlier one. */
const splitBySlug = (indices, items) => {
  const holders = new Map();
  const [firsts, repeats] = [[], []];
  for (const index of indices) {
    const slug = items[index].slug?.toLowerCase();
    if (slug && holders.has(slug)) repeats.push({ index, holder: holders.get(slug) });
    else {
      firsts.push(index);
      holders.set(slug, index);
    }
  }
  return { firsts, repeats };
};

const isRefused = (outcome) => outcome.problem && !canPass(outcome);

/** Returns the outcome of an item that is not sent, since an earlier one has its slug, or perhaps has it. */
const outcomeBehind = (holder) => (
  canPass(holder) ? holder : { status: 409, replayed: false, problem: { code: SLUG_TAKEN } });

/**
 * Sends items, and yields the outcomes of each batch with the indices of its items. Of items with one slug the first one
 * gets the slug: the next one is sent only after it is refused for good.
 * @param {"partial"|"dry_run"} mode
 * @param {object[]} items
 * @param {{key: string, signal?: AbortSignal, onRetry?: () => void}} options the key of another account would
 *   make other links of the same items
 */
export const sendItems = async function* (mode, items, options) {
  const outcomes = [];
  for (let open = [...items.keys()]; open.length > 0;) {
    const { firsts, repeats } = splitBySlug(open, items);
    const unanswered = firsts.values();
    for (const batch of cut(firsts.map((index) => items[index]))) {
      const settled = await settle(mode, batch, options);
      const indices = batch.map(() => unanswered.next().value);
      indices.forEach((index, position) => {
        outcomes[index] = settled.outcomes[position];
      });
      yield { ...settled, indices };
    }
    const behind = repeats.filter(({ holder }) => !isRefused(outcomes[holder]));
    yield {
      indices: behind.map(({ index }) => index),
      outcomes: behind.map(({ holder }) => outcomeBehind(outcomes[holder])),
      charged: 0,
      balance: null,
      before: null,
    };
    open = repeats.filter(({ holder }) => isRefused(outcomes[holder])).map(({ index }) => index);
  }
};
