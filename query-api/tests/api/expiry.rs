//! Expiry of short links: every process obeys the instant by its own clock.

use std::time::Duration;

use linkledger_core::clock::{Clock as _, SystemClock};
use linkledger_testing::{TestDatabase, eventually};
use time::OffsetDateTime;

use crate::{
    read_tables::insert_redirect,
    redirect_cache::{OLD, link_to_old, tolerant_service_on, until_cached},
    service::{Answer, TestService},
};

const HOUR: Duration = Duration::from_hours(1);
const LATER: &str = "https://example.com/later";

async fn set_expiry(service: &TestService, at: OffsetDateTime, expired_url: Option<&str>) {
    sqlx::query("UPDATE read_model.redirects SET expires_at = $1, expired_url = $2")
        .bind(at)
        .bind(expired_url)
        .execute(service.pool())
        .await
        .unwrap();
}

#[track_caller]
fn assert_leads_to(answer: &Answer, destination: &str) {
    assert_eq!(answer.status, 302, "{}", answer.body);
    assert_eq!(answer.header("location"), Some(destination));
}

#[tokio::test]
async fn expired_link_is_gone_or_leads_to_expired_url() {
    let service = TestService::start_with(TestDatabase::create().await, |config| {
        config.redirect_status = "308".parse().unwrap();
    })
    .await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "fest").await;
    insert_redirect(service.pool(), &link).await;
    let now = service.clock.now();
    set_expiry(&service, now + time::Duration::MILLISECOND, None).await;
    assert_eq!(service.follow("/fest").await.status, 308);
    set_expiry(&service, now, None).await;
    let gone = service.follow("/fest").await;
    assert_eq!(gone.status, 410);
    assert_eq!(gone.header("location"), None);
    set_expiry(&service, now, Some(LATER)).await;
    let answer = service.follow("/fest").await;
    assert_leads_to(&answer, LATER);
    assert_eq!(answer.header("cache-control"), Some("private, no-store"));
}

/// No row changes and no change is announced: each cache compares the instant with its clock.
#[tokio::test]
async fn caches_of_two_processes_obey_the_instant() {
    let one = tolerant_service_on(TestDatabase::create().await).await;
    let other = tolerant_service_on(one.database.share()).await;
    let caller = one.caller().await;
    link_to_old(&one, &caller, "fest").await;
    let at = one.clock.now() + HOUR;
    set_expiry(&one, at, Some(LATER)).await;
    for service in [&one, &other] {
        until_cached(service, "fest").await;
    }
    one.clock.advance(HOUR);
    assert_leads_to(&one.follow("/fest").await, LATER);
    assert_leads_to(&other.follow("/fest").await, OLD);
    other.clock.advance(HOUR);
    assert_leads_to(&other.follow("/fest").await, LATER);
}

/// The services read the clock after the test has: a request that begins at the instant or later is never redirected.
#[tokio::test]
async fn no_request_after_the_instant_is_redirected() {
    let with_cache = |database| {
        TestService::start_by_system_clock(database, |config| config.redirect_cache_mib = 1)
    };
    let one = with_cache(TestDatabase::create().await).await;
    let other = with_cache(one.database.share()).await;
    let caller = one.caller().await;
    link_to_old(&one, &caller, "fest").await;
    let at = SystemClock.now() + Duration::from_secs(1);
    set_expiry(&one, at, None).await;
    for service in [&one, &other] {
        eventually("the link is over", async || {
            let asked_at = SystemClock.now();
            let answer = service.follow("/fest").await;
            let is_over = answer.status == 410;
            // On a slow host the changes of redirects may be read too late: 503.
            assert!(
                !answer.status.is_redirection() || asked_at < at,
                "{asked_at}"
            );
            is_over.then_some(())
        })
        .await;
    }
}
