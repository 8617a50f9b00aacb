//! The hot statements read rows by key at any size of the tables. Postgres keeps a plan for the life of a session, so a plan
//! made on empty tables must also be good on full tables.

use linkledger_core::{
    id::{AccountId, EntryId, LinkId},
    shard::Shard,
};
use linkledger_event_store::{
    SessionKind, accounts,
    log::{
        self, ReadFrom,
        feed::{self, FeedPlace},
        stored::{self, PositionRange},
    },
    segments, slugs,
};
use linkledger_testing as testing;
use linkledger_testing::TestDatabase;
use serde_json::json;
use sqlx::{PgPool, postgres::PgPoolOptions};
use time::OffsetDateTime;

use crate::support::{TestApp, change, delete, send};

/// Number of links in a large store.
const LARGE: i32 = 20_000;
/// Upper bound of index entries that a create reads: a few for each of its rows.
const ENTRIES_PER_CREATE_MAX: i64 = 60;
const CREATES: i64 = 50;

/// Fills the store with links of another account.
async fn fill(database: &TestDatabase, links: i32) {
    let account_id = testing::account(database.pool(), 0).await;
    // Autovacuum would summarise the index by a scan, which counts like a scan of the service.
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!(
        "ALTER INDEX event_store.events_event_id_idx SET (autosummarize = off);
         INSERT INTO event_store.events
             (shard, position, stream_id, version, account_id, event_id, type, schema_version,
              payload, metadata, recorded_at, idempotency_key, fingerprint)
         SELECT shard, head + n, gen_random_uuid(), 1, '{account}', gen_random_uuid(),
                'LinkCreated', 1, '{{}}', '{{}}', now(), 'create:' || gen_random_uuid(), '\\x00'
         FROM event_store.log_shards, generate_series(1, {links} / 16) AS n;
         UPDATE event_store.log_shards SET head = head + {links} / 16;
         INSERT INTO event_store.slugs (slug_key, slug, shard, link_id)
         SELECT 'filled-' || n, 'filled-' || n, 0, gen_random_uuid()
         FROM generate_series(1, {links}) AS n
         ON CONFLICT DO NOTHING",
        account = account_id.uuid(),
    )))
    .execute(database.pool())
    .await
    .unwrap();
}

/// Returns the rows of the event store read by scans, and the index entries read.
async fn reads(database: &TestDatabase) -> (i64, i64) {
    testing::flush_statistics(database.pool()).await;
    sqlx::query_as(
        "SELECT coalesce(sum(seq_tup_read), 0)::bigint, coalesce(sum(
             (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes AS i WHERE i.relid = t.relid)
         ), 0)::bigint
         FROM pg_stat_user_tables AS t
         WHERE schemaname = 'event_store' AND relname IN ('events', 'slugs')",
    )
    .fetch_one(database.pool())
    .await
    .unwrap()
}

/// Returns a pool whose sessions have a name, so that the test can wait for their end.
fn measured(database: &TestDatabase, kind: SessionKind) -> PgPool {
    let options = linkledger_event_store::session_options(database.url(), kind).unwrap();
    PgPoolOptions::new()
        .max_connections(1)
        .connect_lazy_with(options.application_name("measured"))
}

/// Runs the work, and returns its reads after its sessions have ended and reported them.
async fn reads_of(database: &TestDatabase, work: impl AsyncFnOnce(PgPool)) -> (i64, i64) {
    let before = reads(database).await;
    let pool = measured(database, SessionKind::Writer);
    work(pool.clone()).await;
    end(database, &pool).await;
    let after = reads(database).await;
    (after.0 - before.0, after.1 - before.1)
}

async fn end(database: &TestDatabase, pool: &PgPool) {
    pool.close().await;
    testing::eventually("the sessions have ended", || async {
        let sessions: (i64,) = sqlx::query_as(
            "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'measured'",
        )
        .fetch_one(database.pool())
        .await
        .unwrap();
        (sessions.0 == 0).then_some(())
    })
    .await;
}

async fn append(pool: PgPool, account_id: AccountId, name: &str) {
    for n in 0..CREATES {
        let slug = format!("{name}-{n}");
        testing::append_links(&pool, account_id, &[(&slug, "https://example.com")]).await;
    }
}

#[tokio::test]
async fn append_reads_by_key_at_any_size() {
    let database = TestDatabase::create().await;
    let account_id = testing::account(database.pool(), 1_000).await;
    for (name, links) in [("empty", 0), ("small", 320), ("large", LARGE)] {
        fill(&database, links).await;
        let (scanned, entries) =
            reads_of(&database, async |pool| append(pool, account_id, name).await).await;
        assert_eq!(scanned, 0, "{name}");
        assert!(
            entries < CREATES * ENTRIES_PER_CREATE_MAX,
            "{name}: {entries}"
        );
    }
}

