// Creates a link, repeats the create, and reads a refusal, with the types that openapi-typescript generates.
import createClient from "openapi-fetch";
import type { paths } from "./linkledger.js";

declare const process: { env: Record<string, string | undefined> };

function check(isTrue: boolean, complaint: string): asserts isTrue {
  if (!isTrue) throw new Error(`TypeScript client: ${complaint}`);
}

const client = createClient<paths>({
  baseUrl: process.env.API_URL,
  headers: { Authorization: `Bearer ${process.env.API_KEY}` },
});
const create = (key: string, slug?: string) =>
  client.POST("/v1/links", {
    params: { header: { "Idempotency-Key": key } },
    body: { destination_url: "https://example.com/typescript", slug },
  });

const key = crypto.randomUUID();
const created = await create(key);
check(created.data !== undefined, `no link: ${JSON.stringify(created.error)}`);
const again = await create(key);
check(again.data?.id === created.data.id, "the repeated create makes another link");
const refused = await create(crypto.randomUUID(), "a");
check(refused.error?.code === "validation_failed", `no refusal: ${JSON.stringify(refused.error)}`);
console.log(`TypeScript client: created ${created.data.short_url}`);
