//! Rights of the console's sessions, and the number of rows that they read.

use linkledger_core::{id::AccountId, shard::Shard};
use sqlx::{AssertSqlSafe, raw_sql};

use super::{TestConsole, assert_lacks, assert_shows};
use crate::{
    fixture::Fixture,
    large_tables::{reads, sessions_have_ended},
};

const ROLES: &str = include_str!("../../../../deploy/postgres/roles.sql");
/// Events that are added to each shard: more than a page reads.
const EVENTS_OF_SHARD: i64 = 4_000;
/// Events that are added to the shard of the account.
const EVENTS_OF_ITS_SHARD: i64 = 30_000;
/// Events that the pages claim to read for a filter, and some for the rest.
const ENTRIES_MAX: i64 = 20_000 + 16 * 2_000 + 5_000;

#[tokio::test]
async fn projector_grants_suffice_for_every_page() {
    let fixture = Fixture::new().await;
    raw_sql(ROLES)
        .execute(fixture.database.pool())
        .await
        .unwrap();
    let account_id = fixture.account_with_links("granted", 0).await;
    let link = fixture.append_links(account_id, "link", 1).await.remove(0);
    let url = format!(
        "{}?options[role]=linkledger_projector",
        fixture.database.url()
    );
    let console = TestConsole::start_on(&url).await;
    for path in [
        "/".to_owned(),
        "/events".to_owned(),
        format!("/events?link={}", link.link_id),
        format!("/accounts/{account_id}"),
        format!("/links/{}", link.link_id),
    ] {
        assert_lacks(&console.page(&path).await, "cannot be compared");
    }
    console.refusal("/find?q=unknown", 404).await;
}

/// Adds events of many accounts.
async fn fill(fixture: &Fixture, account_id: AccountId) {
    let (shard, of_its_shard, of_shard) = (
        Shard::of(account_id).number(),
        EVENTS_OF_ITS_SHARD,
        EVENTS_OF_SHARD,
    );
    let statement = format!(
        "WITH advanced AS (
             UPDATE event_store.log_shards
             SET head = head + CASE shard WHEN {shard} THEN {of_its_shard} ELSE {of_shard} END
             RETURNING shard, head,
                       CASE shard WHEN {shard} THEN {of_its_shard} ELSE {of_shard} END AS added
         )
         INSERT INTO event_store.events (shard, position, stream_id, version, account_id, event_id,
             type, schema_version, payload, metadata, recorded_at)
         SELECT shard, head - n, gen_random_uuid(), 1, gen_random_uuid(), gen_random_uuid(),
                'LinkCreated', 1, '{{}}', '{{}}', now()
         FROM advanced, generate_series(0, added - 1) AS n"
    );
    raw_sql(AssertSqlSafe(statement))
        .execute(fixture.database.pool())
        .await
        .unwrap();
}

#[tokio::test]
async fn page_reads_a_bounded_part_of_the_log() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("bounded", 0).await;
    let link = fixture.append_links(account_id, "link", 1).await.remove(0);
    let console = TestConsole::start(&fixture.database).await;
    let of_account = format!("/events?account={account_id}");
    let of_type = "/events?type=LinkPainted";
    let paths = [
        "/events".to_owned(),
        format!("/events?link={}", link.link_id),
        format!("/accounts/{account_id}"),
        format!("/links/{}", link.link_id),
    ];
    // The plans were made while the log was small.
    for path in paths.iter().chain([&of_account, &of_type.to_owned()]) {
        console.page(path).await;
    }
    fill(&fixture, account_id).await;
    let before = reads(fixture.database.pool()).await;
    for path in paths {
        assert_lacks(&console.page(&path).await, "cannot be compared");
    }
    let page = console.page(&of_account).await;
    assert_shows(&page, "None of the 20,000 events that were read");
    let page = console.page(of_type).await;
    assert_shows(&page, "None of the 32,000 events that were read");

    drop(console);
    sessions_have_ended(fixture.database.pool(), "linkledger").await;
    let after = reads(fixture.database.pool()).await;
    assert_eq!(after.0 - before.0, 0, "rows read without an index");
    let entries = after.1 - before.1;
    assert!((50_000..ENTRIES_MAX).contains(&entries), "{entries}");
}
