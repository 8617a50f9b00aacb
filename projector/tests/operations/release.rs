//! Releases apply waiting events in order, whatever happens in between.

use std::collections::BTreeSet;

use linkledger_core::{id::AccountId, shard::Shard};
use linkledger_event_store::SessionKind;
use linkledger_projector::{
    operations::parked::{RetriedAccount, retry},
    pipeline::{
        checkpoint::Role,
        followers::Followers,
        parking::{
            Parking, listing,
            release::{ReleaseState, release},
        },
    },
    read_models::Projection,
};
use linkledger_testing::{eventually, in_background};
use sqlx::{PgPool, raw_sql};

use crate::{
    cache_changes::{changes, subjects_of_log},
    events::{deleted, destination_changed, disabled, suspended},
    fixture::Fixture,
    poisoned::{paint, parkings, restore, tables_without},
    tables::Tables,
};

/// An account parked for the creation of a link at position 8, which is applicable again. The
/// events behind it give wrong rows if applied in another order.
pub(crate) struct Parked {
    pub(crate) account_id: AccountId,
    pub(crate) followers: Followers,
}

impl Parked {
    pub(crate) async fn set_up(fixture: &Fixture) -> Self {
        let pool = fixture.database.pool();
        let account_id = fixture.account_with_links("parked", 8).await;
        let links = fixture.append_links(account_id, "changed", 4).await;
        let events = [
            destination_changed(&links[0], "https://first.example/"),
            destination_changed(&links[0], "https://second.example/"),
            disabled(&links[1]),
            suspended(account_id, true),
            deleted(&links[2]),
        ];
        fixture.append(account_id, &events).await;
        let log = fixture.log().await;
        paint(pool, &log[7]).await;
        let mut followers = fixture.followers();
        followers.cycle(fixture.log().await).await.unwrap();
        assert_eq!(
            parkings(pool, account_id).await.len(),
            Projection::ALL.len()
        );
        restore(pool, &log[7]).await;
        Self {
            account_id,
            followers,
        }
    }

    pub(crate) async fn parking(&self, pool: &PgPool, projection: Projection) -> Option<Parking> {
        let listed = listing::list(pool, Some(self.account_id), 100)
            .await
            .unwrap();
        let mut parkings = listed.into_iter().map(|it| it.parking);
        parkings.find(|it| it.account.projection == projection)
    }
}

#[tokio::test]
async fn retry_applies_waiting_events_and_appends_changes() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let mut parked = Parked::set_up(&fixture).await;
    assert_eq!(changes(pool).await, []);
    let retried = retry(&pool.clone().into(), Some(parked.account_id))
        .await
        .unwrap();
    assert!(
        retried.iter().all(|it| it.released && it.applied == 23),
        "{retried:?}"
    );

    let log = fixture.log().await;
    assert_eq!(Tables::read(pool).await, Tables::of_log(&log));
    let told = changes(pool).await.into_iter().map(|row| (row.1, row.2));
    assert_eq!(told.collect::<BTreeSet<_>>(), subjects_of_log(&log));
    assert_eq!(left(pool).await, 0);

    fixture
        .append_links(parked.account_id, "afterwards", 2)
        .await;
    let log = fixture.log().await;
    // The followers still remember the account as parked.
    parked.followers.cycle(log.clone()).await.unwrap();
    assert_eq!(Tables::read(pool).await, Tables::of_log(&log));
}

/// Returns the number of parked accounts and waiting events.
async fn left(pool: &PgPool) -> i64 {
    sqlx::query_scalar(
        "SELECT (SELECT count(*) FROM read_model.parked_accounts)
              + (SELECT count(*) FROM read_model.parked_events)",
    )
    .fetch_one(pool)
    .await
    .unwrap()
}

