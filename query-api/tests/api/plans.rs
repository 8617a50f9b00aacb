//! Every statement on growing tables reads rows by key only, although the plans were made on empty tables.

use axum::http::Method;
use linkledger_core::{
    api_key::ApiKey, commands::CreateResult, id::LinkId, projection::Projection,
};
use linkledger_service::databases::DatabaseSettings;
use linkledger_testing as testing;
use linkledger_testing::TestDatabase;
use sqlx::PgPool;
use uuid::Uuid;

use crate::{
    read_tables::{set_checkpoint, unused_link_id},
    service::{TestCaller, TestService, paths_without_id},
};

const LINKS: i64 = 6_000;
/// Number of lists that read every link or entry.
const FULL_LISTS: i64 = 8;
/// Maximum number of index entries for single rows and for first pages: far fewer than [`LINKS`].
const OTHER_ENTRIES_MAX: i64 = 1_000;
/// Index entries for finding out, for each page, that many links have the prefix `slug-`.
const COUNTED_ENTRIES: i64 = (LINKS / 100 + 1) * 5_000;
/// Index entries for two lists of the links with the tag `half`, of which each takes two, for counting them twice, and for
/// further pages.
const TAGGED_ENTRIES: i64 = 4 * LINKS;
const ENTRIES_MAX: i64 = FULL_LISTS * LINKS + COUNTED_ENTRIES + TAGGED_ENTRIES + OTHER_ENTRIES_MAX;
/// Number of disabled links.
const DISABLED: i64 = 100;
/// Number of links with the tag `rare`.
const RARE: i64 = 10;
/// Number of expired links that are not disabled.
const EXPIRED: i64 = 5;
const APPLICATION: &str = "plans";

#[tokio::test]
async fn statements_read_only_needed_rows() {
    let (service, caller, invisible) = service_with_one_session().await;
    use_every_statement(&service, &caller, invisible.link.link_id).await;
    fill(service.pool(), &caller, 1).await;
    use_every_statement(&service, &caller, invisible.link.link_id).await;
    read_every_row(&service, &caller).await;

    let database = service.stop();
    let (sequential_scans, _, index_entries) = reads_of_ended_sessions(database.pool()).await;
    assert_eq!(sequential_scans, 0);
    assert!(index_entries < ENTRIES_MAX, "{index_entries}");
}

#[tokio::test]
async fn second_generation_costs_no_extra_reads() {
    let (service, caller, invisible) = service_with_one_session().await;
    let (pool, link_id) = (service.pool(), invisible.link.link_id);
    use_every_statement(&service, &caller, link_id).await;
    for projection in Projection::ALL.map(Projection::name) {
        sqlx::query("SELECT read_model.create_generation($1, 2, 1)")
            .bind(projection)
            .execute(pool)
            .await
            .unwrap();
    }
    // The generation is attached while empty, then grows as large as the active generation.
    use_every_statement(&service, &caller, link_id).await;
    fill(pool, &caller, 1).await;
    fill_read_tables(pool, &caller, 2).await;
    read_every_row(&service, &caller).await;
    for swap in [
        "UPDATE read_model.checkpoints AS c SET position = was.position
         FROM read_model.checkpoints AS was
         WHERE c.generation = 2 AND was.generation = 1
           AND c.projection = was.projection AND c.shard = was.shard",
        "UPDATE read_model.projections SET active_generation = 2",
    ] {
        sqlx::query(swap).execute(pool).await.unwrap();
    }
    use_every_statement(&service, &caller, link_id).await;
    read_every_row(&service, &caller).await;

    let database = service.stop();
    // Creating the tables scans them while they are empty.
    let (_, rows_scanned, index_entries) = reads_of_ended_sessions(database.pool()).await;
    assert_eq!(rows_scanned, 0);
    assert!(index_entries < 2 * ENTRIES_MAX, "{index_entries}");
}

#[tokio::test]
async fn statistics_of_one_large_account_keep_reads_small() {
    let (service, caller, invisible) = service_with_one_session().await;
    fill(service.pool(), &caller, 1).await;
    sqlx::query("ANALYZE")
        .execute(service.pool())
        .await
        .unwrap();
    use_every_statement(&service, &caller, invisible.link.link_id).await;
    read_every_row(&service, &caller).await;

    let database = service.stop();
    let (_, rows_scanned, index_entries) = reads_of_ended_sessions(database.pool()).await;
    assert_eq!(rows_scanned, 0);
    assert!(index_entries < ENTRIES_MAX, "{index_entries}");
}

/// A service with one session that keeps its plans, a caller, and a link that the read tables lack.
async fn service_with_one_session() -> (TestService, TestCaller, CreateResult) {
    let database = TestDatabase::create().await;
    let service = TestService::start_with(database, |config| {
        // With one session, later statements use the first plans.
        config.database_pool_size = 1;
        let url = config.databases.log_url();
        let separator = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{separator}application_name={APPLICATION}");
        config.databases = DatabaseSettings::one(url);
    })
    .await;
    let caller = service.caller().await;
    let invisible = service.append_link(&caller, "invisible").await;
    for projection in Projection::ALL.map(Projection::name) {
        set_checkpoint(service.pool(), projection, caller.account_id, 2).await;
    }
    (service, caller, invisible)
}

