//! The cache of redirects: hits, invalidations and bypasses.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use axum::http::StatusCode;
use futures::future::join_all;
use linkledger_core::link::Destination;
use linkledger_event_store::transaction::PoolTransaction;
use linkledger_service::databases::DatabaseSettings;
use linkledger_testing::{
    TestDatabase, eventually, in_background, sessions_waiting_for_lock, wire::Wire,
};
use sqlx::{Executor as _, PgPool};

use crate::{
    read_tables::{
        announce_change, insert_appended_link, insert_redirect, stop_account, update_redirect,
    },
    service::{TestCaller, TestService},
};

pub(crate) const OLD: &str = "https://example.com/old";
const NEW: &str = "https://example.com/new";
/// Number of times that a test checks an answer that must stay the same.
const REPEATS: usize = 50;
/// Time for which the table is locked: a load times out after two seconds.
const LOOKS: usize = 10;

async fn caching_service() -> TestService {
    caching_service_on(TestDatabase::create().await).await
}

pub(crate) async fn caching_service_on(database: TestDatabase) -> TestService {
    TestService::start_with(database, |config| config.redirect_cache_mib = 1).await
}

/// Starts a service that answers from memory on a slow host too: with the bound of the other tests, a stall
/// makes it ask the database.
pub(crate) async fn tolerant_service_on(database: TestDatabase) -> TestService {
    TestService::start_with(database, |config| {
        config.redirect_cache_mib = 1;
        config.redirect_staleness_max_ms = 3_600_000;
    })
    .await
}

pub(crate) async fn link_to_old(service: &TestService, caller: &TestCaller, slug: &str) {
    let mut link = service.append_link(caller, slug).await;
    link.link.destination_url = Destination::stored(OLD);
    insert_redirect(service.pool(), &link).await;
}

/// Returns the destination of the slug; empty without a redirect.
async fn target(service: &TestService, slug: &str) -> String {
    let answer = service.follow(&format!("/{slug}")).await;
    answer.header("location").unwrap_or_default().to_owned()
}

async fn until_target_is(service: &TestService, slug: &str, destination: &str) {
    eventually(&format!("{slug} leads to {destination:?}"), async || {
        (target(service, slug).await == destination).then_some(())
    })
    .await;
}

async fn assert_target_stays(service: &TestService, slug: &str, destination: &str) {
    for _ in 0..REPEATS {
        assert_eq!(target(service, slug).await, destination, "{slug}");
    }
}

/// Changes the row without a change record, and waits until the cache answers with the old
/// destination.
pub(crate) async fn until_cached(service: &TestService, slug: &str) {
    eventually(&format!("{slug} is answered from memory"), async || {
        update_redirect(service.pool(), slug, OLD, "active").await;
        target(service, slug).await;
        update_redirect(service.pool(), slug, NEW, "active").await;
        if target(service, slug).await == OLD {
            return Some(());
        }
        // On a busy machine the first lookup may have bypassed the cache and read the new row.
        update_redirect(service.pool(), slug, OLD, "active").await;
        announce_change(service.pool(), Some(slug), None).await;
        until_target_is(service, slug, OLD).await;
        None
    })
    .await;
}

/// Renames the table of changes, so that no follower can read changes until it is renamed back.
async fn hide_changes(pool: &PgPool) {
    pool.execute("ALTER TABLE read_model.redirect_change_counter RENAME TO hidden")
        .await
        .unwrap();
}

async fn show_changes(pool: &PgPool) {
    pool.execute("ALTER TABLE read_model.hidden RENAME TO redirect_change_counter")
        .await
        .unwrap();
}

#[tokio::test]
async fn change_reaches_all_caches_for_good() {
    let one = caching_service().await;
    let other = caching_service_on(one.database.share()).await;
    let caller = one.caller().await;
    link_to_old(&one, &caller, "changed").await;
    for service in [&one, &other] {
        until_cached(service, "changed").await;
    }
    update_redirect(one.pool(), "changed", NEW, "active").await;
    announce_change(one.pool(), Some("changed"), None).await;
    for service in [&one, &other] {
        until_target_is(service, "changed", NEW).await;
        assert_target_stays(service, "changed", NEW).await;
        assert_target_stays(service, "CHANGED", NEW).await;
    }
}

