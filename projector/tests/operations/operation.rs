//! Commands of operators: each is recorded, and no two long commands change a projection at once.

use std::future;

use linkledger_event_store::transaction::PoolTransaction;
use linkledger_projector::{
    operations::audit::{self, OperationOutcome, OperatorCommand, report::last_commands},
    read_models::Projection,
};
use linkledger_testing::{TestDatabase, eventually};
use sqlx::{ConnectOptions as _, PgConnection, PgPool, Row as _};
use tokio::sync::Notify;

const REBUILD: OperatorCommand<'static> = OperatorCommand {
    name: "rebuild",
    projections: &[Projection::Links, Projection::Credits],
    subject: None,
    operator: "ada",
    reason: Some("a defect is mended"),
};
const DROP: OperatorCommand<'static> = OperatorCommand {
    name: "drop",
    projections: &[Projection::Links],
    subject: Some("generation 3"),
    operator: "grace",
    reason: None,
};

/// Returns command, projection, operator, reason, outcome and detail of each row, oldest first.
async fn recorded(pool: &PgPool) -> Vec<[Option<String>; 6]> {
    let rows = sqlx::query(
        "SELECT command, projection, operator, reason, outcome, detail
         FROM read_model.operations ORDER BY operation_id",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    let columns = |row: &sqlx::postgres::PgRow| std::array::from_fn(|column| row.get(column));
    rows.iter().map(columns).collect()
}

async fn outcomes(pool: &PgPool) -> Vec<Option<String>> {
    let recorded = recorded(pool).await.into_iter();
    recorded.map(|[.., outcome, _]| outcome).collect()
}

async fn is_recorded(pool: &PgPool, rows: usize) {
    eventually("the command is recorded", async || {
        (recorded(pool).await.len() == rows).then_some(())
    })
    .await;
}

fn texts<const N: usize>(texts: [&str; N]) -> [Option<String>; N] {
    texts.map(|text| (!text.is_empty()).then(|| text.to_owned()))
}

fn nothing() -> (OperationOutcome, String) {
    (OperationOutcome::Done, String::new())
}

/// Runs a long command that succeeds at once.
async fn run(pool: &PgPool, command: &OperatorCommand<'_>) -> anyhow::Result<()> {
    audit::hold(pool, command, async { Ok(()) }, |(), _| nothing()).await
}

/// Runs a long command that succeeds after a notification.
async fn run_until(
    pool: &PgPool,
    command: &OperatorCommand<'_>,
    end: &Notify,
) -> anyhow::Result<()> {
    let work = async {
        end.notified().await;
        Ok(())
    };
    audit::hold(pool, command, work, |(), _| nothing()).await
}

#[tokio::test]
async fn long_command_is_recorded_with_its_outcome() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let work = async { anyhow::Ok(7) };
    let done = audit::hold(pool, &REBUILD, work, |it, projection| {
        (
            OperationOutcome::Done,
            format!("{it} events of {projection}"),
        )
    })
    .await;
    assert_eq!(done.unwrap(), 7);
    let work = async { anyhow::bail!("no partition") };
    let failed = audit::hold(pool, &DROP, work, |(): &(), _| nothing()).await;
    assert_eq!(failed.unwrap_err().to_string(), "no partition");
    assert_eq!(
        recorded(pool).await,
        [
            texts([
                "rebuild",
                "credits",
                "ada",
                "a defect is mended",
                "done",
                "7 events of credits"
            ]),
            texts([
                "rebuild",
                "links",
                "ada",
                "a defect is mended",
                "done",
                "7 events of links"
            ]),
            texts(["drop", "links", "grace", "", "failed", "no partition"]),
        ]
    );
}

#[tokio::test]
async fn short_command_is_recorded_in_its_transaction() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let skip = OperatorCommand {
        name: "skip",
        projections: &[],
        subject: Some("acc_1"),
        ..DROP
    };
    for is_committed in [false, true] {
        let mut tx = PoolTransaction::begin(pool).await.unwrap();
        audit::record_in_tx(&mut tx, &skip, OperationOutcome::Done, "1 event")
            .await
            .unwrap();
        if is_committed {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
    }
    let expected = texts(["skip", "", "grace", "", "done", "1 event"]);
    assert_eq!(recorded(pool).await, [expected]);
}

#[tokio::test]
async fn second_command_is_refused_while_first_runs() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let end = Notify::new();
    let first = run_until(pool, &REBUILD, &end);
    let second = async {
        is_recorded(pool, 2).await;
        let work = async { anyhow::bail!("this must not be begun") };
        let refused = audit::hold(pool, &DROP, work, |(): &(), _| nothing()).await;
        assert_eq!(recorded(pool).await.len(), 2);
        end.notify_one();
        refused.unwrap_err()
    };
    let (first, refused) = tokio::join!(first, second);
    first.unwrap();
    let refused = refused.to_string();
    let other = "`rebuild links` by ada has been running since ";
    assert!(refused.starts_with(other), "{refused}");
    run(pool, &DROP).await.unwrap();
}