async fn read_every_row(service: &TestService, caller: &TestCaller) {
    assert_eq!(service.follow("/slug-4711").await.status, 302);
    assert_eq!(
        service
            .get(caller, &format!("/v1/links/{}", nth_link(4711)))
            .await
            .status,
        200
    );
    for (list, count) in [
        ("/v1/links?limit=100", LINKS),
        (
            "/v1/links?limit=100&destination_url=https://example.com/",
            LINKS,
        ),
        (
            "/v1/links?limit=100&destination_url=https://example.org/",
            0,
        ),
        ("/v1/links?limit=100&slug=slug-4711", 1),
        ("/v1/links?limit=100&slug=slug-4711&sort=created_at", 1),
        ("/v1/links?limit=100&sort=created_at", LINKS),
        ("/v1/links?limit=100&created_from=2000-01-01", LINKS),
        ("/v1/links?limit=100&created_to=2000-01-01", 0),
        ("/v1/links?limit=100&destination_host=example.com", LINKS),
        ("/v1/links?limit=100&destination_host=example.org", 0),
        (
            "/v1/links?limit=100&state=active",
            LINKS - DISABLED - EXPIRED,
        ),
        ("/v1/links?limit=100&state=expired", EXPIRED),
        ("/v1/links?limit=100&external_id=crm:4711", 1),
        ("/v1/links?limit=100&external_id=none", 0),
        ("/v1/links?limit=100&tag=rare", RARE),
        ("/v1/links?limit=100&tag=half,rare", RARE),
        ("/v1/links?limit=100&tag=half", LINKS / 2),
        ("/v1/links?limit=100&tag=none", 0),
        ("/v1/links?limit=100&state=disabled", DISABLED),
        ("/v1/links?limit=100&slug_prefix=slug-", LINKS),
        ("/v1/links?limit=100&slug_prefix=slug-471", 11),
        (
            "/v1/links?limit=100&slug_prefix=slug-471&sort=created_at",
            11,
        ),
        ("/v1/links?limit=100&slug_prefix=none", 0),
        ("/v1/tags?limit=1", 2),
        ("/v1/credits/entries?limit=100", LINKS),
    ] {
        let counted = count_by_pages(service, caller, list).await;
        assert_eq!(counted, count, "{list}");
    }
}

/// Sends all reads, including reads of links that only the event store has.
async fn use_every_statement(service: &TestService, caller: &TestCaller, invisible: LinkId) {
    let paths = paths_without_id().into_iter().map(str::to_owned);
    let filtered = [
        "slug=invisible",
        "slug_prefix=slug-471",
        "destination_url=https://example.com/",
        "destination_host=example.com",
        "state=disabled",
        "state=active",
        "state=expired",
        "external_id=crm:4711",
        "tag=rare",
    ];
    let in_both_orders = filtered.iter().flat_map(|filter| {
        let path = format!("/v1/links?{filter}");
        [format!("{path}&sort=created_at"), path]
    });
    for path in paths.chain(in_both_orders) {
        assert_eq!(service.get(caller, &path).await.status, 200, "{path}");
    }
    for (path, status) in [
        (format!("/v1/links/{invisible}"), 503),
        (format!("/v1/links/{invisible}/history"), 200),
        (format!("/v1/links/{invisible}?at=2026-11-20"), 404),
        (format!("/v1/links/{}", unused_link_id()), 404),
        (format!("/v1/links/{}/history", unused_link_id()), 404),
        (
            "/v1/webhooks/whe_00000000000000000000000000/deliveries".to_owned(),
            404,
        ),
        ("/v1/events?from=now".to_owned(), 200),
        (
            "/v1/events?from=2026-11-20&types=LinkDeleted".to_owned(),
            200,
        ),
        // The first statement of a reader that waits.
        ("/v1/events?from=2099-01-01&wait=1".to_owned(), 200),
    ] {
        assert_eq!(service.get(caller, &path).await.status, status, "{path}");
    }
    assert_eq!(service.follow("/invisible").await.status, 503);
    assert_eq!(service.follow("/unknown").await.status, 404);
    let unknown_key = format!("Bearer {}", ApiKey::generate().reveal());
    let headers = [("authorization", unknown_key.as_str())];
    let answer = service.call_api(Method::GET, "/v1/links", &headers).await;
    assert_eq!(answer.status, 401);
}

async fn count_by_pages(service: &TestService, caller: &TestCaller, list: &str) -> i64 {
    let mut count = 0;
    let mut path = list.to_owned();
    loop {
        let page = service.get(caller, &path).await.json();
        count += i64::try_from(page["items"].as_array().unwrap().len()).unwrap();
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("{list}&cursor={cursor}"),
            None => return count,
        }
    }
}

fn nth_link(number: u128) -> LinkId {
    LinkId::from_uuid(Uuid::from_u128(
        0x01a0_0000_0000_7000_8000_0000_0000_0000 + number,
    ))
}

