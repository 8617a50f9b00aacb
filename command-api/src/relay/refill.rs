//! Refill: publishing the log again from a position, into an empty topic.
//!
//! Invariant: the first record that a partition gets after a refill is the record right after the
//! position. Consumers apply only sequences above the highest applied one, so a later record in
//! front would make consumers skip every event between: a gap. Therefore no event that a relay has
//! read before the refill may reach the topic after the refill has found the topic empty:
//!
//! 1. Publishing is paused: a relay gives its lease up within a second, closes its producer, and
//!    ends its registration in `relay_producers`. No process acquires the lease meanwhile.
//! 2. The refill waits until no process is registered. A process that does not end its registration
//!    (it was killed, or is stopped) may wake up with records in its producer. The refill then fails
//!    and names the process, until the process is started again under the same name, or an operator
//!    says that the process has ended (`--ended`). A producer that was closed with unanswered
//!    requests, or was killed, counts for the settling time of its connections.
//! 3. Only then the refill checks that the topic is empty. From then on no process can publish: a
//!    new producer needs the lease and a registration.
//! 4. One transaction locks all cursors, checks again that no process is registered and that the
//!    lease was not acquired meanwhile, moves the cursors, and raises the fencing epoch. A relay that
//!    slept since before the pause registers its producer under the same locks, and finds the lease
//!    lost.
//!
//! No event is left out: the position is at or below the published position, so every later event
//! is published to this topic, and every earlier event was published to the former topic.

mod silence;

use anyhow::{Context as _, bail, ensure};
use linkledger_core::{
    event_store::log::{self, PerShard},
    kafka_config::KafkaConfig,
    shard::{Position, Shard},
};
use sqlx::PgPool;

use super::{
    pause, producers,
    refusal::RelayRefusal,
    topic::{self, Cluster, Topic},
};

/// Value of `paused_by` while a refill is in progress.
const REFILL: &str = "relay refill";

/// Request to publish the log again.
#[derive(Debug, Clone)]
pub struct Refill {
    /// Position before the first record of each shard.
    pub from: Position,
    /// Shard to refill; all shards if none is given.
    pub shard: Option<Shard>,
    /// Processes that have ended without ending their registration, according to the operator.
    pub ended: Vec<String>,
    /// Operator who asks for the refill.
    pub by: String,
}

/// Result of a refill: the relay publishes from now on.
#[derive(Debug, Clone)]
pub struct Refilled {
    /// Cluster that the cursors are bound to.
    pub cluster_id: Option<String>,
    /// Topic that is filled.
    pub topic: Topic,
    /// Number of events to publish, as of now.
    pub events: i64,
    /// True if an operator has paused publishing, and the pause continues.
    pub is_paused: bool,
}

impl Refill {
    fn shards(&self) -> Vec<Shard> {
        self.shard
            .map_or_else(|| Shard::all().collect(), |shard| vec![shard])
    }
}

/// Moves the cursors back to a position, so that the relay publishes the later events again.
///
/// # Errors
/// Returns an error if the topic is not empty or is refused, the position is beyond the log or
/// beyond the published events, or another process may still publish.
pub async fn refill(
    pool: &PgPool,
    kafka: &KafkaConfig,
    refill: &Refill,
) -> anyhow::Result<Refilled> {
    empty_topic(kafka, refill).await?;
    backlog(pool, refill).await?;
    let cursors = sqlx::query_scalar!(
        r#"SELECT CASE WHEN epoch = (SELECT epoch FROM event_store.log_meta) THEN position ELSE 0
                  END AS "published!"
           FROM event_store.relay_cursors ORDER BY shard"#
    );
    let published = cursors.fetch_all(pool).await;
    nothing_is_left_out(refill, &published.context("cannot read the cursors")?)?;
    silence::check_ended(pool, &refill.ended).await?;
    pause::begin(pool, REFILL, "the topic is being filled again").await?;
    let refilled = refill_in_silence(pool, kafka, refill).await;
    if refilled.is_err() {
        pause::end(pool, Some(REFILL)).await?;
    }
    refilled
}

async fn refill_in_silence(
    pool: &PgPool,
    kafka: &KafkaConfig,
    refill: &Refill,
) -> anyhow::Result<Refilled> {
    let lease_epochs = silence::wait(pool, &refill.ended).await?;
    let (cluster, topic) = empty_topic(kafka, refill).await?;
    set_cursors(pool, refill, &lease_epochs, cluster.id.as_deref()).await?;
    Ok(Refilled {
        cluster_id: cluster.id,
        topic,
        events: backlog(pool, refill).await?,
        is_paused: pause::find(pool).await?.is_some(),
    })
}

