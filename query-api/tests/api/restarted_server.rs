//! A Postgres server that is stopped and started again, or that ends all sessions.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use futures::future::join_all;
use linkledger_testing::{TestDatabase, eventually};
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use crate::{
    read_tables::{insert_appended_link, insert_redirect},
    service::{Answer, TestCaller, TestService},
};

/// Shortest outage, in seconds.
const OUTAGE_MIN: Duration = Duration::from_secs(2);
/// Number of times that the server ends all sessions, as a restart does.
const SESSION_ENDS: usize = 20;
/// Number of reads of each path between two ends: each session may have run a statement.
const READS: usize = 20;
/// Shortest time for which the service retries a read whose session has ended, in seconds: that of a redirect.
const RETRY_TIME: Duration = Duration::from_secs(2);
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

/// Reads until `stop`, and counts in `reads`; each answer must be a success, unless the host is so slow that the read was
/// retried for as long as the service retries.
async fn succeed_until(
    stop: CancellationToken,
    service: &TestService,
    caller: &TestCaller,
    (path, reads): (&str, &AtomicUsize),
) {
    while !stop.is_cancelled() {
        let sent_at = Instant::now();
        let answer = read(service, caller, path).await;
        assert!(
            is_success(&answer) || answer.status == 503 && sent_at.elapsed() >= RETRY_TIME,
            "{path}: {} {}",
            answer.status,
            answer.body
        );
        reads.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
}

/// The outage is so short that no session is tested before its next statement.
#[tokio::test(flavor = "multi_thread")]
async fn ended_sessions_fail_no_read() {
    let database = TestDatabase::create().await;
    let service = TestService::start_with(database, |config| config.redirect_cache_mib = 0).await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "spring").await;
    insert_appended_link(service.pool(), &link).await;
    insert_redirect(service.pool(), &link).await;
    let by_id = format!("/v1/links/{}", link.link.link_id);
    let by_destination = format!(
        "/v1/links?destination_url={}",
        link.link.destination_url.as_str()
    );
    let paths = [
        &*by_id,
        "/v1/links",
        "/v1/links?slug=spring",
        &by_destination,
        "/v1/credits",
        "/v1/credits/entries",
        SHORT_HOST,
    ];
    let reads = paths.map(|_| AtomicUsize::new(0));
    let stop = CancellationToken::new();
    let readers = paths.into_iter().zip(&reads).cycle().take(2 * paths.len());
    let readers = readers.map(|of| succeed_until(stop.clone(), &service, &caller, of));
    let ends = async {
        for _ in 0..SESSION_ENDS {
            let before = reads.each_ref().map(|reads| reads.load(Ordering::Relaxed));
            eventually("every path is read", async || {
                let mut paths = reads.iter().zip(before);
                let is_read = |(reads, before): (&AtomicUsize, usize)| {
                    reads.load(Ordering::Relaxed) >= before + READS
                };
                paths.all(is_read).then_some(())
            })
            .await;
            // A key that is not cached yet is looked up on a dead session as well.
            let newcomer = service.caller().await;
            end_sessions(service.pool()).await;
            let sent_at = Instant::now();
            let answer = service.get(&newcomer, "/v1/credits").await;
            assert!(
                answer.status == 200 || answer.status == 503 && sent_at.elapsed() >= RETRY_TIME,
                "{} {}",
                answer.status,
                answer.body
            );
        }
        stop.cancel();
    };
    tokio::join!(join_all(readers), ends);
}

/// Ends all sessions of the service.
async fn end_sessions(pool: &PgPool) {
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name = 'linkledger'";
    let ended = sqlx::query(end).execute(pool).await.unwrap();
    assert!(ended.rows_affected() > 0);
}
