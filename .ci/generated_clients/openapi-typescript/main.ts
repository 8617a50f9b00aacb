// Uses the types that openapi-typescript makes, with openapi-fetch.
import createClient from "openapi-fetch";
import { check, clickedUrl, environment, page, ran } from "../check.js";
import type { paths } from "./linkledger.js";

const { run, tag, slug } = ran("types");
const client = createClient<paths>({
  baseUrl: environment("API_URL"),
  headers: { Authorization: `Bearer ${environment("API_KEY")}` },
});

// Create; a retry creates nothing.
const body = { destination_url: page, slug, title: "Größe", tags: [tag], expires_at: "2099-12-31T00:00:00Z" };
const create = (key: string) => client.POST("/v1/links", { params: { header: { "Idempotency-Key": key } }, body });
const created = (await create(run)).data;
check(created !== undefined, "no link");
check(created.short_url.endsWith(slug) && created.destination_url === page && created.credits_charged === 1, created);
check((await create(run)).data?.id === created.id, "a retry makes another link");

// A refusal is typed.
const refused = await create(crypto.randomUUID());
check(refused.error?.code === "slug_taken" && refused.error.status === 409, refused.error);

// Batch: one link and one refusal; a dry run has a link without id.
const item = () => ({ idempotency_key: crypto.randomUUID(), destination_url: page, tags: [tag] });
const batch = await client.POST("/v1/links/batch", { body: { items: [item(), { ...item(), slug }] } });
const token = batch.response.headers.get("Consistency-Token") ?? "";
const [second, taken] = batch.data?.items ?? [];
check(batch.response.status === 207 && batch.data?.credits_charged === 1, batch.data);
check(second?.link?.id !== undefined && second.problem === undefined, second);
check(taken?.link === undefined && taken?.problem?.code === "slug_taken", taken);
const rehearsal = await client.POST("/v1/links/batch", { body: { mode: "dry_run", items: [item()] } });
const rehearsed = rehearsal.data?.items[0]?.link;
check(rehearsed?.id === undefined && rehearsed?.destination_url === page, rehearsal.data);

// List two pages, newest first.
const list = (cursor?: string) =>
  client.GET("/v1/links", { params: { query: { limit: 1, tag, cursor }, header: { "Consistency-Token": token } } });
const firstPage = (await list()).data;
check(firstPage?.next_cursor, firstPage);
const lastPage = (await list(firstPage.next_cursor)).data;
check(firstPage.items[0]?.id === second.link.id && lastPage?.items[0]?.id === created.id, lastPage);
check(firstPage.has_more && !lastPage.has_more && lastPage.next_cursor === null, lastPage);

// Read and change.
const path = { id: created.id };
const read = await client.GET("/v1/links/{id}", { params: { path } });
check(read.data?.title === "Größe" && read.data.tags?.[0] === tag, read.data);
const header = { "If-Match": read.response.headers.get("ETag") ?? "" };
const changed = await client.PATCH("/v1/links/{id}", { params: { path, header }, body: { title: null, disabled: true } });
check(changed.data?.title === undefined && changed.data?.disabled_by === "owner", changed);
const stale = await client.PATCH("/v1/links/{id}", { params: { path, header }, body: { disabled: false } });
check(stale.error?.code === "etag_mismatch", stale);
const history = await client.GET("/v1/links/{id}/history", { params: { path } });
check(history.data?.items.at(-1)?.changes.destination_url?.to === page, history.data);

// Clicks.
const hours = await client.GET("/v1/links/{id}/clicks", { params: { path, query: { interval: "hour" } } });
check(hours.data?.totals.clicks === 0 && hours.data.series[0]?.visitors === null, hours.data);
const days = await client.GET("/v1/clicks", { params: { query: { timezone: "Europe/Berlin" } } });
check(days.data?.series.some(({ visitors }) => visitors), days.data);
const countries = await client.GET("/v1/clicks/top", { params: { query: { by: "country" } } });
check(countries.data?.items[0]?.value === null, countries.data);
const topLinks = (await client.GET("/v1/clicks/top-links", { params: { query: { limit: 100 } } })).data;
const addresses = topLinks?.items.map((link) => link.short_url);
check(addresses?.includes(null) && addresses.includes(clickedUrl), topLinks);

check((await client.DELETE("/v1/links/{id}", { params: { path } })).response.status === 204, "no deletion");
console.log("openapi-typescript: all answers were read");
