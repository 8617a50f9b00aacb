//! A rebuild recreates a read model from the log beside the served one, and swaps both.

use std::sync::Arc;

use linkledger_event_store::{SessionKind, transaction::PoolTransaction};
use linkledger_projector::{
    operations::rebuild::{
        self, CONNECTIONS_MAX, RebuildReport, RebuildSettings,
        generation::{self, GenerationPhase},
        plan, rollback,
    },
    progress::ProgressReport,
    read_models::Projection,
};
use linkledger_testing::eventually;
use sqlx::{PgPool, postgres::PgPoolOptions, raw_sql};

use crate::{
    events::{resumed, suspended},
    fixture::Fixture,
    poisoned::{paint, parkings},
    tables::Tables,
};

const ROLES: &str = include_str!("../../../deploy/postgres/roles.sql");

pub(crate) const TO_SWAP: RebuildSettings = RebuildSettings {
    max_rate: None,
    swap: true,
};
pub(crate) const NO_SWAP: RebuildSettings = RebuildSettings {
    swap: false,
    ..TO_SWAP
};

/// Sessions like those of the command.
pub(crate) fn sessions(fixture: &Fixture) -> PgPool {
    let url = fixture.database.url();
    linkledger_event_store::pool(url, SessionKind::Projector, CONNECTIONS_MAX).unwrap()
}

pub(crate) async fn rebuild_all(pool: &PgPool, settings: RebuildSettings) -> Vec<RebuildReport> {
    let progress = Arc::new(ProgressReport::silent());
    rebuild::rebuild(&pool.clone().into(), &Projection::ALL, settings, progress)
        .await
        .unwrap()
}

pub(crate) async fn rebuild_links(
    pool: &PgPool,
    settings: RebuildSettings,
) -> anyhow::Result<RebuildReport> {
    let progress = Arc::new(ProgressReport::silent());
    let rebuilt = rebuild::rebuild(
        &pool.clone().into(),
        &[Projection::Links],
        settings,
        progress,
    )
    .await?;
    Ok(rebuilt.into_iter().next().unwrap())
}

/// Appends every type of event to an account that ends suspended, and resumes another account.
pub(crate) async fn append_one_of_each(fixture: &Fixture, name: &str) {
    let account_id = fixture.account_with_links(name, 5).await;
    fixture.append_every_change(account_id, name).await;
    fixture
        .append(account_id, &[suspended(account_id, true)])
        .await;
    let other = fixture
        .account_with_links(&format!("{name}-other"), 1)
        .await;
    fixture
        .append(other, &[suspended(other, true), resumed(other)])
        .await;
}

pub(crate) async fn phases(pool: &PgPool, projection: Projection) -> Vec<(i32, GenerationPhase)> {
    let known = generation::list(pool, projection).await.unwrap();
    known.into_iter().map(|it| (it.number, it.phase)).collect()
}

#[tokio::test]
async fn rebuilt_generation_matches_log_and_follows_it() {
    let fixture = Fixture::new().await;
    append_one_of_each(&fixture, "before").await;
    let log = fixture.log().await;
    let mut followers = fixture.followers();
    followers.cycle(log.clone()).await.unwrap();

    let pool = sessions(&fixture);
    for rebuilt in rebuild_all(&pool, TO_SWAP).await {
        assert_eq!((rebuilt.generation, rebuilt.previous), (2, 1));
        assert!(rebuilt.served);
        assert_eq!(rebuilt.events, log.len() as u64);
        assert_eq!(rebuilt.verified_events, log.len() as u64);
    }
    assert_eq!(
        Tables::read_generation(&pool, 2).await,
        Tables::of_log(&log)
    );
    for projection in Projection::ALL {
        let expected = vec![(1, GenerationPhase::Standby), (2, GenerationPhase::Active)];
        assert_eq!(phases(&pool, projection).await, expected);
    }

    // The running followers continue with the new generation only.
    append_one_of_each(&fixture, "after").await;
    let longer = fixture.log().await;
    while Tables::read_generation(&pool, 2).await.checkpoints != Tables::of_log(&longer).checkpoints
    {
        followers.cycle(longer.clone()).await.unwrap();
    }
    assert_eq!(
        Tables::read_generation(&pool, 2).await,
        Tables::of_log(&longer)
    );
    assert_eq!(Tables::read(&pool).await, Tables::of_log(&log));

    // A rollback brings the previous generation up to date.
    for projection in Projection::ALL {
        let progress = Arc::new(ProgressReport::silent());
        let back = rollback::rollback(&pool.clone().into(), projection, None, progress)
            .await
            .unwrap();
        assert_eq!((back.generation, back.previous), (1, 2));
        assert_eq!(back.events, (longer.len() - log.len()) as u64);
    }
    assert_eq!(Tables::read(&pool).await, Tables::of_log(&longer));
}