#[tokio::test]
async fn next_command_ends_the_record_of_a_dead_process() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let work = future::pending::<anyhow::Result<()>>();
    tokio::select! {
        ended = audit::hold(pool, &REBUILD, work, |(), _| nothing()) => ended.unwrap(),
        () = is_recorded(pool, 2) => {}
    }
    run(pool, &REBUILD).await.unwrap();
    let expected = ["interrupted", "interrupted", "done", "done"];
    assert_eq!(outcomes(pool).await, texts(expected));
}

#[tokio::test]
async fn superseded_command_ends_with_an_error() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let work = future::pending::<anyhow::Result<()>>();
    let first = audit::hold(pool, &DROP, work, |(), _| nothing());
    let second = async {
        is_recorded(pool, 1).await;
        let taken = sqlx::query(
            "UPDATE read_model.operations SET finished_at = now(), outcome = 'interrupted'",
        );
        taken.execute(pool).await.unwrap();
    };
    let (ended, ()) = tokio::join!(first, second);
    let ended = ended.unwrap_err().to_string();
    assert!(
        ended.starts_with("this command lost its session"),
        "{ended}"
    );
    assert_eq!(outcomes(pool).await, texts(["interrupted"]));
}

/// Returns the processes of Postgres whose sessions prove a command alive.
async fn sessions_of_commands(pool: &PgPool) -> Vec<i32> {
    let sessions = sqlx::query_scalar(
        "SELECT pid FROM pg_locks
         WHERE locktype = 'advisory' AND objsubid = 2
           AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    );
    sessions.fetch_all(pool).await.unwrap()
}

/// Locks the row of the unfinished command on a projection, as its process does. The command runs until the session
/// unlocks.
pub(crate) async fn run_elsewhere(pool: &PgPool, projection: &str) -> PgConnection {
    let mut session = pool.connect_options().connect().await.unwrap();
    let lock = sqlx::query(
        "SELECT pg_advisory_lock(1818980208, operation_id::integer) FROM read_model.operations
         WHERE finished_at IS NULL AND projection = $1",
    );
    let locked = lock.bind(projection).execute(&mut session).await.unwrap();
    assert_eq!(locked.rows_affected(), 1);
    session
}

#[tokio::test]
async fn running_command_replaces_a_lost_session() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let end = Notify::new();
    let running = run_until(pool, &DROP, &end);
    let disturbance = async {
        is_recorded(pool, 1).await;
        let [before] = sessions_of_commands(pool).await[..] else {
            panic!("a command has one session");
        };
        let terminated = sqlx::query("SELECT pg_terminate_backend($1)").bind(before);
        terminated.execute(pool).await.unwrap();
        eventually("the command has a new session", async || {
            let now = sessions_of_commands(pool).await;
            (now.len() == 1 && now[0] != before).then_some(())
        })
        .await;
        end.notify_one();
    };
    let (ended, ()) = tokio::join!(running, disturbance);
    ended.unwrap();
    assert_eq!(outcomes(pool).await, texts(["done"]));
}

/// Returns command and projection of each last command, and true if the command failed.
async fn last_of_each(pool: &PgPool) -> Vec<(String, String, bool)> {
    let last = last_commands(pool).await.unwrap().into_iter();
    last.map(|it| {
        let has_failed = it.has_failed();
        (it.command, it.projection.unwrap(), has_failed)
    })
    .collect()
}

#[tokio::test]
async fn failure_counts_until_success_or_a_day() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    assert_eq!(last_of_each(pool).await, []);
    let is_failed = |command: &str, projection: &str, is_failed: bool| {
        (command.to_owned(), projection.to_owned(), is_failed)
    };
    let fails = async || {
        let work = async { anyhow::bail!("no room") };
        audit::hold(pool, &REBUILD, work, |(): &(), _| nothing()).await
    };
    fails().await.unwrap_err();
    run(pool, &DROP).await.unwrap();
    let expected = [
        is_failed("rebuild", "credits", true),
        is_failed("drop", "links", false),
        is_failed("rebuild", "links", true),
    ];
    assert_eq!(last_of_each(pool).await, expected);

    run(pool, &REBUILD).await.unwrap();
    assert!(last_of_each(pool).await.iter().all(|(.., failed)| !failed));

    fails().await.unwrap_err();
    sqlx::query("UPDATE read_model.operations SET finished_at = finished_at - interval '25 hours'")
        .execute(pool)
        .await
        .unwrap();
    assert_eq!(last_of_each(pool).await, []);
}

#[tokio::test]
async fn command_of_a_dead_process_counts_as_failed() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    sqlx::query(
        "INSERT INTO read_model.operations (command, projection, operator)
         VALUES ('rebuild', 'links', 'ada'), ('rebuild', 'credits', 'ada')",
    )
    .execute(pool)
    .await
    .unwrap();
    let _session = run_elsewhere(pool, "credits").await;
    let failed: Vec<bool> = last_of_each(pool)
        .await
        .iter()
        .map(|(.., failed)| *failed)
        .collect();
    assert_eq!(failed, [false, true], "of credits and of links");
}
