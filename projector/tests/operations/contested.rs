//! Releases in conflict with another session or with a transient failure.

use linkledger_core::{id::AccountId, shard::Shard};
use linkledger_event_store::{SessionKind, transaction::PoolTransaction};
use linkledger_projector::{
    operations::parked::retry,
    pipeline::{
        checkpoint::Role,
        parking::release::{ReleaseOutcome, ReleaseState, release},
    },
    read_models::Projection,
};
use linkledger_testing::{eventually, in_background, sessions_waiting_for_lock};
use sqlx::{PgConnection, PgPool, raw_sql};
use tokio::sync::Mutex;

use crate::{
    fixture::Fixture,
    poisoned::{parkings, rewrite},
    rebuild::{NO_SWAP, rebuild_all, sessions},
    release::Parked,
    tables::Tables,
};

/// Locks the checkpoints of a shard until the end of the transaction.
async fn hold(tx: &mut PgConnection, account_id: AccountId) {
    sqlx::query("SELECT FROM read_model.checkpoints WHERE shard = $1 FOR UPDATE")
        .bind(Shard::of(account_id).number())
        .execute(tx)
        .await
        .unwrap();
}

async fn eventually_a_session_waits_for_lock(pool: &PgPool) {
    let waits = async || {
        let waiting = sessions_waiting_for_lock(pool).await;
        (waiting > 0).then_some(())
    };
    eventually("a session waits for a lock", waits).await;
}

#[tokio::test]
async fn repeated_release_applies_nothing() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let parked = Parked::set_up(&fixture).await;
    let parking = parked.parking(pool, Projection::Links).await.unwrap();
    release(&pool.clone().into(), &parking, Role::Live, 1_000)
        .await
        .unwrap();
    let again = release(&pool.clone().into(), &parking, Role::Live, 1_000)
        .await
        .unwrap();
    let expected = ReleaseOutcome {
        applied: 0,
        state: ReleaseState::Released,
    };
    assert_eq!(again, expected);
}

#[tokio::test]
async fn contested_retry_gives_up_after_six_attempts() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let parked = Parked::set_up(&fixture).await;
    // The trigger prevents each DELETE: the attempt finds that it has removed no waiting event.
    raw_sql(
        "CREATE SEQUENCE attempted;
         CREATE FUNCTION contest() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             PERFORM nextval('attempted');
             RETURN NULL;
         END $$;
         CREATE TRIGGER contest BEFORE DELETE ON read_model.parked_events
             FOR EACH ROW EXECUTE FUNCTION contest();",
    )
    .execute(pool)
    .await
    .unwrap();
    let retried = retry(&pool.clone().into(), Some(parked.account_id))
        .await
        .unwrap();
    for it in &retried {
        assert_eq!((it.released, it.applied), (false, 0));
        let detail = "another process releases the account; run the command again";
        assert_eq!(it.detail.as_deref(), Some(detail));
    }
    let removed: i64 = sqlx::query_scalar("SELECT last_value FROM attempted")
        .fetch_one(pool)
        .await
        .unwrap();
    // Six attempts for each projection, each with 23 waiting events.
    assert_eq!(usize::try_from(removed), Ok(Projection::ALL.len() * 6 * 23));
}

#[tokio::test]
async fn release_during_a_batch_loses_no_event() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let account_id = Parked::set_up(&fixture).await.account_id;
    let mut followers = fixture.patient_followers();
    let mut others = Vec::new();
    for index in 0..8 {
        let name = format!("other-{index}");
        others.push(fixture.account_with_links(&name, 1).await);
    }
    let is_elsewhere = |other: &AccountId| Shard::of(*other) != Shard::of(account_id);
    let other = others.into_iter().find(is_elsewhere).unwrap();
    followers.cycle(fixture.log().await).await.unwrap();
    fixture.append_links(account_id, "meanwhile", 1).await;
    fixture.append_links(other, "elsewhere", 1).await;
    let delivered = fixture.log().await;

    // The account is released after the cycle has read the parking, and before the cycle writes.
    let mut tx = PoolTransaction::begin(pool).await.unwrap();
    hold(&mut tx, account_id).await;
    let cycle = in_background(async move {
        followers.cycle(delivered).await.unwrap();
        followers
    });
    eventually_a_session_waits_for_lock(pool).await;
    raw_sql("DELETE FROM read_model.parked_events; DELETE FROM read_model.parked_accounts")
        .execute(&mut *tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let mut followers = cycle.await.unwrap();
    while followers.has_work() {
        followers.cycle(Vec::new()).await.unwrap();
    }
    let checkpoints = Tables::read(pool).await.checkpoints;
    assert_eq!(
        checkpoints,
        Tables::of_log(&fixture.log().await).checkpoints
    );
}

