// Client of the API: the key, the consistency token, and retries that people see.
//
// A request that is repeated has its effect once: a create and most commands of an operator have a key, a change of a
// link names its version, and a second deletion of a link changes nothing. What could undo the change of another
// operator meanwhile is sent once.

import { apiKey, askForKey, consistencyToken, keepConsistencyToken } from "./session.js";
import { Retries } from "./waiting.js";

const ATTEMPTS_MAX = 6;
const FIRST_BACKOFF_MS = 500;
const BACKOFF_MAX_MS = 8000;
const RETRY_AFTER_MAX_S = 60;
const TIMEOUT_MS = 15000;
const NO_CONTENT = 204;
const RETRIED = [429, 503, 504];
const KEY_IN_USE = "idempotency_key_in_use";
const WEBHOOKS_OFF = "webhooks_off";

/** An answer that is no success: the problem document, or no answer at all (`status` 0). */
export class ApiProblem extends Error {
  constructor(status, problem, headers) {
    super(problem.detail ? `${problem.title}: ${problem.detail}` : problem.title);
    this.status = status;
    this.problem = problem;
    this.retryAfter = Number(headers?.get("retry-after")) || 0;
  }

  get code() {
    return this.problem.code;
  }

  /** True if the same request can succeed later. */
  get canPass() {
    if (this.code === WEBHOOKS_OFF) return false;
    return this.status === 0 || RETRIED.includes(this.status) || this.code === KEY_IN_USE;
  }
}

const unreachable = () => new ApiProblem(0, {
  title: navigator.onLine ? "The API does not answer" : "You are offline",
  detail: "Check the network.",
});

const keyReplaced = () => new ApiProblem(401, {
  title: "The API key was replaced during this run",
  detail: "It may be of another account, so the run has stopped.",
});

/** Reads the body of an answer; that of a failure is a problem. */
const bodyOf = async (response, form = "json") => {
  if (response.ok) return response.status === NO_CONTENT ? undefined : response[form]();
  const isProblem = response.headers.get("content-type")?.startsWith("application/problem+json");
  return isProblem ? response.json() : { title: `HTTP status ${response.status}` };
};

/** Returns the address of a path of the API, which lies beside the console. */
const addressOf = (path, query) => {
  const address = new URL(`..${path}`, document.baseURI);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== "") address.searchParams.set(name, value);
  }
  return address;
};

/**
 * Sends a request once, without a key of its own.
 * @throws {ApiProblem}
 */
export const sendOnce = async (method, path, options) => {
  const headers = { ...options.headers };
  if (options.body) headers["Content-Type"] = options.contentType ?? "application/json";
  const signals = [AbortSignal.timeout(TIMEOUT_MS), options.signal].filter(Boolean);
  let [response, body] = [];
  try {
    response = await fetch(addressOf(path, options.query), {
      method,
      headers,
      body: options.body && JSON.stringify(options.body),
      signal: AbortSignal.any(signals),
      credentials: "omit",
      cache: "no-store",
    });
    body = await bodyOf(response, options.form);
  } catch {
    options.signal?.throwIfAborted();
    throw unreachable();
  }
  if (!response.ok) throw new ApiProblem(response.status, body, response.headers);
  return { body, headers: response.headers };
};

const attempt = async (method, path, options, key) => {
  const headers = { Authorization: `Bearer ${key}`, ...options.headers };
  const token = consistencyToken();
  if (method === "GET" && token) headers["Consistency-Token"] = token;
  const answer = await sendOnce(method, path, { ...options, headers });
  const written = answer.headers.get("consistency-token");
  if (written) keepConsistencyToken(written, key);
  return answer;
};

/** Returns the milliseconds before the next attempt. */
export const backoff = (attempts) => {
  const longest = Math.min(BACKOFF_MAX_MS, FIRST_BACKOFF_MS * 2 ** attempts);
  return longest * (0.5 + Math.random() / 2);
};

/**
 * Sends a request until it succeeds, is refused, or has failed too often.
 * @param {string} method
 * @param {string} path path of the API, such as `/v1/links`
 * @param {{query?: Object, headers?: Object, body?: Object, contentType?: string, form?: "json"|"blob",
 *   attempts?: number, key?: string, signal?: AbortSignal, onRetry?: (problem: ApiProblem) => void}} [options]
 *   attempts: those with a key that is refused do not count, as they have no effect;
 *   key: the only key that the request may be sent with
 * @returns {Promise<{body: any, headers: Headers}>} the whole answer: one that breaks off is retried
 * @throws {ApiProblem}
 */
export const send = async (method, path, options = {}) => {
  const retries = new Retries(options.signal);
  try {
    return await untilSettled(method, path, options, retries);
  } finally {
    retries.end();
  }
};

const untilSettled = async (method, path, options, retries) => {
  for (let attempts = 1; ;) {
    if (!apiKey()) await askForKey("");
    const key = apiKey();
    if (options.key && options.key !== key) throw keyReplaced();
    // Data of the account of an older key are read again.
    const isOutdated = () => method === "GET" && key !== apiKey();
    try {
      const answer = await attempt(method, path, options, key);
      if (!isOutdated()) return answer;
    } catch (error) {
      if (isOutdated()) continue;
      if (!(error instanceof ApiProblem)) throw error;
      if (error.status === 401) {
        // Another request may have asked meanwhile.
        if (key === apiKey()) await askForKey(error.message);
      } else if (error.canPass && attempts < (options.attempts ?? ATTEMPTS_MAX)) {
        options.onRetry?.(error);
        const told = Math.min(RETRY_AFTER_MAX_S, error.retryAfter) * 1000;
        await retries.pause(error, Math.max(told, backoff(attempts)));
        attempts += 1;
      } else {
        throw error;
      }
    }
  }
};

/** Reads a path, and returns the parsed body. */
export const read = async (path, query, signal) => {
  const { body } = await send("GET", path, { query, signal });
  return body;
};
