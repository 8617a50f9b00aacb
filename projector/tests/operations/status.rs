//! Report of `projector status` on projections, relay and snapshots.

use std::process::Output;

use linkledger_core::{event::Subject, id::LinkId, shard::Shard};
use linkledger_event_store::SessionKind;
use linkledger_projector::{
    operations::{
        pause::{self, FollowerName, PauseChange},
        status::{
            StatusReport, collect,
            projection::{ProjectionState, ProjectionStatus},
        },
        verify::subject::{VerifiedSubject, verify},
    },
    read_models::Projection,
};
use linkledger_service::databases::Databases;
use linkledger_testing::{TestDatabase, eventually};
use sqlx::{Connection as _, PgConnection, PgPool, postgres::PgPoolOptions, raw_sql};

use crate::{
    fixture::Fixture,
    operation::run_elsewhere,
    poisoned::{paint, restore, rewrite},
    process::{self, stdout},
    verified::first_generation,
};

const ROLES: &str = include_str!("../../../deploy/postgres/roles.sql");

pub(crate) async fn run(database: &TestDatabase, arguments: &[&str]) -> Output {
    process::run(database, &[&["status"][..], arguments].concat()).await
}

fn of<'a>(status: &'a StatusReport, projection: &str) -> &'a ProjectionStatus {
    let mut projections = status.projections.iter();
    projections.find(|it| it.projection == projection).unwrap()
}

async fn execute(pool: &PgPool, statement: &'static str) {
    raw_sql(statement).execute(pool).await.unwrap();
}

/// Claims every shard, as a projector would.
pub(crate) async fn attend(pool: &PgPool) {
    execute(
        pool,
        "UPDATE read_model.claims
         SET owner = 'here', version = '1.2.3', renewed_at = now() + interval '1 hour',
             events_per_second = '{\"links\": 2}'",
    )
    .await;
}

/// Returns the findings without those on snapshots: other tests hold snapshots on the same server.
fn findings(status: &StatusReport) -> Vec<&str> {
    let findings = status.findings.iter().map(String::as_str);
    findings.filter(|it| !it.contains("snapshot")).collect()
}

#[tokio::test]
async fn shard_is_live_or_catching_up_by_lag() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    attend(pool).await;
    let account_id = fixture.account_with_links("waiting", 2).await;
    let shard = Shard::of(account_id);
    // An event of this moment would not count as lag.
    let first = "recorded_at = recorded_at - interval '1 minute'";
    rewrite(pool, shard, 1, first).await;
    // The read tables are older than the event.
    execute(
        pool,
        "UPDATE read_model._sqlx_migrations SET installed_on = installed_on - interval '1 hour'",
    )
    .await;

    let status = collect(&pool.clone().into()).await.unwrap();
    for projection in &status.projections {
        assert_eq!(projection.state, ProjectionState::CatchingUp);
        assert_eq!((projection.position, projection.head), (0, 5));
        assert_eq!(projection.lag_events, 5);
        assert!((60.0..90.0).contains(&projection.lag_seconds));
        for it in &projection.shards {
            let expected = if it.shard == shard.number() {
                (ProjectionState::CatchingUp, 5)
            } else {
                (ProjectionState::Live, 0)
            };
            assert_eq!((it.state, it.lag_events), expected);
        }
    }
    assert_eq!(findings(&status), Vec::<&str>::new());

    fixture.apply_log().await;
    let status = collect(&pool.clone().into()).await.unwrap();
    for projection in &status.projections {
        assert_eq!(projection.state, ProjectionState::Live);
        assert_eq!((projection.position, projection.lag_events), (5, 0));
        assert!(projection.lag_seconds.abs() < f64::EPSILON);
    }
}

