//! Publishing the log again from a position, into an empty topic.
//!
//! What must stay true: of what a partition gets after a refill, the first record is the one right
//! after the position. A later one in front of it would make consumers, who apply only what is above
//! the highest sequence they have, skip everything between: a hole. So nothing that was read from
//! the log before the refill may reach the topic after it was found empty:
//!
//! 1. Publishing is paused: a relay gives its leases up within a second, ends its producer, and
//!    strikes itself off `relay_producers`. Nobody gets a lease meanwhile.
//! 2. The refill waits until nobody is noted there. A process that does not strike itself off (it
//!    was killed, or is stopped) may wake up with records in its producer: the refill ends with its
//!    name, until it is started again under its name, or an operator says that it has ended
//!    (`--ended`). A producer that ended while requests were unanswered, or of which the next
//!    process of its name knows no more, counts until its closed connection can't deliver them.
//! 3. Only then is the topic looked at. From here on nobody can add to it: to make a producer takes
//!    a lease, and the row of that lease.
//! 4. One transaction locks all rows of the leases, looks again that nobody is noted and that no
//!    lease was taken meanwhile, sets the cursors, and raises the epoch of every lease. A relay that
//!    slept since before the pause finds its leases gone when it notes its producer, which it does
//!    under the same locks before it makes one.
//!
//! And no event may be left out: the position is at or below what has been published, so that
//! everything above it is on this topic, and everything else was on the one before.

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
    refusal::Refusal,
    topic::{self, Cluster, Topic},
};

/// Who has paused while a refill is under way.
const REFILL: &str = "relay refill";

/// What to publish again.
#[derive(Debug, Clone)]
pub struct Refill {
    /// The first record of each shard is the one after it.
    pub from: Position,
    /// One shard, or all.
    pub shard: Option<Shard>,
    /// Processes that have ended without saying so.
    pub ended: Vec<String>,
    /// Who asks for it.
    pub by: String,
}

/// What will be published.
#[derive(Debug, Clone)]
pub struct Refilled {
    /// The cluster that the cursors are bound to.
    pub cluster_id: Option<String>,
    /// The topic.
    pub topic: Topic,
    /// How many events that are, as far as the log has grown.
    pub events: i64,
    /// Whether an operator has paused publishing, and it stays so.
    pub is_paused: bool,
}

impl Refill {
    fn shards(&self) -> Vec<Shard> {
        self.shard
            .map_or_else(|| Shard::all().collect(), |shard| vec![shard])
    }
}

/// Lets the relay publish again what comes after a position.
///
/// # Errors
/// When the topic is not empty or not as it must be, the position is beyond the log or beyond what
/// was published, or processes may still publish.
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
    nothing_is_left_out(refill, &published.context("can't read the cursors")?)?;
    silence::nobody_runs(pool, &refill.ended).await?;
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

/// The topic, provided that it has no records where some are to be published.
async fn empty_topic(kafka: &KafkaConfig, refill: &Refill) -> anyhow::Result<(Cluster, Topic)> {
    let mut cluster = topic::describe(kafka).await?;
    let Some(topic) = cluster.topic.take() else {
        let topic = kafka.topic.as_str().to_owned();
        return Err(Refusal::NoTopic { topic }.into());
    };
    if let Some(refusal) = topic.refusal() {
        return Err(refusal.into());
    }
    let of = |shard: &Shard| topic.watermarks[shard.index()];
    let shards = refill.shards();
    if let Some(shard) = shards.iter().find(|it| of(it).low < of(it).high) {
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

/// How many events there are to publish; the position must not be beyond the log.
async fn backlog(pool: &PgPool, refill: &Refill) -> anyhow::Result<i64> {
    let heads: PerShard<Position> = log::heads(pool)
        .await
        .context("can't read the log's heads")?;
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

/// What was `published`, by shard, is on the topic before: up to the cursor, and nothing of the log
/// as it was before a restore. What is above it must be on this one.
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

/// Step 4 of the argument above.
async fn set_cursors(
    pool: &PgPool,
    refill: &Refill,
    lease_epochs: &[i64],
    cluster_id: Option<&str>,
) -> anyhow::Result<()> {
    let mut tx = pool.begin().await.context("can't begin")?;
    let rows = sqlx::query!(
        r#"SELECT lease_epoch, paused_at IS NOT NULL AS "is_paused!",
                  CASE WHEN epoch = (SELECT epoch FROM event_store.log_meta) THEN position ELSE 0
                  END AS "published!"
           FROM event_store.relay_cursors ORDER BY shard FOR NO KEY UPDATE"#
    )
    .fetch_all(&mut *tx)
    .await
    .context("can't lock the cursors")?;
    // In a statement of its own: it sees who was noted while the locks were waited for.
    let noted = producers::list(&mut *tx, &refill.ended).await?;
    let is_silent = noted.is_empty()
        && rows.iter().all(|row| row.is_paused)
        && rows.iter().map(|row| &row.lease_epoch).eq(lease_epochs);
    ensure!(
        is_silent,
        "somebody has resumed the relay meanwhile; nothing was changed, refill again"
    );
    let published: Vec<Position> = rows.iter().map(|row| row.published).collect();
    nothing_is_left_out(refill, &published)?;
    producers::forget(&mut *tx, &refill.ended).await?;
    let shards: Vec<i16> = refill.shards().iter().map(|it| it.number()).collect();
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
    .context("can't set the cursors")?;
    sqlx::query!(
        "UPDATE event_store.relay_cursors
         SET lease_epoch = lease_epoch + 1, owner = NULL, lease_expires_at = NULL, refusal = NULL,
             refused_at = NULL"
    )
    .execute(&mut *tx)
    .await
    .context("can't take the leases away")?;
    pause::end(&mut *tx, Some(REFILL)).await?;
    tx.commit()
        .await
        .context("it is not known whether it was done; `command-api relay status` shows it")
}