#[tokio::test]
async fn same_command_swaps_generation_built_earlier() {
    let fixture = Fixture::new().await;
    append_one_of_each(&fixture, "before").await;
    let pool = sessions(&fixture);
    let log = fixture.log().await;
    let mut followers = fixture.followers();
    followers.cycle(log.clone()).await.unwrap();
    rebuild_all(&pool, NO_SWAP).await;
    let expected = vec![(1, GenerationPhase::Active), (2, GenerationPhase::Ready)];
    assert_eq!(phases(&pool, Projection::Links).await, expected);
    append_one_of_each(&fixture, "after").await;
    let longer = fixture.log().await;
    followers.cycle(longer.clone()).await.unwrap();
    let plan = plan::plan(&pool.clone().into(), Projection::Links)
        .await
        .unwrap();
    assert!(plan.is_begun);
    assert_eq!(plan.events, (longer.len() - log.len()) as u64);
    for rebuilt in rebuild_all(&pool, TO_SWAP).await {
        assert_eq!(rebuilt.events, plan.events);
    }
    assert_eq!(
        Tables::read_generation(&pool, 2).await,
        Tables::of_log(&longer)
    );
}

#[tokio::test]
async fn rebuild_without_projector_reaches_the_head() {
    let fixture = Fixture::new().await;
    append_one_of_each(&fixture, "before").await;
    let pool = sessions(&fixture);
    // No projector runs: the served generation does not move.
    rebuild_all(&pool, TO_SWAP).await;
    let log = fixture.log().await;
    assert_eq!(
        Tables::read_generation(&pool, 2).await,
        Tables::of_log(&log)
    );
}

#[tokio::test]
async fn rebuild_parks_unreadable_account_too() {
    let fixture = Fixture::new().await;
    append_one_of_each(&fixture, "before").await;
    let log = fixture.log().await;
    let unknown = &log[3];
    paint(fixture.database.pool(), unknown).await;
    let mut followers = fixture.followers();
    followers.cycle(fixture.log().await).await.unwrap();
    let account_id = unknown.event.account_id;
    let parked = parkings(fixture.database.pool(), account_id).await;
    assert_eq!(parked.len(), Projection::ALL.len());
    let pool = sessions(&fixture);
    rebuild_all(&pool, TO_SWAP).await;
    assert_eq!(parkings(&pool, account_id).await, parked);
    assert_eq!(
        Tables::read_generation(&pool, 2).await,
        Tables::read(&pool).await
    );
}

async fn corrupt(pool: &PgPool, generation: i32) {
    let statement = "UPDATE read_model.redirects SET destination_url = 'https://wrong.example/'
                     WHERE slug_key = 'before-3x' AND generation = $1";
    let done = sqlx::query(statement).bind(generation).execute(pool).await;
    assert_eq!(done.unwrap().rows_affected(), 1);
}

#[tokio::test]
async fn rebuild_replaces_wrong_generation() {
    let fixture = Fixture::new().await;
    append_one_of_each(&fixture, "before").await;
    let log = fixture.log().await;
    fixture.followers().cycle(log.clone()).await.unwrap();
    let pool = sessions(&fixture);
    corrupt(fixture.database.pool(), 1).await;
    let progress = Arc::new(ProgressReport::silent());
    let rebuilt = rebuild::rebuild(
        &pool.clone().into(),
        &[Projection::Redirects],
        TO_SWAP,
        progress,
    )
    .await
    .unwrap()
    .remove(0);
    assert!(rebuilt.served);
    assert_eq!(rebuilt.verified_events, log.len() as u64);

    // A rollback to the wrong generation is refused.
    let progress = Arc::new(ProgressReport::silent());
    let error = rollback::rollback(&pool.clone().into(), Projection::Redirects, None, progress)
        .await
        .unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("does not say what the log says"), "{text}");
    let active = generation::active(&pool, Projection::Redirects).await;
    assert_eq!(active.unwrap(), 2);
}

#[tokio::test]
async fn wrong_new_generation_is_not_served() {
    let fixture = Fixture::new().await;
    append_one_of_each(&fixture, "before").await;
    fixture.apply_log().await;
    let pool = sessions(&fixture);
    rebuild_all(&pool, NO_SWAP).await;
    corrupt(fixture.database.pool(), 2).await;
    let progress = Arc::new(ProgressReport::silent());
    let error = rebuild::rebuild(
        &pool.clone().into(),
        &[Projection::Redirects],
        TO_SWAP,
        progress,
    )
    .await
    .unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("does not say what the log says"), "{text}");
    let expected = vec![
        (1, GenerationPhase::Active),
        (2, GenerationPhase::Comparing),
    ];
    assert_eq!(phases(&pool, Projection::Redirects).await, expected);
}