#[tokio::test]
async fn checkpoint_of_another_log_is_refused() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    attend(pool).await;
    execute(
        pool,
        "UPDATE read_model.checkpoints SET position = 7 WHERE projection = 'links' AND shard = 3;
         UPDATE read_model.checkpoints SET epoch = 9 WHERE projection = 'credits'",
    )
    .await;
    let status = collect(&pool.clone().into()).await.unwrap();
    assert_eq!(of(&status, "links").state, ProjectionState::Refused);
    assert_eq!(of(&status, "links").shards[4].state, ProjectionState::Live);
    assert_eq!(of(&status, "redirects").state, ProjectionState::Live);
    assert_eq!(
        findings(&status),
        [
            "credits is of log epoch 9, and the log is of epoch 1, in shard 0 and 15 more: it was \
             not made from this log: `projector rebuild --all` (docs/operations.md, \"The log was \
             restored\")",
            "links is at position 7 of a log that ends at 0, in shard 3: it was not made from this \
             log: `projector rebuild --all` (docs/operations.md, \"The log was restored\")",
        ]
    );
}

#[tokio::test]
async fn parked_account_counts_until_released() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    attend(pool).await;
    fixture.account_with_links("parked", 2).await;
    let log = fixture.log().await;
    paint(pool, &log[1]).await;
    fixture.apply_log().await;
    let status = collect(&pool.clone().into()).await.unwrap();
    assert_eq!(of(&status, "links").parked_accounts, 1);
    assert_eq!(of(&status, "links").state, ProjectionState::Parked);
    assert!(findings(&status).contains(&"an account is parked in links: `projector parked list`"));

    let checked = run(&fixture.database, &["--check"]).await;
    assert_eq!(checked.status.code(), Some(1));
    assert!(stdout(&checked).contains("! an account is parked in links"));
    assert!(run(&fixture.database, &[]).await.status.success());

    restore(pool, &log[1]).await;
    linkledger_projector::operations::parked::retry(&pool.clone().into(), None)
        .await
        .unwrap();
    let status = collect(&pool.clone().into()).await.unwrap();
    assert_eq!(of(&status, "links").state, ProjectionState::Live);
    assert_eq!(findings(&status), Vec::<&str>::new());
}

#[tokio::test]
async fn shard_without_renewed_claim_is_unattended() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let status = collect(&pool.clone().into()).await.unwrap();
    assert_eq!(of(&status, "links").state, ProjectionState::Unattended);
    let never = "no projector owns links in shard 0 and 15 more: no projector has ever run";
    assert!(findings(&status).contains(&never), "{:?}", status.findings);

    attend(pool).await;
    let links = collect(&pool.clone().into()).await.unwrap();
    let links = of(&links, "links");
    assert_eq!(links.state, ProjectionState::Live);
    assert_eq!(links.shards[7].owner.as_deref(), Some("here"));
    assert_eq!(links.shards[7].version.as_deref(), Some("1.2.3"));
    assert!((links.events_per_second - 32.0).abs() < f64::EPSILON);

    execute(
        pool,
        "UPDATE read_model.claims
         SET renewed_at = now() - interval '6 seconds', last_error_at = now() - interval '10 minutes',
             last_error = 'can''t reach the database'
         WHERE shard = 7",
    )
    .await;
    let status = collect(&pool.clone().into()).await.unwrap();
    let shard = &of(&status, "links").shards[7];
    assert_eq!(shard.state, ProjectionState::Unattended);
    assert_eq!(shard.events_per_second, None);
    let silent = "no projector owns links in shard 7: `here` renewed its claim";
    let is_told = findings(&status).iter().any(|it| it.starts_with(silent));
    assert!(is_told, "{:?}", status.findings);
    let text = stdout(&run(&database, &[]).await);
    let error = "last error, 10 min ago, in shard 7: can't reach the database";
    assert!(text.contains(error), "{text}");
    assert!(
        text.contains("projectors: here (1.2.3, 15 shards)"),
        "{text}"
    );
}

