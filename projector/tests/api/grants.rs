//! The rights of `deploy/postgres/roles.sql` suffice for all that the projector does.

use std::process::Command;

use linkledger_core::{
    event_store::{self, SessionKind},
    shard::Shard,
};
use linkledger_projector::{
    operations::{
        parked::{SkipRequest, retry, skip},
        pause::{PauseChange, PauseTarget, change},
    },
    pipeline::{claims::Claims, followers::Followers, redirect_changes::prune},
};
use sqlx::{PgPool, postgres::PgPoolOptions, raw_sql};

use crate::{
    events::{adjusted, deleted, destination_changed, disabled, enabled, resumed, suspended},
    poisoned::{paint, restore},
    stage::Stage,
    tables::Tables,
};

const ROLES: &str = include_str!("../../../deploy/postgres/roles.sql");

/// Returns a pool of sessions with the rights of a role.
fn pool_of(stage: &Stage, kind: SessionKind, role: &str) -> PgPool {
    let options = event_store::session_options(stage.database.url(), kind).unwrap();
    PgPoolOptions::new().connect_lazy_with(options.options([("role", role)]))
}

#[tokio::test]
async fn projector_grants_suffice_to_apply_park_and_prune() {
    let stage = Stage::set().await;
    raw_sql(ROLES).execute(stage.database.pool()).await.unwrap();
    let pool = pool_of(&stage, SessionKind::Projector, "linkledger_projector");
    let mut followers = Followers::new(pool.clone().into());
    followers.set_shards(&Shard::all().collect());

    let account_id = stage.account_with_links("granted", 1).await;
    let link = stage.append_links(account_id, "other", 1).await.remove(0);
    followers.cycle(stage.log().await).await.unwrap();
    let events = [
        destination_changed(&link, "https://elsewhere.example/"),
        disabled(&link),
        enabled(&link),
        suspended(account_id, true),
        adjusted(account_id, 2, 1_000_000),
    ];
    stage.append(account_id, &events).await;
    followers.cycle(stage.log().await).await.unwrap();
    stage
        .append(account_id, &[deleted(&link), resumed(account_id)])
        .await;
    let log = stage.log().await;
    followers.cycle(log.clone()).await.unwrap();
    assert_eq!(
        Tables::read(stage.database.pool()).await,
        Tables::of_log(&log)
    );
    prune(&pool).await.unwrap();
    let mut claims = Claims::new(pool.clone(), "host:1".to_owned());
    for _ in 0..2 {
        claims.renew(&followers.reports()).await.unwrap();
    }
    assert_eq!(claims.owned(), Shard::all().collect());
    claims.release().await;

    stage.append_links(account_id, "parked", 2).await;
    let log = stage.log().await;
    let unknown = log.iter().rev().nth(1).unwrap();
    paint(stage.database.pool(), unknown).await;
    followers.cycle(stage.log().await).await.unwrap();
    assert!(
        retry(&pool.clone().into(), None)
            .await
            .unwrap()
            .iter()
            .all(|it| !it.released)
    );
    restore(stage.database.pool(), unknown).await;
    assert!(
        retry(&pool.clone().into(), None)
            .await
            .unwrap()
            .iter()
            .all(|it| it.released)
    );
    assert_eq!(
        Tables::read(stage.database.pool()).await,
        Tables::of_log(&log)
    );
    let role: String = sqlx::query_scalar("SELECT current_user::text")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(role, "linkledger_projector");
}

#[tokio::test]
async fn operator_grants_suffice_to_pause_skip_and_retry() {
    let stage = Stage::set().await;
    let database = stage.database.pool();
    raw_sql(ROLES).execute(database).await.unwrap();
    let pool = pool_of(&stage, SessionKind::Writer, "linkledger_operator");
    let account_id = stage.account_with_links("granted", 3).await;
    let links = stage.append_links(account_id, "changed", 2).await;
    let events = [
        destination_changed(&links[0], "https://elsewhere.example/"),
        suspended(account_id, true),
        resumed(account_id),
        deleted(&links[1]),
    ];
    stage.append(account_id, &events).await;
    let log = stage.log().await;
    paint(database, &log[2]).await;
    stage.followers().cycle(stage.log().await).await.unwrap();
    for wish in [PauseChange::Pause, PauseChange::Resume] {
        let changed = change(&pool, &PauseTarget::ALL, wish, "ada", None).await;
        assert!(changed.unwrap().iter().all(|it| it.is_changed));
    }
    let request = SkipRequest {
        account_id,
        position: None,
        operator: "ada",
        reason: "a test",
    };
    skip(&pool.clone().into(), request).await.unwrap();
    let retried = retry(&pool.clone().into(), None).await.unwrap();
    assert!(retried.iter().all(|it| it.released), "{retried:?}");
}

#[tokio::test]
async fn missing_right_names_the_needed_role_once() {
    let stage = Stage::set().await;
    raw_sql(ROLES).execute(stage.database.pool()).await.unwrap();
    let url = stage.database.url();
    let separator = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{separator}options[role]=linkledger_query_api");
    let mut command = Command::new(env!("CARGO_BIN_EXE_projector"));
    command.args(["pause", "links"]).env("DATABASE_URL", url);
    let refused = tokio::task::spawn_blocking(move || command.output());
    let refused = refused.await.unwrap().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(refused.stderr).unwrap(),
        "error: cannot pause links: permission denied for table checkpoints: the role of \
         this database address lacks this privilege; operators' commands need `linkledger_operator`, \
         and deploy/postgres/roles.sql names the role of each service\n"
    );
}
