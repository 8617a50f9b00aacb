//! Load with a fixed number of requests, each sent once.

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

/// Longest duration of the load.
const DURATION_MAX: Duration = Duration::from_mins(10);

/// Sends the first `count` requests, on every connection without a pause.
///
/// # Errors
/// Returns an error if a connection breaks, or if a response does not come.
pub async fn each_once(target: &LoadTarget, count: u64) -> anyhow::Result<LoadOutcome> {
    let opened = target.connect().await?;
    let numbers = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    let mut connections = JoinSet::new();
    for connection in opened {
        let numbers = Arc::clone(&numbers);
        connections.spawn(ask(connection, target.clone(), numbers, count));
    }
    let mut outcome = all_seen(connections, DURATION_MAX).await?;
    outcome.seconds = begun.elapsed().as_secs_f64();
    Ok(outcome)
}

async fn ask(
    mut connection: HttpConnection,
    target: LoadTarget,
    numbers: Arc<AtomicU64>,
    count: u64,
) -> anyhow::Result<LoadOutcome> {
    let mut request = Vec::new();
    let mut outcome = LoadOutcome::default();
    loop {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            return Ok(outcome);
        }
        request.clear();
        (target.requests)(number, &mut request);
        let asked = Instant::now();
        let answer = connection.exchange(&request).await;
        let status = answer.context("a request is not answered")?.status;
        outcome.record(status, target.expected_status, asked.elapsed());
    }
}
