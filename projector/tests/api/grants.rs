//! The rights of `deploy/postgres/roles.sql` suffice for all that the projector does.

use linkledger_core::{
    event_store::{self, SessionKind},
    shard::Shard,
};
use linkledger_projector::{admin::parked::retry, engine::Engine, redirect_changes::prune};
use sqlx::{postgres::PgPoolOptions, raw_sql};

use crate::{
    events::{adjusted, deleted, destination_changed, disabled, enabled, resumed, suspended},
    poisoned::{paint, restore},
    stage::Stage,
    tables::Tables,
};

const ROLES: &str = include_str!("../../../deploy/postgres/roles.sql");

#[tokio::test]
async fn the_grants_suffice_to_apply_every_event_to_park_to_release_and_to_prune() {
    let stage = Stage::set().await;
    raw_sql(ROLES).execute(stage.database.pool()).await.unwrap();
    let url = stage.database.url();
    let options = event_store::session_options(url, SessionKind::Projector).unwrap();
    let pool =
        PgPoolOptions::new().connect_lazy_with(options.options([("role", "linkledger_projector")]));
    let mut engine = Engine::new(pool.clone());
    engine.assign(&Shard::all().collect::<Vec<_>>());

    let account_id = stage.account_with_links("granted", 1).await;
    let link = stage.append_links(account_id, "other", 1).await.remove(0);
    engine.cycle(stage.log().await).await.unwrap();
    let events = [
        destination_changed(&link, "https://elsewhere.example/"),
        disabled(&link),
        enabled(&link),
        suspended(account_id, true),
        adjusted(account_id, 2, 1_000_000),
    ];
    stage.append(account_id, &events).await;
    engine.cycle(stage.log().await).await.unwrap();
    stage
        .append(account_id, &[deleted(&link), resumed(account_id)])
        .await;
    let log = stage.log().await;
    engine.cycle(log.clone()).await.unwrap();
    assert_eq!(
        Tables::read(stage.database.pool()).await,
        Tables::of_log(&log)
    );
    prune(&pool).await.unwrap();

    stage.append_links(account_id, "parked", 2).await;
    let log = stage.log().await;
    let unknown = log.iter().rev().nth(1).unwrap();
    paint(stage.database.pool(), unknown).await;
    engine.cycle(stage.log().await).await.unwrap();
    assert!(
        retry(&pool, None)
            .await
            .unwrap()
            .iter()
            .all(|it| !it.released)
    );
    restore(stage.database.pool(), unknown).await;
    assert!(
        retry(&pool, None)
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