#[tokio::test]
async fn deleted_link_is_gone_in_all_caches() {
    let one = caching_service().await;
    let other = caching_service_on(one.database.share()).await;
    let caller = one.caller().await;
    link_to_old(&one, &caller, "deleted").await;
    for service in [&one, &other] {
        until_cached(service, "deleted").await;
    }
    update_redirect(one.pool(), "deleted", OLD, "deleted").await;
    announce_change(one.pool(), Some("deleted"), None).await;
    for service in [&one, &other] {
        until_target_is(service, "deleted", "").await;
        for _ in 0..REPEATS {
            assert_eq!(service.follow("/deleted").await.status, 410);
        }
    }
}

#[tokio::test]
async fn stopped_account_evicts_only_its_links() {
    let service = tolerant_service_on(TestDatabase::create().await).await;
    let (caller, other) = (service.caller().await, service.caller().await);
    for (caller, slug) in [(&caller, "first"), (&caller, "second"), (&other, "third")] {
        link_to_old(&service, caller, slug).await;
        until_cached(&service, slug).await;
    }
    stop_account(service.pool(), caller.account_id).await;
    announce_change(service.pool(), None, Some(caller.account_id)).await;
    for slug in ["first", "second"] {
        until_target_is(&service, slug, "").await;
        assert_target_stays(&service, slug, "").await;
    }
    // The row has changed since the cache read the row.
    until_target_is(&service, "third", OLD).await;
}

#[tokio::test]
async fn unfollowable_changes_bypass_cache() {
    let service = caching_service().await;
    let caller = service.caller().await;
    link_to_old(&service, &caller, "changed").await;
    until_cached(&service, "changed").await;
    hide_changes(service.pool()).await;
    until_target_is(&service, "changed", NEW).await;
    assert_target_stays(&service, "changed", NEW).await;
    // The old answer does not come back when the cache is in use again.
    show_changes(service.pool()).await;
    link_to_old(&service, &caller, "probe").await;
    until_cached(&service, "probe").await;
    assert_target_stays(&service, "changed", NEW).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tolerated_staleness_keeps_redirects_without_database() {
    let database = TestDatabase::create().await;
    let (wire, url) = Wire::to(&database).await;
    let service = TestService::start_with(database, |config| {
        config.databases = DatabaseSettings::one(url);
        config.redirect_cache_mib = 1;
        config.redirect_staleness_max_ms = 3_600_000;
    })
    .await;
    let caller = service.caller().await;
    for slug in ["in-memory", "elsewhere"] {
        link_to_old(&service, &caller, slug).await;
    }
    until_cached(&service, "in-memory").await;

    wire.fall_silent();
    // Ends after a longer time than redirects are stale by default.
    assert_eq!(service.follow("/elsewhere").await.status, 503);
    announce_change(service.pool(), Some("in-memory"), None).await;
    assert_target_stays(&service, "in-memory", OLD).await;

    wire.mend();
    until_target_is(&service, "in-memory", NEW).await;
    assert_target_stays(&service, "in-memory", NEW).await;
}

#[tokio::test]
async fn missed_changes_clear_cache() {
    let service = caching_service().await;
    let caller = service.caller().await;
    for (what, statement) in [
        (
            "pruned",
            "UPDATE read_model.hidden SET last_number = last_number + 2;
             INSERT INTO read_model.redirect_changes
             SELECT last_number, 'another', NULL, now() FROM read_model.hidden",
        ),
        (
            "reset",
            "DELETE FROM read_model.redirect_changes;
             -- So far that the changes that this test announces don't make up for it.
             UPDATE read_model.hidden SET last_number = last_number - 1000",
        ),
        (
            "rebuilt",
            "UPDATE event_store.log_meta SET epoch = epoch + 1;
             UPDATE read_model.checkpoints SET epoch = epoch + 1",
        ),
    ] {
        // Two slugs: the first is requested during the bypass, the second only afterwards.
        for slug in ["probe", "forgotten"].map(|slug| format!("{slug}-{what}")) {
            link_to_old(&service, &caller, &slug).await;
            until_cached(&service, &slug).await;
        }
        hide_changes(service.pool()).await;
        until_target_is(&service, &format!("probe-{what}"), NEW).await;
        service
            .pool()
            .execute(sqlx::raw_sql(statement))
            .await
            .unwrap();
        show_changes(service.pool()).await;
        until_cached(&service, &format!("probe-{what}")).await;
        let forgotten = format!("forgotten-{what}");
        assert_eq!(target(&service, &forgotten).await, NEW, "{what}");
    }
}

/// Repeats with other slugs until no lookup has bypassed the cache, as on a busy machine.
#[tokio::test]
async fn thousands_of_changes_evict_only_their_slugs() {
    let service = caching_service().await;
    let caller = service.caller().await;
    let attempts = AtomicU32::new(0);
    eventually("another link is still answered from memory", async || {
        let attempt = attempts.fetch_add(1, Ordering::Relaxed);
        let (kept, changed) = (format!("kept-{attempt}"), format!("changed-{attempt}"));
        for slug in [&kept, &changed] {
            link_to_old(&service, &caller, slug).await;
            until_cached(&service, slug).await;
        }
        // More changes than a page has, committed together.
        let announcing = sqlx::query(
            "WITH taken AS (
                 UPDATE read_model.redirect_change_counter SET last_number = last_number + 2500
                 RETURNING last_number
             )
             INSERT INTO read_model.redirect_changes
             SELECT last_number - 2500 + nth,
                    CASE nth WHEN 2500 THEN $1 ELSE 'other-' || nth END, NULL, now()
             FROM taken, generate_series(1, 2500) AS nth",
        );
        announcing
            .bind(&changed)
            .execute(service.pool())
            .await
            .unwrap();
        until_target_is(&service, &changed, NEW).await;
        (target(&service, &kept).await == OLD).then_some(())
    })
    .await;
}

