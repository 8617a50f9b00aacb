//! Processes that are killed at any step of the relay, or stopped while another process takes over.

use linkledger_testing::{TestBroker, TestDatabase, eventually, stream::Stream};

use crate::{
    fixture::{DRAIN_TIME_MAX, all_stored, assert_published_once, drained, published_of},
    load::{self, Load, report},
    process::Process,
};

/// Fail points of the relay, in order.
const FAIL_POINTS: [&str; 5] = [
    "relay.read",
    "relay.sent",
    "relay.acknowledged",
    "relay.before_store",
    "relay.stored",
];
/// Number of kills at each fail point, unless [`KILLS_VARIABLE`] is set.
const KILLS: usize = 2;
const KILLS_VARIABLE: &str = "LINKLEDGER_TEST_KILLS";

#[tokio::test(flavor = "multi_thread")]
async fn kill_at_any_step_leaves_no_gap() {
    let kills = std::env::var(KILLS_VARIABLE).map_or(KILLS, |it| it.parse().unwrap());
    let (database, broker) = (TestDatabase::create().await, TestBroker::start().await);
    let load = Load::append(&database).await;
    for nth in 0..kills {
        for fail_point in FAIL_POINTS {
            // Early in the life of the process, and later.
            let fail_at = format!("{fail_point}:{}", 1 + nth * 3 % 7);
            let process = Process::start(&database, &broker.config(), "one", Some(&fail_at));
            process.dies().await;
        }
    }
    load.stop().await;
    let _process = Process::start(&database, &broker.config(), "one", None);
    drained(database.pool(), DRAIN_TIME_MAX).await;
    let repeated = Stream::assert_is_the_log(&broker.config(), database.pool()).await;
    let (published, _) = published_of(database.pool()).await;
    report(&format!(
        "killed {} times: {published} events, none missing, {repeated} repeated",
        kills * FAIL_POINTS.len()
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_process_repeats_only_successors_records() {
    let (database, broker) = (TestDatabase::create().await, TestBroker::start().await);
    let pool = database.pool();
    let load = Load::append(&database).await;
    let first = Process::start(&database, &broker.config(), "one", None);
    load::published_more(pool, 100).await;
    first.pause();
    let stored = all_stored(pool).await;
    let second = Process::start(&database, &broker.config(), "two", None);
    let leads = async |owner: &str, shards: i64| {
        let owned = "SELECT count(*) FROM event_store.relay_cursors
                     WHERE owner = $1 AND lease_expires_at > now()";
        eventually("the leases change hands", async || {
            let owned = sqlx::query_scalar(owned).bind(owner);
            (owned.fetch_one(pool).await.ok() == Some(shards)).then_some(())
        })
        .await;
    };
    leads("two", 16).await;
    load::published_more(pool, 100).await;
    first.go_on();
    load::published_more(pool, 100).await;
    second.pause();
    leads("one", 16).await;
    load::published_more(pool, 100).await;
    second.go_on();
    load.stop().await;
    drained(pool, DRAIN_TIME_MAX).await;
    let stream = Stream::read(&broker.config()).await;
    let repeated = stream.assert_equals_log(pool).await;
    report(&format!("two pauses: {repeated} records repeated"));
    // From the first pause on, each process is the successor of the other.
    assert_published_once(&stream, &stored);
}
