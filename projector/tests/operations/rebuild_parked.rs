//! Accounts that are parked in a generation that is not served: a swap parks no further account.

use std::sync::Arc;

use linkledger_core::{cloud_event::PublishedEvent, id::AccountId};
use linkledger_projector::{
    operations::{
        parked::retry,
        rebuild::{generation, rollback},
    },
    pipeline::followers::Followers,
    progress::ProgressReport,
    read_models::Projection,
};

use crate::{
    fixture::Fixture,
    poisoned::{paint, parkings, restore},
    rebuild::{NO_SWAP, TO_SWAP, append_one_of_each, rebuild_all, rebuild_links, sessions},
    tables::Tables,
};

/// Returns a fixture on which one account is parked everywhere, the followers that parked the account, and
/// the event that caused the parking.
async fn parked_fixture() -> (Fixture, Followers, PublishedEvent) {
    let fixture = Fixture::new().await;
    append_one_of_each(&fixture, "before").await;
    let painted = fixture.log().await.remove(3);
    paint(fixture.database.pool(), &painted).await;
    let mut followers = fixture.followers();
    followers.cycle(fixture.log().await).await.unwrap();
    (fixture, followers, painted)
}

async fn release(fixture: &Fixture, painted: &PublishedEvent) -> AccountId {
    let account_id = painted.event.account_id;
    restore(fixture.database.pool(), painted).await;
    let retried = retry(&fixture.database.pool().clone().into(), Some(account_id)).await;
    assert!(retried.unwrap().iter().all(|it| it.released));
    account_id
}

#[tokio::test]
async fn generation_that_parks_more_is_not_served() {
    let fixture = Fixture::new().await;
    append_one_of_each(&fixture, "before").await;
    let log = fixture.log().await;
    fixture.followers().cycle(log.clone()).await.unwrap();
    // The release of the rebuild is older than the running one, and cannot read the event.
    paint(fixture.database.pool(), &log[3]).await;
    let account_id = log[3].event.account_id;
    let pool = sessions(&fixture);

    let built = rebuild_links(&pool, NO_SWAP).await.unwrap();
    assert_eq!(built.would_park.as_ref().unwrap().accounts, 1);
    let told = built.to_string();
    assert!(told.contains("cannot be served yet"), "{told}");
    let error = rebuild_links(&pool, TO_SWAP).await.unwrap_err();
    let text = format!("{error:#}");
    let expected = format!(
        "1 account would be parked that is not (first: `{account_id}`, for \
                            `LinkPainted` at position 4"
    );
    assert!(text.contains(&expected), "{text}");
    assert_eq!(
        generation::active(&pool, Projection::Links).await.unwrap(),
        1
    );
    assert_eq!(parkings(&pool, account_id).await, []);
    assert_eq!(Tables::read(&pool).await, Tables::of_log(&log));

    // The newer release finishes the rebuild.
    restore(fixture.database.pool(), &log[3]).await;
    assert!(rebuild_links(&pool, TO_SWAP).await.unwrap().served);
    let tables = Tables::read_generation(&pool, 2).await;
    assert_eq!(tables.links, Tables::of_log(&log).links);
}

#[tokio::test]
async fn account_released_during_rebuild_stays_released() {
    let (fixture, _followers, painted) = parked_fixture().await;
    let pool = sessions(&fixture);
    rebuild_all(&pool, NO_SWAP).await;
    let account_id = release(&fixture, &painted).await;
    let log = fixture.log().await;
    assert_eq!(Tables::read(&pool).await, Tables::of_log(&log));
    for rebuilt in rebuild_all(&pool, TO_SWAP).await {
        assert!(rebuilt.served);
    }
    assert_eq!(parkings(&pool, account_id).await, []);
    assert_eq!(
        Tables::read_generation(&pool, 2).await,
        Tables::of_log(&log)
    );
}

#[tokio::test]
async fn rollback_keeps_released_account_released() {
    let (fixture, _followers, painted) = parked_fixture().await;
    let pool = sessions(&fixture);
    rebuild_all(&pool, TO_SWAP).await;
    let account_id = release(&fixture, &painted).await;
    for projection in Projection::ALL {
        let progress = Arc::new(ProgressReport::silent());
        let back = rollback::rollback(&pool.clone().into(), projection, None, progress).await;
        assert_eq!(back.unwrap().generation, 1);
    }
    assert_eq!(parkings(&pool, account_id).await, []);
    assert_eq!(
        Tables::read(&pool).await,
        Tables::of_log(&fixture.log().await)
    );
}

#[tokio::test]
async fn rollback_to_generation_that_parks_more_is_refused() {
    let (fixture, _followers, painted) = parked_fixture().await;
    let pool = sessions(&fixture);
    rebuild_all(&pool, TO_SWAP).await;
    let account_id = release(&fixture, &painted).await;
    // The release of the rollback is older, and cannot read the event.
    paint(fixture.database.pool(), &painted).await;
    let progress = Arc::new(ProgressReport::silent());
    let error = rollback::rollback(&pool.clone().into(), Projection::Links, None, progress)
        .await
        .unwrap_err();
    let text = format!("{error:#}");
    assert!(
        text.contains("1 account would be parked that is not"),
        "{text}"
    );
    assert_eq!(
        generation::active(&pool, Projection::Links).await.unwrap(),
        2
    );
    assert_eq!(parkings(&pool, account_id).await, []);
}

#[tokio::test]
async fn swap_releases_accounts_parked_earlier_than_live() {
    let (fixture, mut followers, painted) = parked_fixture().await;
    let pool = sessions(&fixture);
    rebuild_all(&pool, NO_SWAP).await;
    // The served generation is parked for a later event now.
    let account_id = painted.event.account_id;
    let later = fixture.log().await.into_iter().rev();
    let later = later
        .into_iter()
        .find(|it| it.event.account_id == account_id);
    let later = later.unwrap();
    paint(fixture.database.pool(), &later).await;
    restore(fixture.database.pool(), &painted).await;
    retry(&pool.clone().into(), Some(account_id)).await.unwrap();
    let parked = parkings(&pool, account_id).await;
    assert!(parked.iter().all(|it| it.1 == later.event.position));
    followers.cycle(Vec::new()).await.unwrap();
    rebuild_all(&pool, TO_SWAP).await;
    assert_eq!(parkings(&pool, account_id).await, parked);
}