#[tokio::test]
async fn events_during_release_wait_behind_others() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let mut parked = Parked::set_up(&fixture).await;
    for projection in Projection::ALL {
        for turn in 0.. {
            let parking = parked.parking(pool, projection).await.unwrap();
            let attempt = release(&pool.clone().into(), &parking, Role::Live, 7)
                .await
                .unwrap();
            if attempt.state == ReleaseState::Released {
                assert!(turn > 3, "{turn}");
                break;
            }
            assert_eq!(
                (attempt.applied, attempt.state),
                (7, ReleaseState::Unfinished)
            );
            let name = format!("{projection}-{turn}");
            fixture.append_links(parked.account_id, &name, 1).await;
            parked.followers.cycle(fixture.log().await).await.unwrap();
        }
    }
    let log = fixture.log().await;
    assert_eq!(Tables::read(pool).await, Tables::of_log(&log));
    assert_eq!(left(pool).await, 0);
}

#[tokio::test]
async fn killed_release_keeps_uncommitted_events_waiting() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let parked = Parked::set_up(&fixture).await;
    raw_sql(
        "CREATE FUNCTION nap() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             PERFORM pg_sleep(60);
             RETURN NULL;
         END $$;
         CREATE TRIGGER nap AFTER INSERT ON read_model.links
             FOR EACH STATEMENT EXECUTE FUNCTION nap();",
    )
    .execute(pool)
    .await
    .unwrap();
    let parking = parked.parking(pool, Projection::Links).await.unwrap();
    let killed = {
        let (pool, parking) = (pool.clone(), parking.clone());
        in_background(async move { release(&pool.clone().into(), &parking, Role::Live, 5).await })
    };
    let asleep = async || {
        let asleep: i64 = sqlx::query_scalar(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event = 'PgSleep'",
        )
        .fetch_one(pool)
        .await
        .unwrap();
        (asleep > 0).then_some(())
    };
    eventually("the release is in its transaction, and killed", asleep).await;
    assert!(killed.await.unwrap().is_err());
    let log = fixture.log().await;
    let before = tables_without(&log, parked.account_id, 8);
    assert_eq!(Tables::read(pool).await, before);
    assert_eq!(
        parkings(pool, parked.account_id).await[Projection::Links.index()].4,
        23
    );

    raw_sql("DROP TRIGGER nap ON read_model.links")
        .execute(pool)
        .await
        .unwrap();
    // A release killed between two chunks leaves the later chunks waiting.
    let attempt = release(&pool.clone().into(), &parking, Role::Live, 5)
        .await
        .unwrap();
    assert_eq!(
        (attempt.applied, attempt.state),
        (5, ReleaseState::Unfinished)
    );
    let mut followers = fixture.followers();
    while is_releasing(&mut followers).await {}
    assert_eq!(Tables::read(pool).await, Tables::of_log(&log));
    assert_eq!(left(pool).await, 0);
}

/// Runs a cycle. Returns true if there is more work.
async fn is_releasing(followers: &mut Followers) -> bool {
    followers.cycle(Vec::new()).await.unwrap();
    followers.has_work()
}

#[tokio::test]
async fn start_releases_only_applicable_accounts() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let parked = Parked::set_up(&fixture).await;
    let stuck = fixture.account_with_links("stuck", 3).await;
    let log = fixture.log().await;
    let unreadable = log.iter().find(|it| it.event.account_id == stuck).unwrap();
    paint(pool, unreadable).await;
    let mut followers = fixture.followers();
    followers.cycle(fixture.log().await).await.unwrap();
    while is_releasing(&mut followers).await {}
    assert_eq!(parkings(pool, parked.account_id).await, []);
    assert_eq!(parkings(pool, stuck).await.len(), Projection::ALL.len());
    assert_eq!(Tables::read(pool).await, tables_without(&log, stuck, 1));
}

#[tokio::test]
async fn release_stops_at_next_poison_event() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let parked = Parked::set_up(&fixture).await;
    let log = fixture.log().await;
    paint(pool, &log[10]).await;
    let retried = retry(&pool.clone().into(), Some(parked.account_id))
        .await
        .unwrap();
    let detail = "unknown event `LinkPainted` version 1";
    for it in &retried {
        assert_eq!((it.released, it.applied), (false, 3));
        assert_eq!(it.detail.as_deref(), Some(detail));
    }
    let expected = Projection::ALL.map(|it| (it, 11, "unknown_event", detail.to_owned(), 20));
    assert_eq!(parkings(pool, parked.account_id).await, expected);
    assert_eq!(
        Tables::read(pool).await,
        tables_without(&log, parked.account_id, 11)
    );
}

