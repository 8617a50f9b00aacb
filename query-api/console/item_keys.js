// Idempotency keys: random ones, and those of the rows of a file. The key of a row follows from the content, so a second
// run of the same rows creates only what is missing.

/** Namespace of `linkledger import`: a file that one of the two has begun, the other continues. */
const NAMESPACE = "6b8f2c1e74d34a0b9c550e1d7f3a92b6";
const UUID_LENGTH = 16;

const bytesOfHex = (hex) => Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16));

/** Returns bytes as a UUID of a version (RFC 9562). */
const uuidText = (bytes, version) => {
  bytes[6] = (bytes[6] & 0x0f) | (version << 4);
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
};

/** Returns a random key, also on a host without TLS, where browsers have no `crypto.randomUUID`. */
export const newKey = () => uuidText(crypto.getRandomValues(new Uint8Array(UUID_LENGTH)), 4);

/** Returns the UUID of version 5 of a name. */
const uuidOf = async (name) => {
  const content = new Uint8Array([...bytesOfHex(NAMESPACE), ...new TextEncoder().encode(name)]);
  const hash = await crypto.subtle.digest("SHA-1", content);
  return uuidText(new Uint8Array(hash).slice(0, UUID_LENGTH), 5);
};

/**
 * Returns the key of each row: always the same one for the same name of the list, text of the row and
 * occurrence of the text.
 * @param {string} name
 * @param {string[]} texts
 */
export const keysOf = (name, texts) => {
  const occurrences = new Map();
  return Promise.all(texts.map((text) => {
    const occurrence = (occurrences.get(text) ?? 0) + 1;
    occurrences.set(text, occurrence);
    return uuidOf(`${name}\n${text}\n${occurrence}`);
  }));
};
