//! Requests that come when they come, whatever the server does.

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

use super::{Connection, Outcome, Target, all_seen};

/// The same arrivals in every run.
const SEED: u64 = 1;

/// Asks `per_second` times a second on average, at times that do not depend on answers (a Poisson
/// process), and takes each latency from the time at which the request was due. What is due while
/// every connection is busy waits, and its waiting counts.
///
/// The timer wakes up to a millisecond late, which counts as well.
///
/// # Errors
/// When a connection breaks, or an answer does not come.
pub async fn open_loop(
    target: &Target,
    per_second: f64,
    duration: Duration,
) -> anyhow::Result<Outcome> {
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
    mut connection: Connection,
    target: Target,
    (arrivals, next): (Arc<[Duration]>, Arc<AtomicUsize>),
    begin: Instant,
) -> anyhow::Result<Outcome> {
    let mut request = Vec::new();
    let mut outcome = Outcome::default();
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

/// When requests are due, from the beginning on.
pub(super) fn arrivals(per_second: f64, duration: Duration) -> Vec<Duration> {
    let mut random = SmallRng::seed_from_u64(SEED);
    let mut due = 0.0;
    let mut arrivals = Vec::new();
    loop {
        // The time between two arrivals of a Poisson process is distributed exponentially.
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
    fn arrivals_are_as_many_as_asked_for_in_order_and_not_evenly_spread() {
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