/// Terminates the session of a verification that waits for a lock.
async fn terminate_verification(pool: &PgPool) {
    eventually("a verification waits for the lock", async || {
        sqlx::query_scalar::<_, bool>(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event = 'relation'
               AND query LIKE '%CROSS JOIN LATERAL%FROM read_model.parked_events%'",
        )
        .fetch_optional(pool)
        .await
        .unwrap()
    })
    .await;
}

#[tokio::test]
async fn verification_before_swap_survives_lost_sessions() {
    let fixture = Fixture::new().await;
    append_one_of_each(&fixture, "before").await;
    fixture.apply_log().await;
    let pool = sessions(&fixture);
    rebuild_links(&pool, NO_SWAP).await.unwrap();
    // Of a rebuild without new events, only the verification reads waiting events.
    let mut lock = PoolTransaction::begin(fixture.database.pool())
        .await
        .unwrap();
    sqlx::query("LOCK TABLE read_model.parked_events IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *lock)
        .await
        .unwrap();
    let lose_session = async {
        terminate_verification(fixture.database.pool()).await;
        lock.rollback().await.unwrap();
    };
    let (rebuilt, ()) = tokio::join!(rebuild_links(&pool, TO_SWAP), lose_session);
    assert!(rebuilt.unwrap().served);
}

#[tokio::test]
async fn operator_role_may_rebuild_rollback_drop() {
    let fixture = Fixture::new().await;
    let owner = fixture.database.pool();
    raw_sql(ROLES).execute(owner).await.unwrap();
    append_one_of_each(&fixture, "before").await;
    let log = fixture.log().await;
    let others = log
        .iter()
        .find(|it| it.event.payload.contains("before-other"));
    paint(owner, others.unwrap()).await;
    fixture.apply_log().await;
    let url = fixture.database.url();
    let options = linkledger_event_store::session_options(url, SessionKind::Projector).unwrap();
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS_MAX)
        .connect_lazy_with(options.options([("role", "linkledger_operator")]));
    corrupt(owner, 1).await;
    for rebuilt in rebuild_all(&pool, TO_SWAP).await {
        assert!(rebuilt.served);
    }
    append_one_of_each(&fixture, "after").await;
    let progress = Arc::new(ProgressReport::silent());
    rollback::rollback(&pool.clone().into(), Projection::Links, None, progress)
        .await
        .unwrap();
    let statement = "UPDATE read_model.generations SET last_active_at = now() - interval '61 s'";
    sqlx::query(statement).execute(owner).await.unwrap();
    generation::drop_all(&pool, Projection::Links, 2)
        .await
        .unwrap();
    assert_eq!(
        phases(&pool, Projection::Links).await,
        [(1, GenerationPhase::Active)]
    );
}

#[tokio::test]
async fn rebuild_refuses_log_with_missing_event() {
    let fixture = Fixture::new().await;
    append_one_of_each(&fixture, "before").await;
    let log = fixture.log().await;
    fixture.followers().cycle(log.clone()).await.unwrap();
    let place = &log[5].event;
    let (shard, position) = (place.shard, place.position);
    let mut tx = PoolTransaction::begin(fixture.database.pool())
        .await
        .unwrap();
    for statement in [
        // Without the trigger that forbids it.
        "SET LOCAL session_replication_role = replica".to_owned(),
        format!("DELETE FROM event_store.events WHERE shard = {shard} AND position = {position}"),
    ] {
        let statement = sqlx::AssertSqlSafe(statement);
        sqlx::query(statement).execute(&mut *tx).await.unwrap();
    }
    tx.commit().await.unwrap();
    let pool = sessions(&fixture);
    let progress = Arc::new(ProgressReport::silent());
    let error = rebuild::rebuild(
        &pool.clone().into(),
        &[Projection::Credits],
        TO_SWAP,
        progress,
    )
    .await
    .unwrap_err();
    let text = format!("{error:#}");
    let lacks = format!("the event store lacks the event at position {position} of shard {shard}");
    assert!(text.contains(&lacks), "{text}");
    let expected = vec![(1, GenerationPhase::Active), (2, GenerationPhase::Loading)];
    assert_eq!(phases(&pool, Projection::Credits).await, expected);
}
