//! Republish: publishing the log again from a position, into an empty topic.
//!
//! Invariant: the first record that a partition gets after a republish is the record right after the
//! position. Consumers apply only sequences above the highest applied one, so a later record in
//! front would make consumers skip every event between: a gap. Therefore no event that a relay has
//! read before the republish may reach the topic after the republish has found the topic empty:
//!
//! 1. Publishing is paused: a relay gives its lease up within a second, closes its producer, and
//!    ends its registration in `relay_producers`. No process acquires the lease meanwhile.
//! 2. The republish waits until no process is registered. A process that does not end its registration
//!    (it was killed, or is stopped) may wake up with records in its producer. The republish then fails
//!    and names the process, until the process is started again under the same name, or an operator
//!    says that the process has ended (`--ended`). A producer that was closed with unanswered
//!    requests, or was killed, counts for the settling time of its connections.
//! 3. Only then the republish checks that the topic is empty. From then on no process can publish: a
//!    new producer needs the lease and a registration.
//! 4. One transaction locks all cursors, checks again that no process is registered and that the
//!    lease was not acquired meanwhile, moves the cursors, and raises the fencing epoch. A relay that
//!    slept since before the pause registers its producer under the same locks, and finds the lease
//!    lost.
//!
//! No event is left out: the position is at or below the published position, so every later event
//! is published to this topic, and every earlier event was published to the former topic.

use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail, ensure};
use clap::Args;
use linkledger_core::{
    shard::{Position, Shard},
    timestamp,
};
use linkledger_event_store::{log::PerShard, transaction::PoolTransaction};
use linkledger_service::{kafka_config::KafkaConfig, kafka_errors::KafkaErrors};
use serde::Serialize;
use sqlx::PgPool;

use super::{
    cursor::{self, Cursor},
    pause::{self, REPUBLISH},
    producers::{self, RegisteredProducer},
    topic::{self, Topic},
};

/// Time in which relays close their producers after publishing was paused.
const PRODUCERS_WAIT: Duration = Duration::from_secs(15);
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Request to publish the log again.
#[derive(Debug, Clone, Args)]
pub struct Republish {
    /// Position before the first record of each shard; 0 for the whole log. Must not be beyond the
    /// published position.
    #[arg(long, value_parser = clap::value_parser!(i64).range(0..))]
    pub from: Position,
    /// Only this shard, whose partition must be empty.
    #[arg(long)]
    pub shard: Option<Shard>,
    /// Name of a process that ended without closing its producer, as the error of `relay republish`
    /// shows it; can be repeated. If the process still runs, consumers may miss events.
    #[arg(long, value_name = "NAME")]
    pub ended: Vec<String>,
}

/// Result of a republish: the relay publishes from now on.
#[derive(Debug, Clone, Serialize)]
pub struct Republished {
    /// Position before the first record of each shard.
    pub from: Position,
    /// Republished shard; all shards if none is given.
    pub shard: Option<i16>,
    /// Name of the topic that is filled.
    pub topic: String,
    /// Cluster that the cursors are bound to.
    pub cluster_id: Option<String>,
    /// Number of events to publish, as of now.
    pub events: i64,
    /// True if an operator has paused publishing, and the pause continues.
    pub paused: bool,
    /// Days after which Kafka removes events; none if Kafka keeps events for ever.
    #[serde(skip)]
    pub retention_days: Option<i64>,
}

impl Republish {
    fn shards(&self) -> Vec<Shard> {
        self.shard
            .map_or_else(|| Shard::all().collect(), |shard| vec![shard])
    }
}

