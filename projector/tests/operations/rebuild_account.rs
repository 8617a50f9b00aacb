//! `projector rebuild --account`, with the rights of an operator.

use std::process::{Command, Output};

use linkledger_core::{envelope::RecordedEvent, id::AccountId};
use linkledger_projector::{
    operations::rebuild::account::rebuild_account, read_models::Projection,
};
use serde_json::Value;
use sqlx::{PgPool, raw_sql};

use crate::{
    cache_changes::changes, events::suspended, poisoned::paint, stage::Stage, tables::Tables,
    verified::assert_nothing_is_wrong, verify::damage,
};

const ROLES: &str = include_str!("../../../deploy/postgres/roles.sql");

/// More than a chunk of events.
const LINKS: usize = 250;

async fn rebuild(stage: &Stage, arguments: &[&str]) -> Output {
    let url = stage.database.url();
    let separator = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{separator}options[role]=linkledger_operator");
    let mut command = Command::new(env!("CARGO_BIN_EXE_projector"));
    command
        .arg("rebuild")
        .args(arguments)
        .env("DATABASE_URL", url)
        .env("LINKLEDGER_OPERATOR", "ada");
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = output.await.unwrap().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

/// An account with every type of event, and the rows of all accounts.
async fn large_account(stage: &Stage) -> (AccountId, Tables) {
    let pool = stage.database.pool();
    raw_sql(ROLES).execute(pool).await.unwrap();
    let account_id = stage.account_with_links("large", LINKS).await;
    stage.append_every_change(account_id, "last").await;
    stage
        .append(account_id, &[suspended(account_id, true)])
        .await;
    stage.account_with_links("other", 1).await;
    stage.followers().cycle(stage.log().await).await.unwrap();
    (account_id, Tables::read(pool).await)
}

async fn damage_all(pool: &PgPool) {
    for statement in [
        "UPDATE read_model.links SET destination_url = 'x' WHERE slug = 'large-7X'",
        "DELETE FROM read_model.links WHERE slug = 'last-changed-1'",
        "UPDATE read_model.redirects SET state = 'deleted' WHERE slug_folded = 'large-230x'",
        "DELETE FROM read_model.redirects WHERE slug_folded = 'last-changed-2'",
        "DELETE FROM read_model.stopped_accounts",
        "DELETE FROM read_model.credit_entries WHERE balance_after = 999990",
        "UPDATE read_model.credit_balances SET balance = 7 WHERE version > 100",
    ] {
        damage(pool, statement).await;
    }
}

#[tokio::test]
async fn rebuild_of_an_account_restores_its_rows() {
    let stage = Stage::set().await;
    let pool = stage.database.pool();
    let (account_id, intact) = large_account(&stage).await;
    damage_all(pool).await;
    let damaged = Tables::read(pool).await;
    let account = account_id.to_string();

    let planned = rebuild(&stage, &["--account", &account, "--dry-run"]).await;
    let planned = String::from_utf8(planned.stdout).unwrap();
    assert!(planned.contains("nothing was changed"), "{planned}");
    assert_eq!(Tables::read(pool).await, damaged);

    let last_change = changes(pool).await.into_iter().map(|row| row.0).max();
    let rebuilt = rebuild(&stage, &["--account", &account, "--json"]).await;
    assert_eq!(Tables::read(pool).await, intact);
    assert_nothing_is_wrong(&stage).await;
    let rebuilt: Value = serde_json::from_slice(&rebuilt.stdout).unwrap();
    assert_eq!(rebuilt["account_id"], account.as_str());
    let log = stage.log().await;
    let count = |prefix| {
        let is_counted = |event: &RecordedEvent| {
            event.account_id == account_id && event.event_type.starts_with(prefix)
        };
        log.iter().filter(|it| is_counted(&it.event)).count()
    };
    // Each of two chunks ends with the last credit event.
    let of_credits = &rebuilt["rebuilt"][Projection::Credits.index()];
    assert_eq!(of_credits["events"], count("Credits") + 1);
    let caches_forget = changes(pool).await.into_iter();
    let caches_forget: Vec<_> = caches_forget
        .filter(|row| Some(row.0) > last_change)
        .collect();
    assert!(
        caches_forget
            .iter()
            .any(|row| row.2 == Some(account_id.uuid()))
    );
    let slugs = caches_forget.iter().filter(|row| row.1.is_some());
    assert_eq!(slugs.count(), count("LinkCreated"));
    let recorded: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT command, projection, detail FROM read_model.operations ORDER BY projection",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    let commands: Vec<_> = recorded.iter().map(|row| row.0.as_str()).collect();
    assert_eq!(commands, ["rebuild --account"; Projection::ALL.len()]);
    assert!(
        recorded[0].2.ends_with("events projected again"),
        "{recorded:?}"
    );
}

#[tokio::test]
async fn rebuild_of_an_account_leaves_other_accounts() {
    let stage = Stage::set().await;
    let pool = stage.database.pool();
    let (account_id, _) = large_account(&stage).await;
    let other = "UPDATE read_model.links SET destination_url = 'x' WHERE slug = 'other-0X'";
    damage(pool, other).await;
    let damaged = Tables::read(pool).await;
    rebuild(&stage, &["links", "--account", &account_id.to_string()]).await;
    assert_eq!(Tables::read(pool).await, damaged);
}

#[tokio::test]
async fn rebuild_restores_link_whose_charge_waits() {
    let stage = Stage::set().await;
    let pool = stage.database.pool();
    let account_id = stage.account_with_links("parked", 2).await;
    let log = stage.log().await;
    paint(pool, log.last().unwrap()).await;
    stage.followers().cycle(stage.log().await).await.unwrap();
    let intact = Tables::read(pool).await;
    for table in ["links", "redirects"] {
        let lost = format!("DELETE FROM read_model.{table}");
        let lost = sqlx::query(sqlx::AssertSqlSafe(lost)).execute(pool).await;
        assert_eq!(lost.unwrap().rows_affected(), 2);
    }
    for projection in Projection::ALL {
        rebuild_account(&pool.clone().into(), projection, account_id)
            .await
            .unwrap();
    }
    assert_eq!(Tables::read(pool).await, intact);
}
