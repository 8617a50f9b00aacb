//! `verify` finds, names and repairs wrong rows of the read tables.

mod beside_projector;
mod command;
mod plans;
mod recorded_outcome;
mod skipped_and_parked;
mod statements;
pub(crate) mod subject;
mod timeouts;

use std::collections::BTreeSet;

use linkledger_core::{
    clock::{Clock as _, SystemClock, new_uuid},
    credits::{CreditsAdjusted, CreditsEvent, CreditsRefunded},
    event::Event,
    id::{AccountId, EntryId, LinkId},
    link::LinkDetails,
};
use linkledger_projector::{
    operations::{
        pause::{self, FollowerName, PauseChange},
        verify::{self, FindingKind, VerifyFinding},
    },
    read_models::Projection,
};
use sqlx::{AssertSqlSafe, PgPool};

use crate::{
    cache_changes::{changes, numbers},
    cycles::cycle_until_idle,
    events::{
        adjusted, deleted, destination_changed, details_changed, disabled, resumed, suspended,
    },
    fixture::Fixture,
    tables::{Tables, read_tables},
    verified::{assert_nothing_is_wrong, first_generation, sessions, verify_all},
};

/// Repairs everything, and returns the number of repaired rows.
pub(crate) async fn repair_all(fixture: &Fixture) -> u64 {
    let pool = sessions(fixture);
    let mut rows = 0;
    for target in Projection::ALL.map(first_generation) {
        let found = verify::verify_generation(&pool, target, &|_| ())
            .await
            .unwrap();
        let repaired = verify::repair(&pool, target, None, &found, &|_| ())
            .await
            .unwrap();
        assert!(repaired.left.findings.is_empty(), "{repaired:?}");
        rows += repaired.rows;
    }
    pool.close().await;
    rows
}

async fn findings(fixture: &Fixture) -> Vec<VerifyFinding> {
    let all = verify_all(fixture).await;
    all.into_iter().flat_map(|it| it.findings.named).collect()
}

/// Returns the names of the columns that differ, separated by commas.
fn column_names(finding: &VerifyFinding) -> String {
    let names: Vec<_> = finding.columns.iter().map(|it| it.name).collect();
    names.join(",")
}

async fn execute(pool: &PgPool, statement: &str) -> u64 {
    let done = sqlx::query(AssertSqlSafe(statement.to_owned()))
        .execute(pool)
        .await
        .unwrap();
    done.rows_affected()
}

pub(crate) async fn damage(pool: &PgPool, statement: &str) {
    assert_eq!(execute(pool, statement).await, 1, "{statement}");
}

/// Appends and applies the events whose rows [`DAMAGES`] damages.
pub(crate) async fn history(fixture: &Fixture) {
    let account_id = fixture.account_with_links("first", 3).await;
    let links = fixture.append_links(account_id, "second", 3).await;
    let events = [
        destination_changed(&links[0], "https://elsewhere.example/"),
        details_changed(&links[0], &LinkDetails::NONE),
        disabled(&links[1]),
        deleted(&links[2]),
        suspended(account_id, true),
        adjusted(account_id, -4, 999_990),
    ];
    fixture.append(account_id, &events).await;
    let other = fixture.account_with_links("other", 2).await;
    let events = [
        suspended(other, true),
        resumed(other),
        described(other, 10, 1_000_008),
        refunded(other, 1, 1_000_009),
    ];
    fixture.append(other, &events).await;
    fixture.apply_log().await;
}

/// Returns an adjustment with a description.
fn described(account_id: AccountId, amount: i64, balance_after: i64) -> Event {
    Event::Credits(CreditsEvent::Adjusted(CreditsAdjusted {
        account_id,
        amount,
        balance_after,
        reason: "test".to_owned(),
        reference: Some("ticket 7".to_owned()),
        description: Some("Goodwill \u{1f381}".to_owned()),
    }))
}

