//! Remedies in `projector status`: findings, and the generation for a rollback.

use linkledger_core::timestamp;
use linkledger_projector::{
    operations::{
        audit::{self, OperationOutcome},
        rebuild::rollback,
        status::{StatusReport, collect},
    },
    read_models::Projection,
};
use linkledger_testing::{TestBroker, TestDatabase};
use sqlx::{PgPool, raw_sql};

use crate::{
    fixture::Fixture,
    operation::run_elsewhere,
    process::{self, stdout},
    status::{attend, run},
};

async fn would_go_back(database: &TestDatabase) -> String {
    stdout(&process::run(database, &["rollback", "links", "--dry-run"]).await)
}

async fn execute(pool: &PgPool, statement: &'static str) {
    raw_sql(statement).execute(pool).await.unwrap();
}

/// Returns the findings without those on snapshots: other tests hold snapshots on the same server.
fn findings(status: &StatusReport) -> Vec<&str> {
    let findings = status.findings.iter().map(String::as_str);
    findings.filter(|it| !it.contains("snapshot")).collect()
}

#[tokio::test]
async fn wrong_rows_are_a_finding_until_verified_right() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    attend(pool).await;
    execute(
        pool,
        "INSERT INTO read_model.verifications (projection, generation, verified_at, mismatches)
         VALUES ('links', 1, '2026-11-20T12:00:00Z', 3),
                ('credits', 1, '2026-11-20T12:00:00Z', 0),
                ('redirects', 2, '2026-11-20T12:00:00Z', 1)",
    )
    .await;
    let status = collect(&pool.clone().into()).await.unwrap();
    let wrong = "3 rows of links are wrong, as verified at 2026-11-20T12:00:00.000Z: `projector \
                 verify links --repair`";
    assert_eq!(findings(&status), [wrong], "the generation that is read");
    let checked = run(&database, &["--check"]).await;
    assert_eq!(checked.status.code(), Some(1));
    let credits = status.narrowed_to(Projection::Credits);
    assert_eq!(findings(&credits), Vec::<&str>::new());

    execute(pool, "UPDATE read_model.verifications SET mismatches = 0").await;
    let status = collect(&pool.clone().into()).await.unwrap();
    assert_eq!(findings(&status), Vec::<&str>::new());
}

#[tokio::test]
async fn upgrade_is_a_finding_until_verified() {
    let fixture = Fixture::set_with(TestBroker::embedded()).await;
    let pool = fixture.database.pool();
    fixture.account_with_links("before", 1).await;
    attend(pool).await;
    let upgrade = "UPDATE read_model._sqlx_migrations SET installed_on = now()
                   WHERE version = (SELECT max(version) FROM read_model._sqlx_migrations)";
    execute(pool, upgrade).await;
    let status = collect(&pool.clone().into()).await.unwrap();
    let since = status.projections[0].unverified_since.clone().unwrap();
    let expected = |name: &str| {
        format!(
            "{name} was not verified since the upgrade of its tables at {since}: once no old \
             projector runs, `projector verify {name} --repair`"
        )
    };
    let all = Projection::ALL.map(|projection| expected(projection.name()));
    assert_eq!(findings(&status), all);

    execute(
        pool,
        "INSERT INTO read_model.verifications (projection, generation, mismatches)
         SELECT projection, 1, 0 FROM read_model.projections
         WHERE projection IN ('links', 'credits')",
    )
    .await;
    let status = collect(&pool.clone().into()).await.unwrap();
    assert_eq!(findings(&status), [expected("redirects")]);
}

#[tokio::test]
async fn failed_command_is_a_finding_until_success() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    attend(pool).await;
    let command = audit::OperatorCommand {
        name: "rollback",
        projections: &[Projection::Links],
        subject: None,
        operator: "ada",
        reason: None,
    };
    let fails = async { anyhow::bail!("no room") };
    let failed = audit::hold(pool, &command, fails, |(): &(), _| {
        (OperationOutcome::Done, String::new())
    })
    .await;
    failed.unwrap_err();
    let status = collect(&pool.clone().into()).await.unwrap();
    let at = timestamp::format(status.failed_operations[0].finished_at.unwrap());
    let expected = format!("the last `rollback links` failed at {at}: no room");
    assert_eq!(findings(&status), [expected]);
    let credits = status.narrowed_to(Projection::Credits);
    assert_eq!(findings(&credits), Vec::<&str>::new());

    let succeeds = async { anyhow::Ok(()) };
    let done = audit::hold(pool, &command, succeeds, |(), _| {
        (OperationOutcome::Done, String::new())
    })
    .await;
    done.unwrap();
    let status = collect(&pool.clone().into()).await.unwrap();
    assert_eq!(findings(&status), Vec::<&str>::new());
}

#[tokio::test]
async fn foreign_text_cannot_steer_the_terminal() {
    let database = TestDatabase::create().await;
    execute(
        database.pool(),
        r"INSERT INTO read_model.operations (command, projection, operator, reason)
         VALUES ('rebuild', 'links', 'ada', E'ticket\n! forged \x1b[2J'),
                ('rebuild', 'credits', E'eve\n! forged', NULL)",
    )
    .await;
    let _rebuild = run_elsewhere(database.pool(), "links").await;
    let text = stdout(&run(&database, &[]).await);
    assert!(text.contains("ticket\\n! forged"), "{text}");
    assert!(text.contains("by eve\\n! forged"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    let forged = text.lines().find(|line| line.starts_with("! forged"));
    assert_eq!(forged, None);
}

#[tokio::test]
async fn rollback_is_offered_for_one_generation_only() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    execute(
        pool,
        "SELECT read_model.create_generation('links', 2, 1);
         UPDATE read_model.generations SET phase = 'standby',
             last_active_at = now() - interval '1 hour' WHERE generation = 2;
         SELECT read_model.create_generation('links', 3, 1);
         UPDATE read_model.generations SET phase = 'standby',
             last_active_at = now() - interval '2 hours' WHERE generation = 3;
         UPDATE read_model.checkpoints SET role = 'standby' WHERE generation > 1",
    )
    .await;
    let offered = async || {
        let status = collect(&pool.clone().into()).await.unwrap();
        let generations = status.projections.into_iter().flat_map(|it| it.generations);
        let offered = generations.filter(|it| it.is_next_for_rollback);
        offered.map(|it| it.generation).collect::<Vec<_>>()
    };
    let planned = rollback::plan(&pool.clone().into(), Projection::Links)
        .await
        .unwrap();
    assert_eq!(planned.generation, 2, "it was read later than 3");
    assert_eq!(offered().await, [2]);
    assert!(would_go_back(&database).await.starts_with(
        "Would go back to generation 2 of `links`: read 0 events, verify it, and serve it in \
         place of generation 1"
    ));
    let text = stdout(&run(&database, &[]).await);
    for line in [
        "generation 2 of links: standby, 0 of 0 events; `projector rollback links` serves \
         generation 2 again; `projector drop links 2` removes generation 2\n",
        "generation 3 of links: standby, 0 of 0 events; `projector drop links 3` removes generation 3\n",
    ] {
        assert!(text.contains(line), "{text}");
    }

    execute(
        pool,
        "UPDATE read_model.checkpoints SET epoch = 0 WHERE generation = 2",
    )
    .await;
    rollback::plan(&pool.clone().into(), Projection::Links)
        .await
        .unwrap_err();
    assert_eq!(offered().await, Vec::<i32>::new());
}
