//! The rights of `deploy/postgres/roles.sql` suffice for all that the projector does.

use std::process::Command;

use linkledger_core::shard::Shard;
use linkledger_event_store::SessionKind;
use linkledger_projector::{
    operations::{
        parked::{SkipRequest, retry, skip},
        pause::{FollowerName, PauseChange, change},
    },
    pipeline::{claims::Claims, followers::Followers, redirect_changes::prune},
};
use sqlx::{PgPool, postgres::PgPoolOptions, raw_sql};

use crate::{
    events::{adjusted, deleted, destination_changed, disabled, enabled, resumed, suspended},
    fixture::Fixture,
    poisoned::{paint, restore},
    tables::Tables,
};

const ROLES: &str = include_str!("../../../deploy/postgres/roles.sql");

/// Returns a pool of sessions with the rights of a role.
fn pool_of(fixture: &Fixture, kind: SessionKind, role: &str) -> PgPool {
    let options = linkledger_event_store::session_options(fixture.database.url(), kind).unwrap();
    PgPoolOptions::new().connect_lazy_with(options.options([("role", role)]))
}

#[tokio::test]
async fn projector_grants_suffice_to_apply_park_and_prune() {
    let fixture = Fixture::new().await;
    raw_sql(ROLES)
        .execute(fixture.database.pool())
        .await
        .unwrap();
    let pool = pool_of(&fixture, SessionKind::Projector, "linkledger_projector");
    let mut followers = Followers::new(pool.clone().into());
    followers.set_shards(&Shard::all().collect());

    let account_id = fixture.account_with_links("granted", 1).await;
    let link = fixture.append_links(account_id, "other", 1).await.remove(0);
    followers.cycle(fixture.log().await).await.unwrap();
    let events = [
        destination_changed(&link, "https://elsewhere.example/"),
        disabled(&link),
        enabled(&link),
        suspended(account_id, true),
        adjusted(account_id, 2, 1_000_000),
    ];
    fixture.append(account_id, &events).await;
    followers.cycle(fixture.log().await).await.unwrap();
    fixture
        .append(account_id, &[deleted(&link), resumed(account_id)])
        .await;
    let log = fixture.log().await;
    followers.cycle(log.clone()).await.unwrap();
    assert_eq!(
        Tables::read(fixture.database.pool()).await,
        Tables::of_log(&log)
    );
    prune(&pool).await.unwrap();
    let mut claims = Claims::new(pool.clone(), "host:1".to_owned());
    for _ in 0..2 {
        claims.renew(&followers.reports()).await.unwrap();
    }
    assert_eq!(claims.owned(), Shard::all().collect());
    claims.release().await;

    fixture.append_links(account_id, "parked", 2).await;
    let log = fixture.log().await;
    let unknown = log.iter().rev().nth(1).unwrap();
    paint(fixture.database.pool(), unknown).await;
    followers.cycle(fixture.log().await).await.unwrap();
    assert!(
        retry(&pool.clone().into(), None)
            .await
            .unwrap()
            .iter()
            .all(|it| !it.released)
    );
    restore(fixture.database.pool(), unknown).await;
    assert!(
        retry(&pool.clone().into(), None)
            .await
            .unwrap()
            .iter()
            .all(|it| it.released)
    );
    assert_eq!(
        Tables::read(fixture.database.pool()).await,
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
    let fixture = Fixture::new().await;
    let database = fixture.database.pool();
    raw_sql(ROLES).execute(database).await.unwrap();
    let pool = pool_of(&fixture, SessionKind::Writer, "linkledger_operator");
    let account_id = fixture.account_with_links("granted", 3).await;
    let links = fixture.append_links(account_id, "changed", 2).await;
    let events = [
        destination_changed(&links[0], "https://elsewhere.example/"),
        suspended(account_id, true),
        resumed(account_id),
        deleted(&links[1]),
    ];
    fixture.append(account_id, &events).await;
    let log = fixture.log().await;
    paint(database, &log[2]).await;
    fixture.apply_log().await;
    for wish in [PauseChange::Pause, PauseChange::Resume] {
        let changed = change(&pool, &FollowerName::ALL, wish, "ada", None).await;
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
    let fixture = Fixture::new().await;
    raw_sql(ROLES)
        .execute(fixture.database.pool())
        .await
        .unwrap();
    let url = fixture.database.url();
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