/// Anybody may name any id in a request: also that of a long stream that is no link.
#[tokio::test]
async fn wrong_id_of_a_link_reads_one_event() {
    const LINKS: u32 = 200;
    let database = TestDatabase::create().await;
    let account_id = testing::account(database.pool(), 1_000).await;
    let slugs: Vec<String> = (0..LINKS).map(|n| format!("slug-{n}")).collect();
    let links = slugs.iter().map(|it| (it.as_str(), "https://example.com"));
    let links: Vec<_> = links.collect();
    testing::append_links(database.pool(), account_id, &links).await;
    let stream_of_account = LinkId::from_uuid(account_id.uuid());
    let (_, entries) = reads_of(&database, async |pool| {
        let wanted = [(account_id, stream_of_account)];
        let found = log::last_link_events(&pool, &wanted).await.unwrap();
        assert!(found.is_empty());
    })
    .await;
    assert!(entries < 20, "{entries}");
}

/// Appends events that look like refunds to the stream of the account.
async fn fill_refunds(database: &TestDatabase, account_id: AccountId) {
    let insert = "INSERT INTO event_store.events
         (shard, position, stream_id, version, account_id, event_id, type, schema_version, payload,
          metadata, recorded_at)
         SELECT $1, 100 + n, $2, 100 + n, $2, gen_random_uuid(), 'CreditsRefunded', 1,
                json_build_object('refunds', 'ent_' || n), '{}', now()
         FROM generate_series(1, $3) AS n";
    sqlx::query(insert)
        .bind(Shard::of(account_id).number())
        .bind(account_id.uuid())
        .bind(LARGE)
        .execute(database.pool())
        .await
        .unwrap();
}

#[tokio::test]
async fn entries_of_a_link_are_read_by_key() {
    let database = TestDatabase::create().await;
    let account_id = testing::account(database.pool(), 1_000).await;
    // Keeps autovacuum from counted scans.
    fill(&database, 0).await;
    let links = [("spring", "https://example.com")];
    let links = testing::append_links(database.pool(), account_id, &links).await;
    let link_id = links[0].link.link_id;
    let look_up = async |pool: &PgPool| {
        let charge = log::charge_of_link(pool, account_id, link_id).await;
        let charge = charge.unwrap().unwrap();
        let entry_id = EntryId::from_uuid(charge.event_id.uuid());
        let reversals = log::reversals_of(pool, account_id, &[entry_id]).await;
        assert!(reversals.unwrap().is_empty());
    };
    let (scanned, entries) = reads_of(&database, async |pool| {
        // The plans are made while there are few events.
        look_up(&pool).await;
        fill_refunds(&database, account_id).await;
        look_up(&pool).await;
    })
    .await;
    assert_eq!(scanned, 0);
    assert!(entries < 20, "{entries}");
}

#[tokio::test]
async fn read_after_reads_only_new_events() {
    let database = TestDatabase::create().await;
    let from = |after: &[i64; 16]| -> Vec<ReadFrom> {
        Shard::all()
            .map(|shard| ReadFrom {
                shard,
                after: after[shard.index()],
            })
            .collect()
    };
    let before = reads(&database).await;
    let pool = measured(&database, SessionKind::Reader);
    // The session makes and keeps its plan while the store is empty.
    log::read_after(&pool, &from(&[0; 16]), 100).await.unwrap();
    fill(&database, LARGE).await;
    let heads = log::heads(&pool).await.unwrap();
    let account_id = testing::account(database.pool(), 1_000).await;
    testing::append_links(
        database.pool(),
        account_id,
        &[("new", "https://example.com")],
    )
    .await;
    let events = log::read_after(&pool, &from(&heads), 100).await.unwrap();
    assert_eq!(events.len(), 2);
    end(&database, &pool).await;
    let after = reads(&database).await;
    assert_eq!(after.0 - before.0, 0);
    assert!(after.1 - before.1 < 200, "{after:?}");
}

