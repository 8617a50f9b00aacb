//! A writer: drains its queue into batches, and runs the batches one after the other.

use std::{sync::Arc, time::Instant};

use linkledger_core::metrics::{APPEND_BATCH_SIZE, COMMAND_QUEUE_DEPTH};
use metrics::{gauge, histogram};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{QueuedCommand, batch_run, waiting::WaitingCommands};
use crate::command_handler::CommandHandler;

/// Maximum number of commands that a writer holds in addition to its queue.
const WAITING_MAX: usize = 4_096;

/// Runs until the queue is closed and all commands are answered.
pub(super) async fn run(
    number: usize,
    handler: Arc<CommandHandler>,
    mut queue: mpsc::Receiver<QueuedCommand>,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let depth = gauge!(COMMAND_QUEUE_DEPTH, "writer" => number.to_string());
    let mut waiting = WaitingCommands::default();
    loop {
        if !waiting.has_ready(Instant::now()) {
            tokio::select! {
                received = queue.recv() => match received {
                    Some(command) => waiting.admit(command),
                    // The last commands wait for locks of other processes.
                    None if !waiting.is_empty() => waiting.until_next_retry().await,
                    None if shutdown.is_cancelled() => return Ok(()),
                    None => anyhow::bail!("all senders of the command queue are gone"),
                },
                () = waiting.until_next_retry(), if !waiting.is_empty() => {}
            }
        }
        while waiting.len() < WAITING_MAX
            && let Ok(command) = queue.try_recv()
        {
            waiting.admit(command);
        }
        depth.set(count(queue.len() + waiting.len()));
        let batch = waiting.take_batch(Instant::now());
        if batch.is_empty() {
            continue;
        }
        histogram!(APPEND_BATCH_SIZE).record(count(batch.len()));
        let accounts = batch
            .iter()
            .map(|queued| queued.command.account_id())
            .collect();
        let requeued = batch_run::run(&handler, batch).await;
        // Accounts of the batch without a requeued command lose their backoff.
        waiting.requeue(accounts, requeued, Instant::now());
    }
}

fn count(length: usize) -> f64 {
    f64::from(u32::try_from(length).unwrap_or(u32::MAX))
}