/// Returns a refund of a charge. No row depends on the charge itself.
fn refunded(account_id: AccountId, amount: i64, balance_after: i64) -> Event {
    let now = SystemClock.now();
    Event::Credits(CreditsEvent::Refunded(CreditsRefunded {
        account_id,
        amount,
        balance_after,
        refunds: EntryId::from_uuid(new_uuid(now)),
        link_id: LinkId::from_uuid(new_uuid(now)),
        reason: "test".to_owned(),
    }))
}

#[tokio::test]
async fn verify_of_right_rows_finds_nothing() {
    let fixture = Fixture::new().await;
    history(&fixture).await;
    let all = verify_all(&fixture).await;
    let rows = [
        Projection::Credits,
        Projection::Links,
        Projection::Redirects,
    ]
    .map(|it| all[it.index()].rows_expected);
    assert_eq!(rows, [15, 7 + 12, 9]);
    for verified in all {
        assert_eq!(verified.events, 28);
        assert_eq!(verified.rows_found, verified.rows_expected, "{verified:?}");
        assert!(verified.findings.is_empty(), "{verified:?}");
    }
}

#[tokio::test]
async fn rows_of_every_type_of_event_have_no_findings() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("every", 1).await;
    fixture.append_every_change(account_id, "every").await;
    let log = fixture.log().await;
    fixture.followers().cycle(log.clone()).await.unwrap();
    let tables = Tables::read(fixture.database.pool()).await;
    assert_eq!(tables, Tables::of_log(&log));
    assert_nothing_is_wrong(&fixture).await;
}