/// Moves the cursors back to a position, in the name of an operator, so that the relay publishes the later events
/// again. Ends early once `interrupted` ends.
///
/// # Errors
/// Returns an error if the topic is not empty or is refused, the position is beyond the log or
/// beyond the published events, or another process may still publish.
pub async fn republish(
    pool: &PgPool,
    kafka: &KafkaConfig,
    republish: &Republish,
    operator: &str,
    interrupted: impl Future<Output = ()>,
) -> anyhow::Result<Republished> {
    empty_topic(kafka, republish).await?;
    backlog(republish, &cursor::read(pool).await?)?;
    check_ended(pool, &republish.ended).await?;
    let reason = format!("the topic is being filled again, by {operator}");
    pause::begin(pool, REPUBLISH, &reason).await?;
    let republished = tokio::select! {
        republished = republish_while_paused(pool, kafka, republish, operator) => republished,
        () = interrupted => Err(anyhow!(
            "ended by a signal; `command-api relay status` shows whether it was done"
        )),
    };
    if republished.is_err() {
        pause::end(pool, Some(REPUBLISH), operator).await?;
    }
    republished
}

async fn republish_while_paused(
    pool: &PgPool,
    kafka: &KafkaConfig,
    republish: &Republish,
    operator: &str,
) -> anyhow::Result<Republished> {
    let lease_epochs = wait_for_producers(pool, &republish.ended).await?;
    let topic = empty_topic(kafka, republish).await?;
    let cluster_id = topic.cluster_id.as_deref();
    let before = set_cursors(pool, republish, &lease_epochs, cluster_id, operator).await?;
    let is_operators = |cursor: &Cursor| cursor.paused_by.as_deref() != Some(REPUBLISH);
    Ok(Republished {
        from: republish.from,
        shard: republish.shard.map(Shard::number),
        events: backlog(republish, &before)?,
        paused: before.iter().any(is_operators),
        retention_days: topic.retention_days(),
        topic: topic.name,
        cluster_id: topic.cluster_id,
    })
}

/// Describes the topic, unless a partition to be filled has records.
async fn empty_topic(kafka: &KafkaConfig, republish: &Republish) -> anyhow::Result<Topic> {
    let topic = topic::admit(kafka, KafkaErrors::new(topic::RIGHTS)).await?;
    let of = |shard: &Shard| topic.watermarks[shard.index()];
    let shards = republish.shards();
    if let Some(shard) = shards.iter().find(|shard| !of(shard).is_empty()) {
        bail!(
            "the topic {} has records (partition {shard}: offsets {} to {}), and a republish goes only \
             into an empty one: consumers would skip what they see after later events. Pause \
             (`command-api relay pause`), delete the topic, `command-api topic create`, then republish",
            topic.name,
            of(shard).low,
            of(shard).high - 1
        );
    }
    Ok(topic)
}

/// Counts the events to publish. Returns an error if the position is beyond the log or beyond the
/// published events: every later event must be published to the new topic.
fn backlog(republish: &Republish, cursors: &PerShard<Cursor>) -> anyhow::Result<i64> {
    let (from, mut events) = (republish.from, 0);
    for shard in republish.shards() {
        let cursor = &cursors[shard.index()];
        let (head, published) = (cursor.head, cursor.published());
        ensure!(
            from <= head,
            "--from {from} is beyond shard {shard} of the log, which ends at {head}"
        );
        ensure!(
            from <= published,
            "--from {from} is beyond what shard {shard} has published, which ends at {published}: \
             what is between would be on no topic; nothing was changed. Republish --from {published}, \
             or from below it"
        );
        events += head - from;
    }
    Ok(events)
}