#[tokio::test]
async fn release_isolates_refused_row_among_many() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let parked = Parked::set_up(&fixture).await;
    let picky = "ALTER TABLE read_model.links_1 ADD CONSTRAINT picky CHECK (slug <> 'parked-6X')";
    raw_sql(picky).execute(pool).await.unwrap();
    let retried = retry(&pool.clone().into(), Some(parked.account_id))
        .await
        .unwrap();
    let released = retried.iter().map(|it| (it.projection, it.released));
    let expected = Projection::ALL.map(|it| (it.name(), it != Projection::Links));
    assert_eq!(released.collect::<Vec<_>>(), expected);
    let log = fixture.log().await;
    let expected = Tables::of_log(&log);
    assert_eq!(
        Tables::read(pool).await.without_links(),
        expected.without_links()
    );
    let parking = parkings(pool, parked.account_id).await;
    assert_eq!(
        (parking[0].1, parking[0].2, parking[0].4),
        (14, "refused_row", 17)
    );
    let links = tables_without(&log, parked.account_id, 14).links;
    assert_eq!(Tables::read(pool).await.links, links);

    raw_sql("ALTER TABLE read_model.links_1 DROP CONSTRAINT picky")
        .execute(pool)
        .await
        .unwrap();
    assert!(retry(&pool.clone().into(), None).await.unwrap()[0].released);
    assert_eq!(Tables::read(pool).await, expected);
}

#[tokio::test]
async fn concurrent_releases_apply_each_event_once() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let parked = Parked::set_up(&fixture).await;
    let databases = pool.clone().into();
    let both = tokio::join!(
        retry(&databases, Some(parked.account_id)),
        retry(&databases, None)
    );
    let applied = |retried: anyhow::Result<Vec<_>>| -> usize {
        let retried: Vec<RetriedAccount> = retried.unwrap();
        assert!(retried.iter().all(|it| it.released), "{retried:?}");
        retried.iter().map(|it| it.applied).sum()
    };
    assert_eq!(
        applied(both.0) + applied(both.1),
        Projection::ALL.len() * 23
    );
    assert_eq!(
        Tables::read(pool).await,
        Tables::of_log(&fixture.log().await)
    );
    assert_eq!(left(pool).await, 0);
}

#[tokio::test]
async fn event_absent_from_log_fails_release() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let parked = Parked::set_up(&fixture).await;
    sqlx::query("UPDATE read_model.parked_events SET position = position + 1000")
        .execute(pool)
        .await
        .unwrap();
    let error = retry(&pool.clone().into(), None)
        .await
        .unwrap_err()
        .to_string();
    let shard = Shard::of(parked.account_id);
    let expected = format!("the event store lacks events of shard {shard} that wait to be applied");
    assert!(error.starts_with(&expected), "{error}");
    assert_eq!(parkings(pool, parked.account_id).await[0].4, 23);
}

#[tokio::test]
async fn release_commits_synchronously() {
    let fixture = Fixture::new().await;
    let parked = Parked::set_up(&fixture).await;
    raw_sql(
        "CREATE TABLE settings (value text);
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             INSERT INTO settings VALUES (current_setting('synchronous_commit'));
             RETURN NULL;
         END $$;
         CREATE CONSTRAINT TRIGGER note AFTER DELETE ON read_model.parked_accounts
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note();",
    )
    .execute(fixture.database.pool())
    .await
    .unwrap();
    let pool =
        linkledger_event_store::pool(fixture.database.url(), SessionKind::Projector, 1).unwrap();
    retry(&pool.clone().into(), Some(parked.account_id))
        .await
        .unwrap();
    let noted: Vec<String> = sqlx::query_scalar("SELECT value FROM settings")
        .fetch_all(fixture.database.pool())
        .await
        .unwrap();
    assert_eq!(noted, ["on"; Projection::ALL.len()]);
}
