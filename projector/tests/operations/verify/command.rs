//! `projector verify`, as an operator runs it, with the rights of an operator.

use std::process::{Command, Output};

use linkledger_event_store::transaction::PoolTransaction;
use linkledger_projector::{operations::verify::outcome, read_models::Projection};
use serde_json::Value;
use sqlx::raw_sql;

use super::{damage, history};
use crate::{
    contested::EXCHANGE,
    fixture::Fixture,
    operation::run_elsewhere,
    rebuild::{NO_SWAP, rebuild_all, sessions},
    tables::Tables,
};

const ROLES: &str = include_str!("../../../../deploy/postgres/roles.sql");

pub(super) async fn run(fixture: &Fixture, arguments: &[&str]) -> Output {
    let url = fixture.database.url();
    let separator = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{separator}options[role]=linkledger_operator");
    let mut command = Command::new(env!("CARGO_BIN_EXE_projector"));
    command
        .arg("verify")
        .args(arguments)
        .env("DATABASE_URL", url)
        .env("LINKLEDGER_OPERATOR", "ada");
    let output = tokio::task::spawn_blocking(move || command.output());
    output.await.unwrap().unwrap()
}

pub(super) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(super) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub(super) async fn set_roles(fixture: &Fixture) {
    raw_sql(ROLES)
        .execute(fixture.database.pool())
        .await
        .unwrap();
}

async fn set_up() -> Fixture {
    let fixture = Fixture::new().await;
    set_roles(&fixture).await;
    history(&fixture).await;
    fixture
}

#[tokio::test]
async fn verify_reports_and_records_right_rows() {
    let fixture = set_up().await;
    let verified = run(&fixture, &[]).await;
    assert!(verified.status.success(), "{}", stderr(&verified));
    let text = stdout(&verified);
    let lines: Vec<&str> = text.lines().collect();
    for line in [
        "`credits`, generation 1: 28 events make 15 rows; nothing is wrong.",
        "`links`, generation 1: 28 events make 19 rows; nothing is wrong.",
        "`redirects`, generation 1: 28 events make 9 rows; nothing is wrong.",
    ] {
        assert!(lines.contains(&line), "{text}");
    }
    assert!(
        lines[Projection::ALL.len()].starts_with("Verified in "),
        "{text}"
    );
    for projection in Projection::ALL {
        let last = outcome::last(fixture.database.pool(), projection)
            .await
            .unwrap();
        assert_eq!(last.unwrap().mismatches, 0);
    }
    let unknown = run(&fixture, &["links", "--generation", "7"]).await;
    assert_eq!(unknown.status.code(), Some(1));
    let error = stderr(&unknown);
    assert!(
        error.contains("there is no generation 7 of `links`"),
        "{error}"
    );
}

#[tokio::test]
async fn verify_names_and_repairs_wrong_rows() {
    let fixture = set_up().await;
    let pool = fixture.database.pool();
    let intact = Tables::read(pool).await;
    damage(
        pool,
        "UPDATE read_model.links SET destination_url = 'x' WHERE slug = 'first-1X'",
    )
    .await;
    let damaged = Tables::read(pool).await;

    let found = run(&fixture, &["links"]).await;
    assert_eq!(found.status.code(), Some(1));
    let text = stdout(&found);
    let line = text.lines().nth(1).unwrap();
    assert!(
        line.starts_with("  links: different acc_") && line.contains(" lnk_"),
        "{text}"
    );
    assert!(
        line.contains(" (destination_url: log https://example.com/, row x), shard "),
        "{text}"
    );
    assert!(line.contains(", positions 1 to "), "{text}");
    let error = stderr(&found);
    assert!(
        error.ends_with(
            "error: the read tables are not what the log says: 1 mismatch; `--repair` mends them\n"
        ),
        "{error}"
    );
    let last = outcome::last(pool, Projection::Links).await.unwrap();
    assert_eq!(last.unwrap().mismatches, 1);

    let planned = run(&fixture, &["--repair", "--dry-run"]).await;
    assert_eq!(planned.status.code(), Some(1));
    assert!(
        stdout(&planned).contains("Would repair 1 row; nothing was changed.\n"),
        "{}",
        stdout(&planned)
    );
    assert_eq!(Tables::read(pool).await, damaged);

    let repaired = run(
        &fixture,
        &["links", "--repair", "--reason", "tried", "--json"],
    )
    .await;
    assert!(repaired.status.success(), "{}", stderr(&repaired));
    let json: Value = serde_json::from_slice(&repaired.stdout).unwrap();
    let of_links = &json["projections"][0];
    assert_eq!(of_links["mismatches"], 1);
    assert_eq!(of_links["named"][0]["kind"], "different");
    assert_eq!(of_links["repaired"]["rows"], 1);
    assert_eq!(of_links["repaired"]["left"]["mismatches"], 0);
    assert_eq!(Tables::read(pool).await, intact);
    let last = outcome::last(pool, Projection::Links).await.unwrap();
    assert_eq!(last.unwrap().mismatches, 0);
    let recorded: Vec<(String, String, String, String)> =
        sqlx::query_as("SELECT command, operator, reason, detail FROM read_model.operations")
            .fetch_all(pool)
            .await
            .unwrap();
    let texts = ["verify --repair", "ada", "tried", "1 row repaired"];
    let [command, operator, reason, detail] = texts.map(str::to_owned);
    assert_eq!(recorded, [(command, operator, reason, detail)]);
}

