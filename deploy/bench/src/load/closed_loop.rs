//! Load with as many requests as the server answers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use tokio::task::JoinSet;

use super::{HttpConnection, LoadOutcome, LoadTarget, all_seen};

/// Sends requests on every connection without a pause, and counts the responses after the warm-up.
///
/// # Errors
/// Returns an error if a connection breaks, or if a response does not come.
pub async fn closed_loop(
    target: &LoadTarget,
    warm_up: Duration,
    duration: Duration,
) -> anyhow::Result<LoadOutcome> {
    let opened = target.connect().await?;
    let numbers = Arc::new(AtomicU64::new(0));
    let begin = Instant::now() + warm_up;
    let end = begin + duration;
    let mut connections = JoinSet::new();
    for connection in opened {
        let numbers = Arc::clone(&numbers);
        connections.spawn(ask(connection, target.clone(), numbers, (begin, end)));
    }
    let mut outcome = all_seen(connections, warm_up + duration).await?;
    outcome.seconds = duration.as_secs_f64();
    Ok(outcome)
}

async fn ask(
    mut connection: HttpConnection,
    target: LoadTarget,
    numbers: Arc<AtomicU64>,
    (begin, end): (Instant, Instant),
) -> anyhow::Result<LoadOutcome> {
    let mut request = Vec::new();
    let mut outcome = LoadOutcome::default();
    loop {
        request.clear();
        (target.requests)(numbers.fetch_add(1, Ordering::Relaxed), &mut request);
        let asked = Instant::now();
        let answer = connection.exchange(&request).await;
        let status = answer.context("a request is not answered")?.status;
        let answered = Instant::now();
        if answered >= end {
            return Ok(outcome);
        }
        if answered >= begin {
            outcome.record(status, target.expected_status, answered - asked);
        }
    }
}
