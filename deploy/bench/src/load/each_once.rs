//! So many requests, each once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use tokio::task::JoinSet;

use super::{Connection, Outcome, Target, all_seen};

/// A load that takes longer is broken off.
const DURATION_MAX: Duration = Duration::from_mins(10);

/// Asks the first `count` requests, on every connection without a pause.
///
/// # Errors
/// When a connection breaks, or an answer does not come.
pub async fn each_once(target: &Target, count: u64) -> anyhow::Result<Outcome> {
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
    mut connection: Connection,
    target: Target,
    numbers: Arc<AtomicU64>,
    count: u64,
) -> anyhow::Result<Outcome> {
    let mut request = Vec::new();
    let mut outcome = Outcome::default();
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
