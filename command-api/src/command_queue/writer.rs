//! A writer: drains its queue into batches and runs one after the other.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use metrics::{counter, gauge, histogram};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Queued, Refusal, Reply};
use crate::command_handler::CommandHandler;

/// Most commands of one batch.
const BATCH_COMMANDS_MAX: usize = 512;
/// Most bytes of addresses in one batch; the largest address has 2 KiB.
const BATCH_BYTES_MAX: usize = 512 * 1024;
/// First delay before commands are tried again whose accounts are held elsewhere.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(2);
/// Longest such delay; bounded in number by each command's deadline.
const RETRY_DELAY_MAX: Duration = Duration::from_millis(50);

/// Runs until the queue is closed and empty.
pub(super) async fn run(
    handler: Arc<CommandHandler>,
    mut queue: mpsc::Receiver<Queued>,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    // Commands that were given back, oldest first; they go before all others.
    let mut given_back: VecDeque<Queued> = VecDeque::new();
    let mut retry_delay = RETRY_DELAY_MIN;
    loop {
        if given_back.is_empty() {
            retry_delay = RETRY_DELAY_MIN;
            match queue.recv().await {
                Some(command) => given_back.push_back(command),
                None if shutdown.is_cancelled() => return Ok(()),
                None => anyhow::bail!("all senders of the command queue are gone"),
            }
        } else {
            match tokio::time::timeout(retry_delay, queue.recv()).await {
                Ok(Some(command)) => given_back.push_back(command),
                Ok(None) => tokio::time::sleep(retry_delay).await,
                Err(_elapsed) => {}
            }
            retry_delay = (retry_delay * 2).min(RETRY_DELAY_MAX);
        }
        let batch = form_batch(&mut given_back, &mut queue);
        gauge!("command_queue_depth").set(count(queue.len() + given_back.len()));
        if batch.is_empty() {
            continue;
        }
        histogram!("append_batch_size").record(count(batch.len()));
        for command in handler.run(batch).await.into_iter().rev() {
            given_back.push_front(command);
        }
    }
}

fn count(length: usize) -> f64 {
    f64::from(u32::try_from(length).unwrap_or(u32::MAX))
}

/// What waits, up to the bounds of a batch; commands that waited too long are answered instead.
fn form_batch(waiting: &mut VecDeque<Queued>, queue: &mut mpsc::Receiver<Queued>) -> Vec<Queued> {
    let now = Instant::now();
    let mut batch = Vec::new();
    let mut bytes = 0;
    while batch.len() < BATCH_COMMANDS_MAX && bytes < BATCH_BYTES_MAX {
        let Some(command) = waiting.pop_front().or_else(|| queue.try_recv().ok()) else {
            break;
        };
        if command.deadline <= now {
            counter!("commands_expired_total").increment(1);
            command.answer(Reply::Refused(Refusal::Overloaded));
            continue;
        }
        bytes += command
            .create
            .body
            .as_ref()
            .map_or(0, |draft| draft.destination.as_str().len());
        batch.push(command);
    }
    batch
}
