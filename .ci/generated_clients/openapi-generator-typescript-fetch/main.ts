// Uses the client that openapi-generator makes for fetch.
import { check, clickedUrl, environment, page, ran } from "../check.js";
import { ClicksApi, Configuration, LinksApi, ProblemFromJSON, ResponseError, type Problem } from "./linkledger/index.js";

const { run, tag, slug } = ran("fetch");
const configuration = new Configuration({ basePath: environment("API_URL"), accessToken: environment("API_KEY") });
const links = new LinksApi(configuration);
const clicks = new ClicksApi(configuration);

/** Returns the problem of a call that must be refused. */
const refusal = async (call: Promise<unknown>): Promise<Problem> => {
  try {
    await call;
  } catch (error) {
    if (error instanceof ResponseError) return ProblemFromJSON(await error.response.json());
    throw error;
  }
  throw new Error("the call was not refused");
};

// Create; a retry creates nothing.
const expiresAt = new Date("2099-12-31T00:00:00Z");
const linkCreate = { destinationUrl: page, slug, title: "Größe", tags: [tag], expiresAt };
const created = await links.createLink({ idempotencyKey: run, linkCreate });
check(created.shortUrl.endsWith(slug) && created.destinationUrl === page && created.creditsCharged === 1, created);
check(created.expiresAt?.getTime() === expiresAt.getTime(), created);
check((await links.createLink({ idempotencyKey: run, linkCreate })).id === created.id, "a retry makes another link");

// A refusal is typed.
const refused = await refusal(links.createLink({ idempotencyKey: crypto.randomUUID(), linkCreate }));
check(refused.code === "slug_taken" && refused.status === 409, refused);

// Batch: one link and one refusal; a dry run has a link without id.
const item = () => ({ idempotencyKey: crypto.randomUUID(), destinationUrl: page, tags: [tag] });
const batch = await links.createLinksRaw({ linkBatch: { items: [item(), { ...item(), slug }] } });
const consistencyToken = batch.raw.headers.get("Consistency-Token") ?? "";
const result = await batch.value();
const [second, taken] = result.items;
check(batch.raw.status === 207 && result.creditsCharged === 1, result);
check(second?.link?.id !== undefined && second.problem === undefined, second);
check(taken?.link === undefined && taken?.problem?.code === "slug_taken", taken);
const rehearsed = (await links.createLinks({ linkBatch: { mode: "dry_run", items: [item()] } })).items[0]?.link;
check(rehearsed?.id === undefined && rehearsed?.destinationUrl === page, rehearsed);

// List two pages, newest first.
const firstPage = await links.listLinks({ limit: 1, tag, consistencyToken });
check(firstPage.nextCursor, firstPage);
const lastPage = await links.listLinks({ limit: 1, tag, cursor: firstPage.nextCursor, consistencyToken });
check(firstPage.items[0]?.id === second.link.id && lastPage.items[0]?.id === created.id, lastPage);
check(firstPage.hasMore && !lastPage.hasMore && lastPage.nextCursor === null, lastPage);

// Read and change.
const { id } = created;
const read = await links.getLinkRaw({ id });
const link = await read.value();
check(link.title === "Größe" && link.tags?.[0] === tag, link);
const ifMatch = read.raw.headers.get("ETag") ?? "";
const changed = await links.changeLink({ id, ifMatch, linkPatch: { title: null, disabled: true } });
check(changed.title === undefined && changed.disabledBy === "owner", changed);
const stale = await refusal(links.changeLink({ id, ifMatch, linkPatch: { disabled: false } }));
check(stale.code === "etag_mismatch", stale);
const history = await links.getLinkHistory({ id });
check(history.items.at(-1)?.changes.destination_url?.to === page, history);

// Clicks.
const hours = await clicks.getLinkClicks({ id, interval: "hour" });
check(hours.totals.clicks === 0 && hours.series[0]?.visitors === null, hours);
const days = await clicks.getClicks({ timezone: "Europe/Berlin" });
check(days.series.some(({ visitors }) => visitors), days);
const countries = await clicks.getTopClicks({ by: "country" });
check(countries.items[0]?.value === null, countries);
const addresses = (await clicks.getTopLinks({ limit: 100 })).items.map(({ shortUrl }) => shortUrl);
check(addresses.includes(null) && addresses.includes(clickedUrl), addresses);

await links.deleteLink({ id });
console.log("openapi-generator, TypeScript: all answers were read");