#[tokio::test]
async fn repair_is_refused_during_a_rebuild() {
    let fixture = set_up().await;
    let pool = fixture.database.pool();
    rebuild_all(&sessions(&fixture), NO_SWAP).await;
    damage(
        pool,
        "UPDATE read_model.links SET destination_url = 'x'
         WHERE slug = 'first-1X' AND generation = 2",
    )
    .await;
    raw_sql(
        "INSERT INTO read_model.operations (command, projection, operator)
         VALUES ('rebuild', 'links', 'eve')",
    )
    .execute(pool)
    .await
    .unwrap();
    let _rebuild = run_elsewhere(pool, "links").await;
    let refused = run(&fixture, &["links", "--repair"]).await;
    let error = stderr(&refused);
    assert!(error.contains("`rebuild links` by eve"), "{error}");

    let end = "UPDATE read_model.operations SET finished_at = now(), outcome = 'done'";
    let mut tx = PoolTransaction::begin(pool).await.unwrap();
    raw_sql(EXCHANGE).execute(&mut *tx).await.unwrap();
    raw_sql(end).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    let repaired = run(&fixture, &["links", "--repair", "--json"]).await;
    assert!(repaired.status.success(), "{}", stderr(&repaired));
    let json: Value = serde_json::from_slice(&repaired.stdout).unwrap();
    let of_links = &json["projections"][0];
    assert_eq!(
        (&of_links["generation"], &of_links["mismatches"]),
        (&2.into(), &1.into())
    );
}

#[tokio::test]
async fn repair_is_recorded_by_projection() {
    let fixture = set_up().await;
    let pool = fixture.database.pool();
    damage(
        pool,
        "UPDATE read_model.credit_entries SET balance_after = balance_after + 1
         WHERE entry_id = (SELECT entry_id FROM read_model.credit_entries
                           WHERE version = 2 ORDER BY account_id LIMIT 1)",
    )
    .await;
    let planned = stdout(&run(&fixture, &["credits", "--repair", "--dry-run"]).await);
    let repaired = stdout(&run(&fixture, &["--repair"]).await);
    let (_, planned) = planned.split_once("Would repair ").unwrap();
    let (_, repaired) = repaired.split_once("Repaired: ").unwrap();
    let (planned, _) = planned.split_once(';').unwrap();
    let (repaired, _) = repaired.split_once(';').unwrap();
    assert_eq!(planned, repaired);
    let recorded: Vec<(String, String)> =
        sqlx::query_as("SELECT projection, detail FROM read_model.operations ORDER BY projection")
            .fetch_all(pool)
            .await
            .unwrap();
    let credits = format!("{repaired} repaired");
    let expected = Projection::ALL.map(|projection| {
        let is_repaired = projection == Projection::Credits;
        let detail = if is_repaired {
            credits.as_str()
        } else {
            "nothing was wrong"
        };
        (projection.to_string(), detail.to_owned())
    });
    assert_eq!(recorded, expected);
}