#[tokio::test]
async fn status_shows_pauses_and_running_commands() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    attend(pool).await;
    execute(
        pool,
        "UPDATE read_model.checkpoints SET paused_at = '2026-11-20T12:00:00Z'
         WHERE projection = 'links';
         INSERT INTO read_model.operations (command, projection, operator, reason, started_at)
         VALUES ('rebuild', 'credits', 'ann@ops', 'ticket 7', '2026-11-20T11:00:00Z'),
                ('verify', 'links', 'bob@ops', NULL, now())",
    )
    .await;
    let _rebuild = run_elsewhere(pool, "credits").await;
    let status = collect(&pool.clone().into()).await.unwrap();
    assert_eq!(of(&status, "links").state, ProjectionState::Paused);
    assert_eq!(
        findings(&status),
        [
            "links has been paused since 2026-11-20T12:00:00.000Z: `projector resume links`",
            "`verify links` by bob@ops died before its end: run the command again",
        ]
    );
    // An earlier pause was by somebody else; its end is recorded.
    let (links, nobody) = (&[FollowerName::Links], None);
    let changes = [
        (PauseChange::Resume, "bob@ops", nobody),
        (
            PauseChange::Pause,
            "ann@ops",
            Some("ticket 8: the disk is full"),
        ),
    ];
    for (change, operator, reason) in changes {
        pause::change(pool, links, change, operator, reason)
            .await
            .unwrap();
    }
    let status = collect(&pool.clone().into()).await.unwrap();
    let paused = findings(&status)[0];
    assert!(
        paused.ends_with(" by ann@ops (ticket 8: the disk is full): `projector resume links`"),
        "{paused}"
    );
    let json = serde_json::to_value(of(&status, "links")).unwrap();
    assert_eq!(json["paused_by"]["operator"], "ann@ops");
    assert_eq!(of(&status, "credits").paused_by, None);

    let text = stdout(&run(&database, &[]).await);
    let running = "running: rebuild credits, by ann@ops since 2026-11-20T11:00:00.000Z: ticket 7";
    assert!(text.contains(running), "{text}");
    assert!(!text.contains("running: verify links"), "{text}");
}

#[tokio::test]
async fn unused_generation_may_be_dropped() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    fixture.account_with_links("built", 1).await;
    execute(
        pool,
        "SELECT read_model.create_generation('links', 2, 1);
         SELECT read_model.create_generation('credits', 2, 1);
         UPDATE read_model.checkpoints SET position = 1
         WHERE generation = 2 AND shard IN (SELECT shard FROM event_store.events);
         INSERT INTO read_model.operations (command, projection, operator)
         VALUES ('rebuild', 'credits', 'ann@ops');
         UPDATE read_model.generations SET phase = 'standby',
             last_active_at = now() - interval '30 seconds'
         WHERE projection = 'links' AND generation = 2",
    )
    .await;
    let mut rebuild = run_elsewhere(pool, "credits").await;
    let droppable = async || {
        let status = collect(&pool.clone().into()).await.unwrap();
        let generations = status.projections.into_iter().flat_map(|it| it.generations);
        let droppable = generations.filter(|it| it.may_be_dropped);
        droppable
            .map(|it| (it.projection, it.generation))
            .collect::<Vec<_>>()
    };
    assert_eq!(droppable().await, []);
    let text = stdout(&run(&fixture.database, &[]).await);
    let building = "generation 2 of credits: loading, 1 of 3 events\n";
    assert!(text.contains(building), "{text}");
    let unlock = raw_sql("SELECT pg_advisory_unlock_all()");
    unlock.execute(&mut rebuild).await.unwrap();
    execute(
        pool,
        "UPDATE read_model.generations SET last_active_at = now() - interval '61 seconds'
         WHERE last_active_at IS NOT NULL",
    )
    .await;
    let both = [("credits".to_owned(), 2), ("links".to_owned(), 2)];
    assert_eq!(droppable().await, both);
    let text = stdout(&run(&fixture.database, &[]).await);
    for hint in [
        "standby, 1 of 3 events; `projector rollback links` serves generation 2 again; `projector drop links 2` \
         removes generation 2\n",
        "loading, 1 of 3 events; no command works on generation 2: `projector rebuild credits` continues, \
         `projector drop credits 2` removes the generation\n",
    ] {
        assert!(text.contains(hint), "{text}");
    }
}

