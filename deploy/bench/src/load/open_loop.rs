//! Load with a fixed arrival rate, whatever the server does.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use super::{HttpConnection, LoadOutcome, LoadTarget, all_seen};

/// Seed of the random numbers, so that every run has the same arrivals.
const SEED: u64 = 1;

/// Sends `per_second` requests a second on average, at times that do not depend on responses (a
/// Poisson process), and measures each latency from the time at which the request was due. A
/// request that is due while every connection is busy waits, and the wait counts.
///
/// The timer wakes up to a millisecond late; this delay counts as well.
///
/// # Errors
/// Returns an error if a connection breaks, or if a response does not come.
pub async fn open_loop(
    target: &LoadTarget,
    per_second: f64,
    duration: Duration,
) -> anyhow::Result<LoadOutcome> {
    let opened = target.connect().await?;
    let arrivals: Arc<[Duration]> = arrivals(per_second, duration).into();
    let next = Arc::new(AtomicUsize::new(0));
    let begin = Instant::now();
    let mut connections = JoinSet::new();
    for connection in opened {
        let schedule = (Arc::clone(&arrivals), Arc::clone(&next));
        connections.spawn(ask(connection, target.clone(), schedule, begin));
    }
    let mut outcome = all_seen(connections, duration).await?;
    outcome.seconds = begin.elapsed().as_secs_f64();
    Ok(outcome)
}

async fn ask(
    mut connection: HttpConnection,
    target: LoadTarget,
    (arrivals, next): (Arc<[Duration]>, Arc<AtomicUsize>),
    begin: Instant,
) -> anyhow::Result<LoadOutcome> {
    let mut request = Vec::new();
    let mut outcome = LoadOutcome::default();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some(arrival) = arrivals.get(number) else {
            return Ok(outcome);
        };
        request.clear();
        (target.requests)(number as u64, &mut request);
        let due = begin + *arrival;
        sleep_until(due).await;
        let answer = connection.exchange(&request).await;
        let status = answer.context("a request is not answered")?.status;
        outcome.record(status, target.expected_status, due.elapsed());
    }
}

/// Draws the times at which requests are due, from the beginning of the load.
pub(super) fn arrivals(per_second: f64, duration: Duration) -> Vec<Duration> {
    let mut random = SmallRng::seed_from_u64(SEED);
    let mut due = 0.0;
    let mut arrivals = Vec::new();
    loop {
        // The time between two arrivals of a Poisson process has an exponential distribution.
        due -= (1.0 - random.random::<f64>()).ln() / per_second;
        if due >= duration.as_secs_f64() {
            return arrivals;
        }
        arrivals.push(Duration::from_secs_f64(due));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::arrivals;

    #[test]
    fn arrivals_have_the_wanted_rate_and_jitter() {
        let arrivals = arrivals(1_000.0, Duration::from_secs(10));
        assert!(
            (9_500..10_500).contains(&arrivals.len()),
            "{}",
            arrivals.len()
        );
        assert!(arrivals.is_sorted());
        let gaps: Vec<_> = arrivals
            .windows(2)
            .map(|pair| pair[1].saturating_sub(pair[0]))
            .collect();
        let long = gaps.iter().filter(|gap| gap.as_micros() > 2_000).count();
        // e^-2 of them are longer than twice their mean.
        assert!((1_200..1_500).contains(&long), "{long}");
    }
}