/// Moves the cursors, step 4 of the argument above. Returns the cursors before the move.
async fn set_cursors(
    pool: &PgPool,
    republish: &Republish,
    lease_epochs: &PerShard<i64>,
    cluster_id: Option<&str>,
    operator: &str,
) -> anyhow::Result<PerShard<Cursor>> {
    let mut tx = PoolTransaction::begin(pool)
        .await
        .context("cannot begin a transaction")?;
    let cursors = cursor::lock_in_tx(&mut tx).await?;
    // A later statement sees registrations that were committed while this one waited for locks.
    let registered = producers::list(&mut *tx, &republish.ended).await?;
    let is_silent = registered.is_empty()
        && cursors.iter().all(|cursor| cursor.paused_at.is_some())
        && cursors.each_ref().map(|cursor| cursor.lease_epoch) == *lease_epochs;
    ensure!(
        is_silent,
        "the relay was resumed meanwhile; nothing was changed, republish again"
    );
    backlog(republish, &cursors)?;
    producers::forget(&mut *tx, &republish.ended).await?;
    let shards: Vec<i16> = republish
        .shards()
        .iter()
        .map(|shard| shard.number())
        .collect();
    sqlx::query!(
        "UPDATE event_store.relay_cursors
         SET position = $2, epoch = (SELECT epoch FROM event_store.log_meta), cluster_id = $3,
             record_offset = NULL, topic_lost = false
         WHERE shard = ANY($1)",
        &shards,
        republish.from,
        cluster_id
    )
    .execute(&mut *tx)
    .await
    .context("cannot move the cursors")?;
    sqlx::query!(
        "UPDATE event_store.relay_cursors
         SET lease_epoch = lease_epoch + 1, owner = NULL, lease_expires_at = NULL, refusal = NULL,
             refused_at = NULL"
    )
    .execute(&mut *tx)
    .await
    .context("cannot end the lease")?;
    pause::end(&mut *tx, Some(REPUBLISH), operator).await?;
    tx.commit()
        .await
        .context("it is not known whether it was done; `command-api relay status` shows it")?;
    Ok(cursors)
}

/// Checks that no process of `ended` has the lease: such a process is alive.
///
/// # Errors
/// Returns an error if a process has the lease, or the database fails.
async fn check_ended(pool: &PgPool, ended: &[String]) -> anyhow::Result<()> {
    let cursors = cursor::read(pool).await?;
    let leased = cursors.iter().filter(|cursor| cursor.lease_s.is_some());
    let mut owners = leased.filter_map(|cursor| cursor.owner.as_ref());
    let running = owners.find(|owner| ended.contains(owner));
    if let Some(owner) = running {
        bail!(
            "{owner} has not ended: it had the lease within the last three seconds; nothing was \
             changed. Republish without --ended {owner}, which waits for it"
        );
    }
    Ok(())
}

/// Waits until no process has the lease or a registered producer, except the processes of `ended`.
/// Returns the fencing epoch of each cursor.
///
/// # Errors
/// Returns an error if a process may still publish after [`PRODUCERS_WAIT`].
async fn wait_for_producers(pool: &PgPool, ended: &[String]) -> anyhow::Result<PerShard<i64>> {
    let begun = Instant::now();
    loop {
        let registered = producers::list(pool, ended).await?;
        let cursors = cursor::read(pool).await?;
        let leased = cursors.iter().find(|cursor| cursor.lease_s.is_some());
        if registered.is_empty() && leased.is_none() {
            return Ok(cursors.map(|cursor| cursor.lease_epoch));
        }
        if begun.elapsed() >= PRODUCERS_WAIT {
            if let Some(producer) = registered
                .iter()
                .min_by_key(|producer| producer.settles_at.is_some())
            {
                bail!("{}", still_publishing(producer));
            }
            let owner = leased.and_then(|cursor| cursor.owner.as_deref());
            bail!(
                "{} keeps the lease although publishing is paused: stop it, then republish",
                owner.unwrap_or_default()
            );
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

fn still_publishing(producer: &RegisteredProducer) -> String {
    let owner = &producer.owner;
    match producer.settles_at {
        Some(settles_at) => format!(
            "a producer of {owner} has ended, perhaps while requests were unanswered; they may \
             arrive until {}; nothing was changed. Republish then",
            timestamp::format(settles_at)
        ),
        None => format!(
            "{owner} does not say that its producer has ended, and may still publish later events; \
             nothing was changed. If this process is started again, republish five minutes later. \
             Else make sure that it has ended, wait five minutes for its connections, and republish \
             with --ended '{owner}'"
        ),
    }
}
