// What both programs in TypeScript use beside their clients.

declare const process: { env: Record<string, string | undefined> };

/** Ends the program unless the condition is true. */
export function check(isTrue: unknown, seen: unknown): asserts isTrue {
  if (!isTrue) throw new Error(JSON.stringify(seen));
}

export const environment = (name: string): string => {
  const value = process.env[name];
  check(value, `${name} is not set`);
  return value;
};

/** Short address of a link that was clicked. */
export const clickedUrl = environment("CLICKED_URL");

/** A destination that the URL standard allows, and RFC 3986 does not. */
export const page = "https://example.com/a|b?c=[d]";

/** Returns names that no other run has. */
export const ran = (name: string): { run: string; slug: string; tag: string } => {
  const run = crypto.randomUUID();
  return { run, slug: `${name}-${run.slice(0, 13)}`, tag: `${name}-${run}` };
};
