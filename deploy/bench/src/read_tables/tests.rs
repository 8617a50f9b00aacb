//! The rows that Postgres makes of a log equal the rows of the projector.

use linkledger_core::{
    cloud_event::PublishedEvent,
    credits::{CreditsEvent, CreditsGranted},
    event::Event,
    link::{Destination, DestinationRules, LinkDetails, LinkDraft, Slug},
    shard::Shard,
};
use linkledger_event_store::log::{self, ReadFrom};
use linkledger_projector::pipeline::followers::Followers;
use linkledger_testing::{TestDatabase, account, append_drafts, append_events};
use sqlx::{AssertSqlSafe, PgPool};

use super::ReadTables;

const TABLES: [&str; 4] = ["links", "redirects", "credit_entries", "credit_balances"];

/// Makes a log of grants and creates, applied by the projector.
async fn projected() -> TestDatabase {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    for name in ["one", "two", "three"] {
        let account_id = account(pool, 0).await;
        let granted = CreditsGranted {
            account_id,
            amount: 100,
            balance_after: 100,
            reason: "test".to_owned(),
            reference: None,
            description: None,
        };
        append_events(
            pool,
            account_id,
            &[Event::Credits(CreditsEvent::Granted(granted))],
        )
        .await;
        let destination =
            Destination::parse("https://a.example/b?c=d", &DestinationRules::default());
        let destination = destination.unwrap();
        let drafts = ["First", "second"].map(|slug| LinkDraft {
            slug: Some(Slug::parse(&format!("{name}-{slug}")).unwrap()),
            destination: destination.clone(),
            details: LinkDetails::NONE,
        });
        append_drafts(pool, account_id, drafts.to_vec()).await;
    }
    let from: Vec<ReadFrom> = Shard::all()
        .map(|shard| ReadFrom { shard, after: 0 })
        .collect();
    let events = log::read_after(pool, &from, 1_000).await.unwrap();
    let delivered = events
        .into_iter()
        .map(|event| PublishedEvent::new(event, 1));
    let mut followers = Followers::new(pool.clone().into());
    followers.set_shards(&Shard::all().collect());
    followers.cycle(delivered.collect()).await.unwrap();
    database
}

/// Returns all rows of the read models in a schema, as text.
async fn rows(pool: &PgPool, schema: &str) -> Vec<String> {
    let mut rows = Vec::new();
    for table in TABLES {
        let statement = format!("SELECT t::text FROM {schema}.{table} AS t ORDER BY 1");
        let of_table: Vec<String> = sqlx::query_scalar(AssertSqlSafe(statement))
            .fetch_all(pool)
            .await
            .unwrap();
        assert!(!of_table.is_empty(), "{table}");
        rows.extend(of_table.into_iter().map(|row| format!("{table} {row}")));
    }
    rows
}

#[tokio::test]
async fn read_tables_equal_rows_of_the_projector() {
    let database = projected().await;
    let of_projector = rows(database.pool(), "read_model").await;
    let mut tables = ReadTables::connect(database.url()).await.unwrap();
    tables.empty().await.unwrap();
    tables.fill().await.unwrap();
    assert_eq!(rows(database.pool(), "read_model").await, of_projector);
    tables.fill_bare().await.unwrap();
    assert_eq!(rows(database.pool(), "bare").await, of_projector);
}

#[tokio::test]
async fn reset_projector_has_applied_no_event() {
    let database = projected().await;
    let mut tables = ReadTables::connect(database.url()).await.unwrap();
    let events = tables.events().await.unwrap();
    assert_eq!(events, 15, "three grants, six creates of two events each");
    assert_eq!(tables.applied().await.unwrap(), events);
    tables.empty().await.unwrap();
    assert_eq!(tables.applied().await.unwrap(), 0);
}