#[tokio::test]
async fn unknown_slugs_do_not_delay_the_api() {
    let service = caching_service().await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "known").await;
    insert_appended_link(service.pool(), &link).await;
    let path = format!("/v1/links/{}", link.link.link_id);
    assert_eq!(service.get(&caller, &path).await.status, 200);
    let mut holder = PoolTransaction::begin(service.pool()).await.unwrap();
    holder
        .execute("LOCK TABLE event_store.slugs IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    // More unknown slugs than the service has sessions; all wait for the table.
    let unknown = (0..200).map(async |n| service.follow(&format!("/unknown-{n}")).await.status);
    let (answers, ()) = tokio::join!(join_all(unknown), async {
        assert_eq!(service.get(&caller, &path).await.status, 200);
        holder.rollback().await.unwrap();
    });
    // On a busy machine the table was locked for longer than a statement may take.
    let answered = |status: &StatusCode| *status == 404 || *status == 503;
    assert!(answers.iter().all(answered), "{answers:?}");
}

#[tokio::test]
async fn new_generation_clears_cache() {
    let service = caching_service().await;
    let caller = service.caller().await;
    link_to_old(&service, &caller, "rebuilt").await;
    until_cached(&service, "rebuilt").await;
    let rebuild = "
        CREATE TABLE read_model.redirects_2 PARTITION OF read_model.redirects FOR VALUES IN (2);
        INSERT INTO read_model.redirects SELECT 2, slug_key, link_id, account_id,
            'https://example.com/rebuilt', state FROM read_model.redirects;
        INSERT INTO read_model.checkpoints SELECT projection, 2, shard, epoch, position, 'building'
            FROM read_model.checkpoints WHERE projection = 'redirects';
        UPDATE read_model.projections SET active_generation = 2 WHERE projection = 'redirects'";
    service
        .pool()
        .execute(sqlx::raw_sql(rebuild))
        .await
        .unwrap();
    until_target_is(&service, "rebuilt", "https://example.com/rebuilt").await;
    assert_target_stays(&service, "rebuilt", "https://example.com/rebuilt").await;
}

#[tokio::test]
async fn unknown_slug_is_never_cached() {
    let service = caching_service().await;
    let caller = service.caller().await;
    for _ in 0..REPEATS {
        assert_eq!(service.follow("/later").await.status, 404);
    }
    link_to_old(&service, &caller, "later").await;
    assert_target_stays(&service, "later", OLD).await;
}

#[tokio::test]
async fn concurrent_requests_share_one_load() {
    let service = Arc::new(caching_service().await);
    let caller = service.caller().await;
    link_to_old(&service, &caller, "popular").await;
    // The lock blocks every read of the row.
    let mut tx = PoolTransaction::begin(service.pool()).await.unwrap();
    tx.execute("LOCK TABLE read_model.redirects IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let requests: Vec<_> = (0..REPEATS)
        .map(|_| {
            let service = Arc::clone(&service);
            in_background(async move { service.follow("/popular").await.status })
        })
        .collect();
    let waiting = async || sessions_waiting_for_lock(service.pool()).await;
    eventually("somebody waits for the row", async || {
        (waiting().await > 0).then_some(())
    })
    .await;
    for _ in 0..LOOKS {
        // On a slow machine the load times out.
        assert!(waiting().await <= 1, "one asks for all");
    }
    tx.commit().await.unwrap();
    for request in requests {
        let status = request.await.unwrap();
        // On a slow machine the load times out.
        assert!(status == 302 || status == 503, "{status}");
    }
}