/// Describes cluster and topic, unless a partition to be filled has records.
async fn empty_topic(kafka: &KafkaConfig, refill: &Refill) -> anyhow::Result<(Cluster, Topic)> {
    let mut cluster = topic::describe(kafka).await?;
    let Some(topic) = cluster.topic.take() else {
        let topic = kafka.topic.as_str().to_owned();
        return Err(RelayRefusal::NoTopic { topic }.into());
    };
    if let Some(refusal) = topic.refusal() {
        return Err(refusal.into());
    }
    let of = |shard: &Shard| topic.watermarks[shard.index()];
    let shards = refill.shards();
    if let Some(shard) = shards.iter().find(|shard| of(shard).low < of(shard).high) {
        bail!(
            "the topic {} has records (partition {shard}: offsets {} to {}), and a refill goes only \
             into an empty one: consumers would skip what they see after later events. Pause \
             (`command-api relay pause`), delete the topic, `command-api topic create`, then refill",
            topic.name,
            of(shard).low,
            of(shard).high - 1
        );
    }
    Ok((cluster, topic))
}

/// Counts the events to publish, unless the position is beyond the log.
async fn backlog(pool: &PgPool, refill: &Refill) -> anyhow::Result<i64> {
    let heads: PerShard<Position> = log::heads(pool)
        .await
        .context("cannot read the heads of the log")?;
    let mut events = 0;
    for shard in refill.shards() {
        let head = heads[shard.index()];
        ensure!(
            refill.from <= head,
            "--from {} is beyond shard {shard} of the log, which ends at {head}",
            refill.from
        );
        events += head - refill.from;
    }
    Ok(events)
}

/// Checks that the refill leaves no event out. The `published` positions, by shard, are those of the
/// former topic: up to the cursor, or 0 if the log was restored since. Every later event must be
/// published to the new topic.
fn nothing_is_left_out(refill: &Refill, published: &[Position]) -> anyhow::Result<()> {
    for shard in refill.shards() {
        let cursor = published[shard.index()];
        ensure!(
            refill.from <= cursor,
            "--from {} is beyond what shard {shard} has published, which ends at {cursor}: what is \
             between would be on no topic; nothing was changed. Refill --from {cursor}, or from \
             below it",
            refill.from
        );
    }
    Ok(())
}

/// Moves the cursors, step 4 of the argument above.
async fn set_cursors(
    pool: &PgPool,
    refill: &Refill,
    lease_epochs: &[i64],
    cluster_id: Option<&str>,
) -> anyhow::Result<()> {
    let mut tx = pool.begin().await.context("cannot begin a transaction")?;
    let rows = sqlx::query!(
        r#"SELECT lease_epoch, paused_at IS NOT NULL AS "is_paused!",
                  CASE WHEN epoch = (SELECT epoch FROM event_store.log_meta) THEN position ELSE 0
                  END AS "published!"
           FROM event_store.relay_cursors ORDER BY shard FOR NO KEY UPDATE"#
    )
    .fetch_all(&mut *tx)
    .await
    .context("cannot lock the cursors")?;
    // A later statement sees registrations that were committed while this one waited for locks.
    let registered = producers::list(&mut *tx, &refill.ended).await?;
    let is_silent = registered.is_empty()
        && rows.iter().all(|row| row.is_paused)
        && rows.iter().map(|row| &row.lease_epoch).eq(lease_epochs);
    ensure!(
        is_silent,
        "the relay was resumed meanwhile; nothing was changed, refill again"
    );
    let published: Vec<Position> = rows.iter().map(|row| row.published).collect();
    nothing_is_left_out(refill, &published)?;
    producers::forget(&mut *tx, &refill.ended).await?;
    let shards: Vec<i16> = refill.shards().iter().map(|shard| shard.number()).collect();
    sqlx::query!(
        "UPDATE event_store.relay_cursors
         SET position = $2, epoch = (SELECT epoch FROM event_store.log_meta), cluster_id = $3,
             record_offset = NULL, topic_lost = false, refilled_at = now(), refilled_by = $4,
             refilled_from = $2
         WHERE shard = ANY($1)",
        &shards,
        refill.from,
        cluster_id,
        refill.by
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
    pause::end(&mut *tx, Some(REFILL)).await?;
    tx.commit()
        .await
        .context("it is not known whether it was done; `command-api relay status` shows it")
}
