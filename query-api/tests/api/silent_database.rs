//! A Postgres server that falls silent.

use std::time::Duration;

use axum::http::Method;
use futures::future::join_all;
use linkledger_service::databases::DatabaseSettings;
use linkledger_testing::{TestDatabase, eventually_within, wire::Wire};
use tokio::time::timeout;

use crate::service::TestService;

/// Longer than every timeout of the service, and far below the timeouts of TCP.
const ANSWERED_WITHIN: Duration = Duration::from_mins(1);
/// Twice as many requests as the concurrent statements can share.
const READS: usize = 600;

#[tokio::test(flavor = "multi_thread")]
async fn reads_survive_silent_database() {
    let database = TestDatabase::create().await;
    let (wire, url) = Wire::to(&database).await;
    let service = TestService::start_with(database, |config| {
        config.databases = DatabaseSettings::one(url);
    })
    .await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "silent").await;
    let by_id = format!("/v1/links/{}", link.link.link_id);
    let mut paths = vec![
        "/v1/links?slug=silent",
        "/v1/credits",
        "/v1/credits/entries",
    ];
    for shared in [by_id.as_str(), "/v1/links"] {
        paths.extend(std::iter::repeat_n(shared, READS));
    }
    assert_eq!(service.get(&caller, "/v1/links").await.status, 200);

    wire.fall_silent();
    let reads = join_all(paths.iter().map(|path| service.get(&caller, path)));
    let visit = service.call_short_host(Method::GET, "/silent", &[]);
    let answered = timeout(ANSWERED_WITHIN, async { tokio::join!(reads, visit) });
    let (reads, visit) = answered.await.expect("every request is answered");
    for answer in reads {
        answer.assert_problem(503, "storage_unavailable");
    }
    assert_eq!(visit.status, 503);

    wire.mend();
    eventually_within(ANSWERED_WITHIN, "it reads again", async || {
        (service.get(&caller, "/v1/links").await.status == 200).then_some(())
    })
    .await;
}
