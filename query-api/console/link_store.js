// One link with its version: reading, and changing under that version.

import { send } from "./api.js";

/**
 * @typedef {object} Options
 * @property {AbortSignal} signal
 * @property {string} [key] the only API key that the request may be sent with
 */

/**
 * @typedef {object} Stored
 * @property {object} link
 * @property {string} tag version that a change must name
 */

const storedOf = ({ body, headers }) => ({ link: body, tag: headers.get("etag") });

/** @returns {Promise<Stored>} */
export const readLink = async (id, options) => storedOf(await send("GET", `/v1/links/${id}`, options));

/**
 * Changes the members of a merge patch, if the link still has the version.
 * @returns {Promise<Stored>}
 */
export const changeLink = async (id, tag, patch, options) => storedOf(await send("PATCH", `/v1/links/${id}`, {
  ...options,
  body: patch,
  contentType: "application/merge-patch+json",
  headers: { "If-Match": tag },
}));

/**
 * Takes a link out of service, or puts it back, whatever else was changed meanwhile.
 * @returns {Promise<Stored>}
 */
export const setDisabled = (id, isDisabled, options) => changeLink(id, "*", { disabled: isDisabled }, options);