/// Runs `overtaking` on the checkpoints of the account's shard in the middle of a cycle.
async fn overtake(fixture: &Fixture, account_id: AccountId, overtaking: &'static str) {
    let mut followers = fixture.patient_followers();
    followers.cycle(fixture.log().await).await.unwrap();
    fixture.append_links(account_id, "meanwhile", 2).await;
    let delivered = fixture.log().await;
    let mut tx = PoolTransaction::begin(fixture.database.pool())
        .await
        .unwrap();
    hold(&mut tx, account_id).await;
    let cycle = in_background(async move {
        followers.cycle(delivered).await.unwrap();
        followers
    });
    eventually_a_session_waits_for_lock(fixture.database.pool()).await;
    raw_sql(overtaking).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    let mut followers = cycle.await.unwrap();
    while followers.has_work() {
        followers.cycle(Vec::new()).await.unwrap();
    }
}

/// Makes generation 2 live, like the end of a swap.
pub(crate) const EXCHANGE: &str = "
    UPDATE read_model.checkpoints SET role = 'standby' WHERE generation = 1;
    UPDATE read_model.checkpoints SET role = 'live' WHERE generation = 2;
    UPDATE read_model.projections SET active_generation = 2;";

#[tokio::test]
async fn swap_during_a_batch_loses_no_event() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("before", 3).await;
    fixture.apply_log().await;
    rebuild_all(&sessions(&fixture), NO_SWAP).await;
    overtake(&fixture, account_id, EXCHANGE).await;
    let tables = Tables::read_generation(fixture.database.pool(), 2).await;
    assert_eq!(tables, Tables::of_log(&fixture.log().await));
}

#[tokio::test]
async fn retry_reports_generation_swap() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let parked = Parked::set_up(&fixture).await;
    rebuild_all(&sessions(&fixture), NO_SWAP).await;
    let mut tx = PoolTransaction::begin(pool).await.unwrap();
    hold(&mut tx, parked.account_id).await;
    let retry = {
        let (pool, account_id) = (pool.clone(), parked.account_id);
        in_background(async move { retry(&pool.clone().into(), Some(account_id)).await.unwrap() })
    };
    eventually_a_session_waits_for_lock(pool).await;
    raw_sql(EXCHANGE).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    for it in retry.await.unwrap() {
        assert_eq!((it.released, it.applied), (false, 0));
        let detail = "another generation is served by now; run the command again";
        assert_eq!(it.detail.as_deref(), Some(detail));
    }
}

#[tokio::test]
async fn automatic_release_is_retried_after_lock_timeout() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let parked = Parked::set_up(&fixture).await;
    let mut followers = fixture.followers();
    let mut tx = PoolTransaction::begin(pool).await.unwrap();
    hold(&mut tx, parked.account_id).await;
    for _ in 0..4 {
        // The lock timeout passes in each cycle.
        followers.cycle(Vec::new()).await.unwrap();
    }
    tx.rollback().await.unwrap();
    assert_eq!(
        parkings(pool, parked.account_id).await.len(),
        Projection::ALL.len()
    );
    let followers = Mutex::new(followers);
    let released = async || {
        followers.lock().await.cycle(Vec::new()).await.unwrap();
        let parkings = parkings(pool, parked.account_id).await;
        parkings.is_empty().then_some(())
    };
    eventually("the account is released", released).await;
    assert_eq!(
        Tables::read(pool).await,
        Tables::of_log(&fixture.log().await)
    );
}

#[tokio::test]
async fn overtaken_release_keeps_newer_parking_cause() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let parked = Parked::set_up(&fixture).await;
    let parking = parked.parking(pool, Projection::Links).await.unwrap();
    rewrite(pool, parking.account.shard, 8, "schema_version = 2").await;
    let mut tx = PoolTransaction::begin(pool).await.unwrap();
    hold(&mut tx, parked.account_id).await;
    let late = {
        let (pool, parking) = (
            linkledger_event_store::pool(fixture.database.url(), SessionKind::Projector, 1)
                .unwrap(),
            parking.clone(),
        );
        in_background(async move {
            release(&pool.clone().into(), &parking, Role::Live, 5)
                .await
                .unwrap()
        })
    };
    eventually_a_session_waits_for_lock(pool).await;
    // Another session, which can decode the event, has continued up to position 10.
    raw_sql(
        "DELETE FROM read_model.parked_events WHERE position < 10;
         UPDATE read_model.parked_accounts SET position = 10, detail = 'another'",
    )
    .execute(&mut *tx)
    .await
    .unwrap();
    tx.commit().await.unwrap();
    let late = late.await.unwrap();
    assert_eq!((late.applied, late.state), (0, ReleaseState::Unfinished));
    let cause = parked.parking(pool, Projection::Links).await.unwrap().cause;
    assert_eq!(
        (cause.position, cause.poison.detail.as_str()),
        (10, "another")
    );
}