/// Damage to a table, and its findings: table, kind, columns.
const DAMAGES: &[(&str, &[&str])] = &[
    (
        "DELETE FROM read_model.links WHERE slug = 'first-1X'",
        &["links Missing "],
    ),
    (
        "UPDATE read_model.links SET destination_url = 'x', version = 7 WHERE slug = 'first-1X'",
        &["links Different destination_url,version"],
    ),
    (
        "UPDATE read_model.links SET created_at = now() WHERE slug = 'second-1X'",
        &["links Different created_at"],
    ),
    (
        "UPDATE read_model.links SET account_id = link_id WHERE slug = 'first-1X'",
        &["links Missing ", "links Orphan "],
    ),
    (
        "INSERT INTO read_model.links
             (generation, account_id, link_id, slug, destination_url, version, created_at)
         SELECT 1, account_id, link_id, 'second-2X', 'x', 2, now() FROM read_model.redirects
         WHERE slug_key = 'second-2x'",
        &["links Orphan "],
    ),
    (
        "UPDATE read_model.links SET disabled_by = NULL WHERE slug = 'second-1X'",
        &["links Different disabled_by"],
    ),
    (
        "DELETE FROM read_model.link_tags AS t USING read_model.links AS l
         WHERE l.slug = 'first-1X' AND t.link_id = l.link_id AND t.tag = 'offers'",
        &["link_tags Missing "],
    ),
    (
        "INSERT INTO read_model.link_tags
         SELECT 1, account_id, 'never-given', link_id FROM read_model.links WHERE slug = 'first-1X'",
        &["link_tags Orphan "],
    ),
    (
        "INSERT INTO read_model.link_tags
         SELECT 1, account_id, 'offers', link_id FROM read_model.links WHERE slug = 'second-0X'",
        &["link_tags Orphan "],
    ),
    (
        "DELETE FROM read_model.redirects WHERE slug_key = 'second-2x'",
        &["redirects Missing "],
    ),
    (
        "UPDATE read_model.redirects SET state = 'active' WHERE state = 'disabled'",
        &["redirects Different state"],
    ),
    (
        "UPDATE read_model.redirects SET link_id = account_id, destination_url = 'x'
         WHERE slug_key = 'second-0x'",
        &["redirects Different link_id,destination_url"],
    ),
    (
        "INSERT INTO read_model.redirects
         SELECT 1, 'never-given', link_id, account_id, destination_url FROM read_model.redirects
         WHERE slug_key = 'second-0x'",
        &["redirects Orphan "],
    ),
    (
        "DELETE FROM read_model.stopped_accounts",
        &["stopped_accounts Missing "],
    ),
    (
        "INSERT INTO read_model.stopped_accounts
         SELECT 1, account_id FROM event_store.accounts WHERE name = 'other'",
        &["stopped_accounts Orphan "],
    ),
    (
        "INSERT INTO read_model.stopped_accounts SELECT 1, gen_random_uuid()",
        &["stopped_accounts Orphan "],
    ),
    (
        "UPDATE read_model.credit_balances SET balance = balance + 1 WHERE balance = 999990",
        &[
            "credit_balances Different balance",
        ],
    ),
    (
        "UPDATE read_model.credit_balances SET version = 3 WHERE balance = 999990",
        &["credit_balances Different version"],
    ),
    (
        "DELETE FROM read_model.credit_balances WHERE balance = 999990",
        &["credit_balances Missing "],
    ),
    (
        "INSERT INTO read_model.credit_balances SELECT 1, gen_random_uuid(), 5, 1",
        &["credit_balances Orphan "],
    ),
    (
        "UPDATE read_model.credit_entries SET amount = -2 WHERE balance_after = 999997",
        &[
            "credit_entries Different amount",
        ],
    ),
    (
        "UPDATE read_model.credit_entries SET link_id = account_id, type = 'grant'
         WHERE balance_after = 999997",
        &["credit_entries Different type,link_id"],
    ),
    (
        "UPDATE read_model.credit_entries SET description = NULL WHERE description LIKE 'Goodwill%'",
        &["credit_entries Different description"],
    ),
    (
        "UPDATE read_model.credit_entries SET refunds = entry_id, link_id = NULL WHERE type = 'refund'",
        &["credit_entries Different link_id,refunds"],
    ),
    (
        "DELETE FROM read_model.credit_entries WHERE balance_after = 999997",
        &["credit_entries Missing "],
    ),
    (
        "INSERT INTO read_model.credit_entries
         SELECT 1, account_id, 1000, gen_random_uuid(), 'grant', 1, 999991, NULL, NULL, NULL, now()
         FROM read_model.credit_balances WHERE balance = 999990",
        &["credit_entries Orphan "],
    ),
];

#[tokio::test]
async fn each_kind_of_damage_is_repaired() {
    let fixture = Fixture::new().await;
    history(&fixture).await;
    let pool = fixture.database.pool();
    let intact = Tables::read(pool).await;
    for (statement, expected) in DAMAGES {
        damage(pool, statement).await;
        let findings = findings(&fixture).await;
        let mut named: Vec<_> = findings
            .iter()
            .map(|it| format!("{} {:?} {}", it.table, it.kind, column_names(it)))
            .collect();
        named.sort();
        assert_eq!(named, *expected, "{statement}");
        let rows = findings.len() as u64;
        assert_eq!(repair_all(&fixture).await, rows, "{statement}");
        assert_eq!(Tables::read(pool).await, intact, "{statement}");
    }
}

#[tokio::test]
async fn lost_row_of_each_table_is_found_and_repaired() {
    let fixture = Fixture::new().await;
    history(&fixture).await;
    let pool = fixture.database.pool();
    let intact = Tables::read(pool).await;
    for table in read_tables() {
        let lost = format!(
            "DELETE FROM read_model.{table}_1
             WHERE ctid = (SELECT min(ctid) FROM read_model.{table}_1)"
        );
        damage(pool, &lost).await;
        let findings = findings(&fixture).await;
        let mut missing = findings.iter().filter(|it| it.kind == FindingKind::Missing);
        assert!(missing.any(|it| it.table == table), "{table}: {findings:?}");
        repair_all(&fixture).await;
        assert_eq!(Tables::read(pool).await, intact, "{table}");
    }
}