/// Returns the numbers of links 1 to [`LINKS`].
const NUMBERED: &str = "FROM (
    SELECT n, ('01a00000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS link_id
    FROM generate_series(1, $2) AS n
) AS numbered";

/// Creates the links, and a charge for each link, in the event store and in the read tables.
async fn fill(pool: &PgPool, caller: &TestCaller, generation: i32) {
    fill_read_tables(pool, caller, generation).await;
    for insert in [
        "INSERT INTO event_store.slugs
         SELECT 'slug-' || n, 'slug-' || n, (SELECT shard FROM event_store.accounts
                                             WHERE account_id = $1), link_id",
        "INSERT INTO event_store.events (shard, position, stream_id, version, account_id, event_id,
             type, schema_version, payload, metadata, recorded_at)
         SELECT (SELECT shard FROM event_store.accounts WHERE account_id = $1), 2 + n, link_id, 1,
             $1, gen_random_uuid(), 'LinkCreated', 1, '{}', '{}', now()",
        "INSERT INTO event_store.api_keys
             (key_id, account_id, sha256, prefix, name, scopes, created_at)
         SELECT link_id, $1, sha256(uuid_send(link_id)), 'llk_', 'test', '{}', now()",
    ] {
        insert_numbered(pool, caller, insert).await;
    }
}

/// Creates the rows of the links in one generation of the read tables.
async fn fill_read_tables(pool: &PgPool, caller: &TestCaller, generation: i32) {
    let parked_accounts = |projection: &str| {
        format!(
            "INSERT INTO read_model.parked_accounts
             SELECT '{projection}', {generation}, 0, link_id, n, 'x' || $1::uuid, 'unknown_event', 'x'"
        )
    };
    for insert in [
        format!(
            "INSERT INTO read_model.links
                 (generation, account_id, link_id, slug, destination_url, version, created_at, title, external_id, tags,
                  expires_at, expired_url, disabled_by)
             SELECT {generation}, $1, link_id, 'slug-' || n, 'https://example.com/', 1, now(), NULL,
                 'crm:' || n,
                 CASE WHEN n % {} = 0 THEN '{{half,rare}}'::text[] WHEN n % 2 = 0 THEN '{{half}}' END,
                 CASE WHEN n % 1000 = 0 THEN '2001-01-01'::timestamptz END, NULL,
                 CASE WHEN n > {} THEN 'owner' END",
            LINKS / RARE,
            LINKS - DISABLED
        ),
        format!(
            "INSERT INTO read_model.redirects
             SELECT {generation}, 'slug-' || n, link_id, $1, 'https://example.com/',
                 CASE WHEN n > {} THEN 'disabled' ELSE 'active' END",
            LINKS - DISABLED
        ),
        format!("INSERT INTO read_model.stopped_accounts SELECT {generation}, link_id"),
        parked_accounts("links"),
        parked_accounts("redirects"),
        format!(
            "INSERT INTO read_model.credit_entries
             SELECT {generation}, $1, n, gen_random_uuid(), 'charge', -1, 0, link_id, NULL, NULL, now()"
        ),
    ] {
        insert_numbered(pool, caller, &insert).await;
    }
    sqlx::query(
        "INSERT INTO read_model.link_tags
         SELECT generation, account_id, unnest(tags), link_id FROM read_model.links
         WHERE generation = $1",
    )
    .bind(generation)
    .execute(pool)
    .await
    .unwrap();
}

async fn insert_numbered(pool: &PgPool, caller: &TestCaller, insert: &str) {
    sqlx::query(sqlx::AssertSqlSafe(format!("{insert} {NUMBERED}")))
        .bind(caller.account_id.uuid())
        .bind(LINKS)
        .execute(pool)
        .await
        .unwrap();
}

/// Returns the sequential scans, the rows read by them, and the index entries read, of the growing tables. A session reports
/// its reads at its end at the latest.
async fn reads_of_ended_sessions(pool: &PgPool) -> (i64, i64, i64) {
    testing::flush_statistics(pool).await;
    testing::eventually("the service's session ends", async || {
        let sessions: i64 =
            sqlx::query_scalar("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1")
                .bind(APPLICATION)
                .fetch_one(pool)
                .await
                .unwrap();
        (sessions == 0).then_some(())
    })
    .await;
    sqlx::query_as(
        "SELECT (SELECT sum(seq_scan)::bigint FROM pg_stat_user_tables
                 WHERE relid IN (SELECT inhrelid FROM pg_inherits)
                    OR relname ~ '^(parked_|events|slugs|api_keys)'),
                (SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables
                 WHERE relid IN (SELECT inhrelid FROM pg_inherits)
                    OR relname ~ '^(parked_|events|slugs|api_keys)'),
                (SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes
                 WHERE relid IN (SELECT inhrelid FROM pg_inherits)
                    OR relname ~ '^(parked_|events|slugs|api_keys)')",
    )
    .fetch_one(pool)
    .await
    .unwrap()
}
