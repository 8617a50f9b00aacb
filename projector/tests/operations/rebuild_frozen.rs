//! Rebuild by a process that freezes while another one finishes: the frozen process swaps nothing.

use std::{
    process::{Output, Stdio},
    sync::Arc,
};

use linkledger_projector::{
    operations::{
        audit,
        rebuild::{
            self,
            generation::{self, GenerationPhase},
        },
    },
    progress::ProgressReport,
    read_models::Projection,
};
use linkledger_testing::eventually;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use sqlx::PgPool;
use tokio::process::{Child, Command};

use crate::{
    fixture::Fixture,
    rebuild::{TO_SWAP, append_one_of_each, phases, sessions},
};

async fn served_fixture() -> Fixture {
    let fixture = Fixture::new().await;
    append_one_of_each(&fixture, "before").await;
    fixture.apply_log().await;
    fixture
}

fn rebuild_of(fixture: &Fixture, which: &str, stop_at: Option<&str>) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_projector"));
    command
        .args(["rebuild", which])
        .env("DATABASE_URL", fixture.database.url())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if let Some(stop_at) = stop_at {
        command.env("LINKLEDGER_STOP_AT", stop_at);
    }
    command.spawn().unwrap()
}

async fn stopped(child: &Child) -> Pid {
    let pid = child.id().unwrap();
    eventually("it stands still", async || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.contains(") T ").then_some(())
    })
    .await;
    Pid::from_raw(pid.cast_signed())
}

/// Waits until Postgres ends the session that proves the command alive.
async fn session_ended(pool: &PgPool) {
    let locks = async || {
        let locks = sqlx::query_scalar::<_, i64>(
            "SELECT count(*) FROM pg_locks
             WHERE locktype = 'advisory' AND objsubid = 2
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        );
        locks.fetch_one(pool).await.unwrap()
    };
    assert!(locks().await <= 1);
    eventually("the session of the frozen command has ended", async || {
        (locks().await == 0).then_some(())
    })
    .await;
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn frozen_rebuild_keeps_generation_finished_by_another() {
    for (round, stop_at) in ["rebuild.loaded:1", "rebuild.verified:1"]
        .into_iter()
        .enumerate()
    {
        let fixture = served_fixture().await;
        let pool = fixture.database.pool();
        let frozen = rebuild_of(&fixture, "links", Some(stop_at));
        let pid = stopped(&frozen).await;
        session_ended(pool).await;
        let second = rebuild_of(&fixture, "links", None)
            .wait_with_output()
            .await
            .unwrap();
        assert!(second.status.success(), "{round}: {}", stderr(&second));
        kill(pid, Signal::SIGCONT).unwrap();
        let first = frozen.wait_with_output().await.unwrap();
        assert!(!first.status.success(), "{stop_at}");
        let expected = [(1, GenerationPhase::Standby), (2, GenerationPhase::Active)];
        assert_eq!(phases(pool, Projection::Links).await, expected, "{stop_at}");
        // The next rebuild makes a new generation.
        let third = rebuild_of(&fixture, "links", None)
            .wait_with_output()
            .await
            .unwrap();
        assert!(third.status.success(), "{}", stderr(&third));
        let active = generation::active(pool, Projection::Links).await;
        assert_eq!(active.unwrap(), 3, "{stop_at}");
    }
}

#[tokio::test]
async fn finished_generation_enters_no_build_phase() {
    let fixture = served_fixture().await;
    let pool = sessions(&fixture);
    let progress = Arc::new(ProgressReport::silent());
    rebuild::rebuild(
        &pool.clone().into(),
        &[Projection::Links],
        TO_SWAP,
        progress,
    )
    .await
    .unwrap();
    for number in [1, 2] {
        let late =
            generation::enter(&pool, Projection::Links, number, GenerationPhase::Ready).await;
        let text = format!("{:#}", late.unwrap_err());
        assert!(text.contains("is no longer built"), "{text}");
    }
    let expected = [(1, GenerationPhase::Standby), (2, GenerationPhase::Active)];
    assert_eq!(phases(&pool, Projection::Links).await, expected);
}

#[tokio::test]
async fn superseded_command_swaps_nothing() {
    let fixture = served_fixture().await;
    let pool = sessions(&fixture);
    let command = audit::OperatorCommand {
        name: "rebuild",
        projections: &[Projection::Links],
        subject: None,
        operator: "ada",
        reason: None,
    };
    let work = Box::pin(async {
        sqlx::query(
            "UPDATE read_model.operations SET finished_at = now(), outcome = 'interrupted',
                                              detail = 'its process has died'",
        )
        .execute(fixture.database.pool())
        .await?;
        let progress = Arc::new(ProgressReport::silent());
        rebuild::rebuild(
            &pool.clone().into(),
            &[Projection::Links],
            TO_SWAP,
            progress,
        )
        .await
    });
    let held = audit::hold(&pool, &command, work, |_, _| {
        (audit::OperationOutcome::Done, "swapped".to_owned())
    })
    .await;
    let held = held.unwrap_err().to_string();
    assert!(held.starts_with("this command lost its session"), "{held}");
    let active = generation::active(&pool, Projection::Links).await;
    assert_eq!(active.unwrap(), 1);
}

#[tokio::test]
async fn interrupted_rebuild_names_the_generations_served() {
    let fixture = served_fixture().await;
    let rebuild = rebuild_of(&fixture, "--all", Some("swap.committed:1"));
    let pid = stopped(&rebuild).await;
    kill(pid, Signal::SIGTERM).unwrap();
    kill(pid, Signal::SIGCONT).unwrap();
    let ended = rebuild.wait_with_output().await.unwrap();
    let text = stderr(&ended);
    assert!(!ended.status.success(), "{text}");
    assert!(
        text.contains("served already: generation 2 of `credits`; run the command again for"),
        "{text}"
    );
    assert!(!text.contains("generation 2 of `links`;"), "{text}");
}