#[tokio::test]
async fn paused_projection_is_verified_but_not_repaired() {
    let fixture = Fixture::new().await;
    history(&fixture).await;
    let pool = fixture.database.pool();
    for statement in [
        "UPDATE read_model.links SET version = 7 WHERE slug = 'first-1X'",
        "INSERT INTO read_model.links
             (generation, account_id, link_id, slug, destination_url, version, created_at)
         SELECT 1, account_id, link_id, 'second-2X', 'x', 2, now() FROM read_model.redirects
         WHERE slug_key = 'second-2x'",
    ] {
        damage(pool, statement).await;
        let damaged = Tables::read(pool).await;
        let set = async |wish| pause::change(pool, &[FollowerName::Links], wish, "ada", None).await;
        set(PauseChange::Pause).await.unwrap();
        assert_eq!(findings(&fixture).await.len(), 1);
        let target = first_generation(Projection::Links);
        let databases = fixture.database.databases();
        let found = verify::verify_generation(&databases, target, &|_| ()).await;
        let repaired = verify::repair(&databases, target, None, &found.unwrap(), &|_| ()).await;
        let error = format!("{:#}", repaired.unwrap_err());
        assert!(
            error.contains("run `projector resume links` first"),
            "{error}"
        );
        assert_eq!(Tables::read(pool).await, damaged);
        set(PauseChange::Resume).await.unwrap();
        assert_eq!(repair_all(&fixture).await, 1);
    }
}

#[tokio::test]
async fn links_with_many_events_are_repaired_in_chunks() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let account_id = fixture.account_with_links("changed", 4).await;
    let links = fixture.append_links(account_id, "often", 3).await;
    for link in &links {
        let url = "https://elsewhere.example/";
        let changes: Vec<_> = (0..1_200).map(|_| destination_changed(link, url)).collect();
        fixture.append(account_id, &changes).await;
    }
    let mut followers = fixture.followers();
    followers.cycle(fixture.log().await).await.unwrap();
    cycle_until_idle(&mut followers).await;
    let intact = Tables::read(pool).await;
    for table in ["links", "redirects"] {
        execute(pool, &format!("DELETE FROM read_model.{table}")).await;
    }
    assert_eq!(repair_all(&fixture).await, 14);
    assert_eq!(Tables::read(pool).await, intact);
}

#[tokio::test]
async fn repair_invalidates_only_repaired_redirects() {
    let fixture = Fixture::new().await;
    history(&fixture).await;
    let pool = fixture.database.pool();
    for statement in [
        "UPDATE read_model.redirects SET destination_url = 'x' WHERE slug_key = 'first-0x'",
        "DELETE FROM read_model.redirects WHERE slug_key = 'second-1x'",
        "INSERT INTO read_model.redirects
         SELECT 1, 'never-given', link_id, account_id, destination_url FROM read_model.redirects
         WHERE slug_key = 'second-0x'",
        "UPDATE read_model.links SET version = 9 WHERE slug = 'first-2X'",
        "DELETE FROM read_model.stopped_accounts",
    ] {
        damage(pool, statement).await;
    }
    let last_number = numbers(pool).await.into_iter().max().unwrap();
    assert_eq!(repair_all(&fixture).await, 5);
    let told: BTreeSet<_> = changes(pool)
        .await
        .into_iter()
        .filter(|row| row.0 > last_number)
        .map(|row| (row.1, row.2))
        .collect();
    let slugs = ["first-0x", "never-given", "second-1x"];
    let mut expected: BTreeSet<_> = slugs.map(|it| (Some(it.to_owned()), None)).into();
    let stopped = Tables::of_log(&fixture.log().await).stopped_accounts;
    expected.extend(stopped.into_iter().map(|it| (None, Some(it))));
    assert_eq!(told, expected);
}
