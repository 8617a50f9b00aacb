//! Sound log, and damages by the owner of the database.

use linkledger_command_api::sealing::Sealer;
use linkledger_core::{
    id::AccountId,
    link::{LinkCreated, Slug},
    shard::Shard,
};
use linkledger_testing as testing;
use linkledger_testing::{
    TestDatabase,
    events::{deleted, destination_changed, disabled, granted},
};
use serde_json::Value;
use sqlx::AssertSqlSafe;

use crate::cli::{json, run};

const EVENTS_PER_SEGMENT: i64 = 5;
pub(super) const LINK_COUNT: usize = 5;

/// Tables that a damage may change.
const TABLES: [&str; 9] = [
    "events",
    "log_segments",
    "log_shards",
    "accounts",
    "api_keys",
    "slugs",
    "external_ids",
    "link_expiries",
    "webhooks",
];

/// Sealed log of two accounts in different shards, and a backup.
pub(super) struct SoundLog {
    pub(super) database: TestDatabase,
    /// Account with most of the events, from position 1: created, granted, five links with their
    /// charges, three changes of the second link, adjusted, suspended, resumed, suspended.
    pub(super) account_id: AccountId,
    pub(super) shard: Shard,
    /// Account with four events, in another shard.
    other: AccountId,
}

impl SoundLog {
    pub(super) async fn create() -> Self {
        let database = TestDatabase::create().await;
        let account_id = account(&database).await;
        let links = append_links(&database, account_id, LINK_COUNT).await;
        let link = &links[1];
        let changes = [
            destination_changed(link, "https://example.com/new"),
            disabled(link),
            deleted(link),
        ];
        testing::append_events(database.pool(), account_id, &changes).await;
        let id = account_id.to_string();
        let adjust = ["credits", "adjust", "--account", &id, "--amount", "-7"];
        let reason = ["--reason", "x", "--idempotency-key", "ticket-1"];
        json(database.url(), &[&adjust[..], &reason].concat());
        for verb in ["suspend", "resume", "suspend"] {
            let arguments = ["account", verb, "--account", &id, "--reason", "x"];
            json(database.url(), &arguments);
        }
        let shard = Shard::of(account_id);
        // In another shard: that of the first account has no other events.
        let mut ids = std::iter::repeat_with(testing::new_account_id);
        let other = ids.find(|id| Shard::of(*id) != shard).unwrap();
        create(&database, other).await;
        append_links(&database, other, 1).await;
        seal(&database).await;
        let log = Self {
            database,
            account_id,
            shard,
            other,
        };
        let save = |table| format!("CREATE TABLE saved_{table} AS TABLE event_store.{table}; ");
        log.execute(&TABLES.map(save).concat()).await;
        log
    }

    /// Executes statements as the owner of the tables, with triggers off.
    pub(super) async fn execute(&self, statements: &str) {
        let statements = format!("SET session_replication_role = replica; {statements}");
        let mut session = self.database.pool().acquire().await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(statements))
            .execute(&mut *session)
            .await
            .unwrap();
        sqlx::raw_sql("RESET session_replication_role")
            .execute(&mut *session)
            .await
            .unwrap();
    }

    async fn restore(&self) {
        let restore = |table| {
            format!(
                "DELETE FROM event_store.{table};
                 INSERT INTO event_store.{table} TABLE saved_{table}; "
            )
        };
        self.execute(&TABLES.map(restore).concat()).await;
    }

    /// Returns the findings after a damage, and undoes the damage. `$set … $at = 5` changes the event
    /// at position 5 of the account's shard.
    pub(super) async fn damaged(&self, statements: &str) -> Vec<(Option<i64>, String)> {
        let statements = &statements
            .replace("$set", "UPDATE event_store.events SET")
            .replace("$at", "WHERE shard = $shard AND position")
            .replace("$shard", &self.shard.to_string())
            .replace("$account", &format!("'{}'", self.account_id.uuid()))
            .replace("$other", &format!("'{}'", self.other.uuid()));
        self.execute(statements).await;
        let (exit_code, verified) = verify(&self.database, &[]);
        assert_eq!(exit_code, Some(1), "{statements}");
        self.restore().await;
        let findings = verified["findings"].as_array().unwrap();
        let finding = |it: &Value| {
            assert_eq!(it["shard"], self.shard.number(), "{statements}: {it}");
            (
                it["position"].as_i64(),
                it["what"].as_str().unwrap().to_owned(),
            )
        };
        assert_eq!(verified["finding_count"], findings.len());
        findings.iter().map(finding).collect()
    }
}

pub(super) async fn account(database: &TestDatabase) -> AccountId {
    let account_id = testing::new_account_id();
    create(database, account_id).await;
    account_id
}

/// Creates the account, and grants it credits.
async fn create(database: &TestDatabase, account_id: AccountId) {
    testing::created_account(database.pool(), account_id, "sound").await;
    let granted = granted(account_id, 1_000, 1_000);
    testing::append_events(database.pool(), account_id, &[granted]).await;
}

pub(super) async fn append_links(
    database: &TestDatabase,
    account_id: AccountId,
    count: usize,
) -> Vec<LinkCreated> {
    let mut links = Vec::new();
    for _ in 0..count {
        let slug = Slug::generate().to_string().to_ascii_uppercase();
        let link = [(slug.as_str(), "https://example.com/")];
        let created = testing::append_links(database.pool(), account_id, &link).await;
        links.extend(created.into_iter().map(|it| it.link));
    }
    links
}

pub(super) async fn seal(database: &TestDatabase) {
    let mut sealer =
        Sealer::new(database.pool().clone()).with_events_per_segment(EVENTS_PER_SEGMENT);
    while sealer.round().await > 0 {}
}

pub(super) fn verify(database: &TestDatabase, arguments: &[&str]) -> (Option<i32>, Value) {
    let arguments = [&["log", "verify", "--json"], arguments].concat();
    let output = run(database.url(), &arguments);
    let verified = serde_json::from_slice(&output.stdout);
    let verified = verified.unwrap_or_else(|_| panic!("{output:?}"));
    (output.status.code(), verified)
}
