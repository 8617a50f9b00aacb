//! A Postgres server that is stopped and started again.

use std::time::{Duration, Instant};

use futures::future::join_all;
use linkledger_testing::{TestDatabase, eventually};
use tokio_util::sync::CancellationToken;

use crate::{
    read_tables::{insert_appended_link, insert_redirect},
    service::{Answer, TestCaller, TestService},
};

/// Shortest outage, in seconds.
const OUTAGE_MIN: Duration = Duration::from_secs(2);
const SHORT_HOST: &str = "/spring";

async fn read(service: &TestService, caller: &TestCaller, path: &str) -> Answer {
    match path {
        SHORT_HOST => service.follow(path).await,
        _ => service.get(caller, path).await,
    }
}

fn is_success(answer: &Answer) -> bool {
    matches!(answer.status.as_u16(), 200 | 302)
}

/// Reads until `stop`; each answer must be a success or 503.
async fn read_until(
    stop: CancellationToken,
    service: &TestService,
    caller: &TestCaller,
    path: &str,
) {
    while !stop.is_cancelled() {
        let answer = read(service, caller, path).await;
        if !is_success(&answer) {
            assert_eq!(answer.status, 503, "{path}: {}", answer.body);
            assert!(answer.header("retry-after").is_some(), "{path}");
        }
        // The other readers and the test have their turn.
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_restart_gives_reads_200_or_503() {
    for redirect_cache_mib in [0, 1] {
        let (database, mut server) = TestDatabase::with_own_server().await;
        let service = TestService::start_with(database, |config| {
            config.redirect_cache_mib = redirect_cache_mib;
        })
        .await;
        let caller = service.caller().await;
        let link = service.append_link(&caller, "spring").await;
        insert_appended_link(service.pool(), &link).await;
        insert_redirect(service.pool(), &link).await;
        let by_id = format!("/v1/links/{}", link.link.link_id);
        let paths = [&*by_id, "/v1/links", "/v1/links?slug=spring", SHORT_HOST];
        let all_succeed = async || {
            let answers = paths.map(|path| read(&service, &caller, path));
            let answers = join_all(answers).await;
            answers.iter().all(is_success).then_some(())
        };
        eventually("reads succeed", &all_succeed).await;

        let stop = CancellationToken::new();
        let reading = paths.map(|path| read_until(stop.clone(), &service, &caller, path));
        let restart = async {
            let stopped_at = Instant::now();
            server.stop().await.unwrap();
            eventually("the outage is over", async || {
                (stopped_at.elapsed() >= OUTAGE_MIN).then_some(())
            })
            .await;
            server.start_again().await.unwrap();
            eventually("reads succeed again", &all_succeed).await;
            stop.cancel();
        };
        tokio::join!(join_all(reading), restart);
    }
}