/// Runs the statements of sealing, verification and export on growing tables.
async fn check(pool: &PgPool, account_id: AccountId) {
    let shard = Shard::of(account_id);
    log::extents(pool).await.unwrap();
    segments::seal_states(pool).await.unwrap();
    let slugs: Vec<_> = (0..100)
        .map(|n| (format!("slug-{n}"), LinkId::from_uuid(account_id.uuid())))
        .collect();
    let lost = slugs::find_lost(pool, shard, &slugs).await.unwrap();
    assert_eq!(lost.len(), slugs.len());
    let stretch = PositionRange {
        shard,
        after: 100,
        up_to: 200,
    };
    stored::read_stored(pool, stretch).await.unwrap();
    accounts::read_after(pool, account_id, 100).await.unwrap();
}

#[tokio::test]
async fn log_check_reads_by_key_only() {
    let database = TestDatabase::create().await;
    let account_id = testing::account(database.pool(), 0).await;
    let before = reads(&database).await;
    let pool = measured(&database, SessionKind::Reader);
    // The session makes and keeps its plans while the store is empty.
    check(&pool, account_id).await;
    fill(&database, LARGE).await;
    check(&pool, account_id).await;
    end(&database, &pool).await;
    let after = reads(&database).await;
    assert_eq!(after.0 - before.0, 0);
    assert!(after.1 - before.1 < 500, "{after:?}");
}

/// Runs the statements of the feed of an account.
async fn read_feed(pool: &PgPool, account_id: AccountId) {
    let page = feed::read_page(pool, account_id, FeedPlace::BEGINNING, 100).await;
    assert_eq!(page.unwrap().events.len(), 3);
    feed::end_place(pool, account_id).await.unwrap();
    let beginning = feed::place_at(pool, account_id, OffsetDateTime::UNIX_EPOCH).await;
    assert_eq!(beginning.unwrap(), FeedPlace::BEGINNING);
    let shard = Shard::of(account_id);
    let accounts = feed::accounts_between(pool, shard, 0, 3).await.unwrap();
    assert_eq!(accounts, [account_id]);
}

/// Returns an account whose link was disabled, as the only account of the log.
async fn account_with_changed_link(database: &TestDatabase) -> AccountId {
    let pool = database.pool();
    let account_id = testing::account(pool, 1_000).await;
    let links = [("spring", "https://example.com")];
    let created = testing::append_links(pool, account_id, &links).await;
    let disabled = testing::events::disabled(&created[0].link);
    testing::append_events(pool, account_id, &[disabled]).await;
    account_id
}

#[tokio::test]
async fn feed_reads_by_key_at_any_size() {
    let database = TestDatabase::create().await;
    let account_id = account_with_changed_link(&database).await;
    for (name, links) in [("empty", 0), ("small", 320), ("large", LARGE)] {
        fill(&database, links).await;
        let read = async |pool| read_feed(&pool, account_id).await;
        let (scanned, entries) = reads_of(&database, read).await;
        assert_eq!(scanned, 0, "{name}");
        assert!(entries < 200, "{name}: {entries}");
    }
}

#[tokio::test]
async fn feed_of_a_kept_session_reads_by_key_only() {
    let database = TestDatabase::create().await;
    let account_id = account_with_changed_link(&database).await;
    let before = reads(&database).await;
    let pool = measured(&database, SessionKind::Reader);
    // The session makes and keeps its plans while the store is nearly empty.
    read_feed(&pool, account_id).await;
    fill(&database, LARGE).await;
    read_feed(&pool, account_id).await;
    end(&database, &pool).await;
    let after = reads(&database).await;
    assert_eq!(after.0 - before.0, 0);
    assert!(after.1 - before.1 < 200, "{after:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn running_service_never_scans_growing_store() {
    let app = TestApp::start().await;
    let (_, key) = app.account(1_000).await;
    let commands = async || {
        for _ in 0..CREATES {
            let id = app.link(&key).await;
            let body = json!({ "destination_url": "https://example.com/new" });
            let changed = send(&app.router, change(&key, &id, &body)).await;
            assert_eq!(changed.status, 200);
            let deleted = send(&app.router, delete(&key, &id)).await;
            assert_eq!(deleted.status, 204);
        }
    };
    commands().await;
    fill(&app.database, LARGE).await;
    let scanned_before = reads(&app.database).await.0;
    commands().await;
    // The sessions of the service stay open: idle sessions report their reads.
    testing::eventually("the reads of the commands are reported", || async {
        let inserted: (i64,) = sqlx::query_as(
            "SELECT sum(n_tup_ins)::bigint FROM pg_stat_user_tables WHERE relname = 'events'",
        )
        .fetch_one(app.database.pool())
        .await
        .unwrap();
        (inserted.0 >= 8 * CREATES + i64::from(LARGE)).then_some(())
    })
    .await;
    assert_eq!(reads(&app.database).await.0 - scanned_before, 0);
}
