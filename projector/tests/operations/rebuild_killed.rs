//! A rebuild, a rollback or a drop that is killed at any step: the served generation stays whole, and
//! the same command finishes the work.

use std::{
    os::unix::process::ExitStatusExt as _,
    process::{Output, Stdio},
};

use linkledger_projector::{
    operations::{
        rebuild::generation::{self, GenerationPhase},
        verify::{self, GenerationTarget},
    },
    read_models::Projection,
};
use linkledger_testing::{in_all, in_all_but, record};
use sqlx::PgPool;
use tokio::process::Command;

use crate::{fixture::Fixture, rebuild::append_one_of_each, tables::Tables};

const SIGKILL: i32 = 9;
/// Some chunks in each shard with events.
const LINKS: usize = 120;
const MAX_RATE: &str = "2000";

/// Runs the command as an operator does; the process dies at `fail_at`, for example `swap.written:1`.
async fn projector(fixture: &Fixture, arguments: &[&str], fail_at: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_projector"));
    command
        .args(arguments)
        .env("DATABASE_URL", fixture.database.url())
        .stdin(Stdio::null());
    record::logs_of(command.as_std_mut(), "rebuild");
    if let Some(fail_at) = fail_at {
        command.env("LINKLEDGER_FAIL_AT", fail_at);
    }
    command.output().await.unwrap()
}

async fn dies(fixture: &Fixture, arguments: &[&str], fail_at: &str) {
    let output = projector(fixture, arguments, Some(fail_at)).await;
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(SIGKILL), "{fail_at}: {text}");
    assert_served_is_whole(fixture.database.pool(), fail_at).await;
}

async fn succeeds(fixture: &Fixture, arguments: &[&str]) -> String {
    let output = projector(fixture, arguments, None).await;
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {text}");
    String::from_utf8(output.stdout).unwrap()
}

/// Checks that every row of the served generations matches the log.
async fn assert_served_is_whole(pool: &PgPool, when: &str) {
    for projection in Projection::ALL {
        let target = GenerationTarget {
            projection,
            generation: generation::active(pool, projection).await.unwrap(),
        };
        let verified = verify::verify_generation(&pool.clone().into(), target, &|_| ())
            .await
            .unwrap();
        assert!(verified.findings.is_empty(), "{when}: {verified:?}");
        let not_live: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM read_model.checkpoints
             WHERE projection = $1 AND (role = 'live') <> (generation = $2)",
        )
        .bind(projection.name())
        .bind(target.generation)
        .fetch_one(pool)
        .await
        .unwrap();
        assert_eq!(
            not_live, 0,
            "{when}: `{projection}` has one live generation"
        );
    }
}

async fn served(pool: &PgPool) -> Vec<i32> {
    let mut served = Vec::new();
    for projection in Projection::ALL {
        served.push(generation::active(pool, projection).await.unwrap());
    }
    served
}

#[tokio::test]
async fn killed_rebuild_is_finished_by_the_same_command() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    append_one_of_each(&fixture, "before").await;
    fixture.account_with_links("many", LINKS).await;
    fixture.apply_log().await;
    let rebuild = ["rebuild", "--all", "--max-rate", MAX_RATE];
    for fail_at in [
        "rebuild.created:2",
        "rebuild.chunk:1",
        "rebuild.chunk:2",
        "rebuild.loaded:1",
        "rebuild.verified:1",
        "swap.locked:1",
        "swap.written:1",
    ] {
        dies(&fixture, &rebuild, fail_at).await;
        assert_eq!(served(pool).await, in_all(1), "{fail_at}");
        // The projector continues meanwhile.
        fixture
            .account_with_links(&fail_at.replace(['.', ':'], ""), 1)
            .await;
        fixture.apply_log().await;
    }
    dies(&fixture, &rebuild, "swap.committed:1").await;
    let [first, second, ..] = Projection::ALL;
    let expected = in_all_but(1, [(first, 2)]);
    assert_eq!(served(pool).await, expected);
    dies(&fixture, &rebuild, "swap.committed:2").await;
    let expected = in_all_but(1, [(first, 3), (second, 2)]);
    assert_eq!(served(pool).await, expected);
    succeeds(&fixture, &["rebuild", "redirects"]).await;
    let expected = in_all_but(1, [(first, 3), (second, 2), (Projection::Redirects, 2)]);
    assert_eq!(served(pool).await, expected);
    assert_served_is_whole(pool, "at last").await;
    let tables = Tables::of_log(&fixture.log().await);
    let mut followers = fixture.followers();
    followers.cycle(fixture.log().await).await.unwrap();
    let of_links = served(pool).await[Projection::Links.index()];
    let read = Tables::read_generation(pool, of_links).await;
    assert_eq!(read.links, tables.links);
}

#[tokio::test]
async fn killed_rollback_and_drop_are_finished_by_repetition() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    append_one_of_each(&fixture, "before").await;
    fixture.apply_log().await;
    succeeds(&fixture, &["rebuild", "redirects"]).await;
    append_one_of_each(&fixture, "after").await;
    fixture.apply_log().await;
    fixture.account_with_links("many", 2 * LINKS).await;
    fixture.apply_log().await;
    let rollback = ["rollback", "redirects", "--max-rate", MAX_RATE];
    for fail_at in [
        // More than one chunk for each account: a low rate makes short chunks.
        "rebuild.chunk:4",
        "rebuild.verified:1",
        "swap.locked:1",
        "swap.written:1",
    ] {
        dies(&fixture, &rollback, fail_at).await;
        let expected = in_all_but(1, [(Projection::Redirects, 2)]);
        assert_eq!(served(pool).await, expected, "{fail_at}");
    }
    dies(&fixture, &["rollback", "redirects"], "swap.committed:1").await;
    assert_eq!(served(pool).await, in_all(1));

    // Two generations are served in turn.
    succeeds(&fixture, &["rollback", "redirects"]).await;
    succeeds(&fixture, &["rollback", "redirects"]).await;
    let drop = ["drop", "redirects", "2"];
    let output = projector(&fixture, &drop, None).await;
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && text.contains("try again in"),
        "{text}"
    );
    let output = projector(&fixture, &["drop", "redirects", "1"], None).await;
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && text.contains("is served"),
        "{text}"
    );
    sqlx::query("UPDATE read_model.generations SET last_active_at = now() - interval '61 s'")
        .execute(pool)
        .await
        .unwrap();
    for step in 1..=3 {
        dies(&fixture, &drop, "drop.step:1").await;
        let known = generation::list(pool, Projection::Redirects).await.unwrap();
        assert_eq!(known[1].phase, GenerationPhase::Dropping, "{step}");
        let output = projector(&fixture, &["rollback", "redirects"], None).await;
        assert!(
            !output.status.success(),
            "what is half dropped is not served"
        );
    }
    succeeds(&fixture, &drop).await;
    let known = generation::list(pool, Projection::Redirects).await.unwrap();
    assert_eq!(known.len(), 1);
    let left: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_class WHERE relname IN ('redirects_2', 'stopped_accounts_2')",
    )
    .fetch_one(pool)
    .await
    .unwrap();
    assert_eq!(left, 0);
    assert_served_is_whole(pool, "at last").await;
    assert!(Tables::read(pool).await == Tables::of_log(&fixture.log().await));
}