#[tokio::test]
async fn status_shows_relay_backlog_and_refusal() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let account_id = fixture.account_with_links("backlog", 1).await;
    execute(
        pool,
        "UPDATE event_store.relay_cursors
         SET paused_at = now(), paused_by = 'ann@ops', pause_reason = 'ticket 9', refusal = 'no such topic'",
    )
    .await;
    let relay = collect(&pool.clone().into()).await.unwrap().relay;
    assert_eq!(relay.backlog_events, 3);
    let shard = &relay.shards[Shard::of(account_id).index()];
    assert_eq!(
        (shard.position, shard.head, shard.backlog_events),
        (0, 3, 3)
    );
    let text = stdout(&run(&fixture.database, &[]).await);
    assert!(text.contains("relay: 3 events to publish"), "{text}");
    let paused = "! the relay is paused by ann@ops (ticket 9): `command-api relay resume`";
    assert!(text.contains(paused), "{text}");
    assert!(text.contains("! the relay publishes nothing: no such topic"));
}

#[tokio::test]
async fn status_names_holder_of_the_oldest_snapshot() {
    let database = TestDatabase::create().await;
    let mut session = PgConnection::connect(database.url()).await.unwrap();
    raw_sql(
        "SET application_name = 'a long report';
         BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM event_store.events",
    )
    .execute(&mut session)
    .await
    .unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(&mut session)
        .await
        .unwrap();
    let held = eventually("it is too old", async || {
        let status = collect(&database.pool().clone().into()).await.unwrap();
        let oldest = status.snapshots.oldest.clone()?;
        (oldest.pid == Some(pid) && oldest.age_seconds > 1.0).then_some(status)
    })
    .await;
    let snapshots = &held.snapshots;
    let oldest = snapshots.oldest.as_ref().unwrap();
    assert!(snapshots.is_complete);
    assert_eq!(oldest.application_name, "a long report");
    assert_eq!(oldest.state, "idle in transaction");

    session.close().await.unwrap();
    eventually("it is held no longer", async || {
        let oldest = collect(&database.pool().clone().into())
            .await
            .unwrap()
            .snapshots
            .oldest;
        oldest.is_none_or(|it| it.pid != Some(pid)).then_some(())
    })
    .await;
}

/// Returns sessions with the rights of a role.
async fn databases_as(role: &str, fixture: &Fixture) -> Databases {
    raw_sql(ROLES)
        .execute(fixture.database.pool())
        .await
        .unwrap();
    let url = fixture.database.url();
    let options = linkledger_event_store::session_options(url, SessionKind::Writer).unwrap();
    let pool = PgPoolOptions::new().connect_lazy_with(options.options([("role", role)]));
    Databases::from(pool)
}

#[tokio::test]
async fn operator_and_projector_grants_suffice_for_status() {
    let fixture = Fixture::new().await;
    fixture.account_with_links("seen", 1).await;
    fixture.apply_log().await;
    for role in ["linkledger_operator", "linkledger_projector"] {
        let databases = databases_as(role, &fixture).await;
        let status = collect(&databases).await.unwrap();
        assert!(status.snapshots.is_complete);
    }
}

#[tokio::test]
async fn operator_grants_suffice_for_the_comparison_of_a_subject() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("seen", 1).await;
    fixture.apply_log().await;
    let link_id = LinkId::from_uuid(fixture.log().await[1].event.stream_id);
    let databases = databases_as("linkledger_operator", &fixture).await;
    for subject in [Subject::Account(account_id), Subject::Link(link_id)] {
        let subject = VerifiedSubject::find(&databases.log, subject).await;
        let subject = subject.unwrap();
        for target in Projection::ALL.map(first_generation) {
            verify(&databases, target, &subject).await.unwrap();
        }
    }
}
