// Addresses as people paste them: with spaces that nobody sees around them, and without a scheme.

/** White space and invisible characters that the API refuses at the ends of an address. */
const INVISIBLE = "[\\s\\u0085\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180e\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u206f\\u2800\\u3164\\ufeff\\uffa0\\ufff0-\\ufffb]+";
const ENDS = new RegExp(`^${INVISIBLE}|${INVISIBLE}$`, "g");
const SCHEME = /^[a-z][a-z0-9+.-]*:/i;
/** A host before a port, which looks like a scheme. */
const HOST_AND_PORT = /^(?!(callto|fax|sips?|sms|tel):)[a-z][a-z0-9.-]*:\d{1,5}(?=[/?#]|$)/i;
/** A name with a dot, or an address that only lacks its scheme. */
const HOST = /^(\/\/)?[\p{L}\p{Nd}_-]+(\.[\p{L}\p{Nd}_-]+)+([/?#:]|$)/u;

/** Returns the text without white space and invisible characters around it. */
export const trim = (text) => text.replace(ENDS, "");

/** Returns the address that a text means: `https://` is added to a host without a scheme. */
export const addressOf = (text) => {
  const address = trim(text);
  const isBare = HOST.test(address) && (!SCHEME.test(address) || HOST_AND_PORT.test(address));
  return isBare ? `https://${address.replace(/^\/\//, "")}` : address;
};
