//! The epoch of the log: which one it is, and raising it after a restore that has lost events. The
//! history is table `event_store.log_epochs`.
//!
//! A raise changes nothing else. What refers to the former epoch is refused by whoever meets it,
//! until it is made anew: the relay's cursors by a refill, the read tables by a rebuild.

use anyhow::{Context as _, bail};
use linkledger_core::{
    event_store::log::{self, PerShard},
    shard::Position,
};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

/// How the epoch of the log is to be raised.
#[derive(Debug, Clone)]
pub struct Raise {
    /// An epoch that is known to have been published; the next is above it.
    pub above: i32,
    /// Who asks for it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Only say what it would come to.
    pub is_dry_run: bool,
}

/// A log that has another epoch, or would have.
#[derive(Debug, Clone)]
pub struct Raised {
    /// The epoch before.
    pub former_epoch: i32,
    /// The epoch of everything that is published from here on.
    pub epoch: i32,
    /// Where the log ended.
    pub heads: PerShard<Position>,
}

/// An epoch that was raised.
#[derive(Debug, Clone)]
pub struct PastRaise {
    /// The epoch that came of it.
    pub epoch: i32,
    /// The one before.
    pub former_epoch: i32,
    /// When.
    pub at: OffsetDateTime,
    /// By whom.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Where the log ended then, by shard.
    pub heads: Vec<Position>,
}

/// The epochs of the log and of what is made from it.
#[derive(Debug, Clone)]
pub struct Epochs {
    /// Of the log.
    pub epoch: i32,
    /// How it came to that, the latest first.
    pub raises: Vec<PastRaise>,
    /// What the relay's cursors refer to, each with how many shards.
    pub published: Vec<(i32, i64)>,
    /// What the live checkpoints refer to: projection, epoch, and how many shards.
    pub projected: Vec<(String, i32, i64)>,
}

/// Raises the epoch above all that are known. Nothing may be published meanwhile.
///
/// # Errors
/// When somebody publishes, or the database does not answer.
pub async fn raise(pool: &PgPool, raise: &Raise) -> anyhow::Result<Raised> {
    let mut tx = pool.begin().await.context("can't begin")?;
    // Nobody else raises it, and no relay takes a lease, until this is committed.
    let former_epoch = sqlx::query_scalar!("SELECT epoch FROM event_store.log_meta FOR UPDATE")
        .fetch_one(&mut *tx)
        .await
        .context("can't lock the epoch; try again")?;
    let highest = highest_known(&mut tx, former_epoch).await?;
    let epoch = highest.max(raise.above) + 1;
    let heads = log::heads(&mut *tx).await;
    let heads = heads.context("can't read the log's heads")?;
    if !raise.is_dry_run {
        sqlx::query!("UPDATE event_store.log_meta SET epoch = $1", epoch)
            .execute(&mut *tx)
            .await
            .context("can't raise the epoch")?;
        sqlx::query!(
            "INSERT INTO event_store.log_epochs (epoch, former_epoch, raised_by, reason, heads)
             VALUES ($1, $2, $3, $4, $5)",
            epoch,
            former_epoch,
            raise.by,
            raise.reason,
            &heads
        )
        .execute(&mut *tx)
        .await
        .context("can't note that the epoch is raised")?;
        tx.commit()
            .await
            .context("it is not known whether it was done; `command-api log epoch show` says so")?;
    }
    Ok(Raised {
        former_epoch,
        epoch,
        heads,
    })
}

/// The highest epoch that the cursors, the read tables or the log tell of, provided that nobody
/// publishes: a relay that refuses to, or is paused, does not.
async fn highest_known(tx: &mut PgConnection, log_epoch: i32) -> anyhow::Result<i32> {
    let cursors = sqlx::query!(
        r#"SELECT shard, epoch, lost_epoch, owner,
                  coalesce(lease_expires_at > now() AND refusal IS NULL, false) AS "is_published!"
           FROM event_store.relay_cursors ORDER BY shard FOR NO KEY UPDATE"#
    )
    .fetch_all(&mut *tx)
    .await
    .context("can't lock the cursors; try again")?;
    if let Some(cursor) = cursors.iter().find(|it| it.is_published) {
        let owner = cursor.owner.as_deref().unwrap_or_default();
        bail!(
            "{owner} publishes shard {}: raise the epoch when nothing is published. After a restore \
             stop every command-api; else `command-api relay pause --reason …`, and try again in a \
             second. Nothing was changed",
            cursor.shard
        );
    }
    let published = cursors.iter().map(|it| it.lost_epoch.max(Some(it.epoch)));
    let projected = sqlx::query_scalar!("SELECT max(epoch) FROM read_model.checkpoints")
        .fetch_one(tx)
        .await
        .context("can't read the checkpoints")?;
    let known = published.chain([projected]).flatten();
    Ok(known.fold(log_epoch, i32::max))
}

/// Reads the epochs of the log, of what is published and of the read tables.
///
/// # Errors
/// When the database does not answer.
pub async fn read(pool: &PgPool) -> anyhow::Result<Epochs> {
    let epoch = log::epoch(pool).await;
    let raises = sqlx::query_as!(
        PastRaise,
        "SELECT epoch, former_epoch, raised_at AS at, raised_by AS by, reason, heads
         FROM event_store.log_epochs ORDER BY epoch DESC"
    )
    .fetch_all(pool);
    let published = sqlx::query!(
        r#"SELECT epoch, count(*) AS "shards!" FROM event_store.relay_cursors
           GROUP BY epoch ORDER BY epoch"#
    )
    .fetch_all(pool);
    let projected = sqlx::query!(
        r#"SELECT projection, epoch, count(*) AS "shards!" FROM read_model.checkpoints
           WHERE role = 'live' GROUP BY projection, epoch ORDER BY projection, epoch"#
    )
    .fetch_all(pool);
    let published = published.await.context("can't read the cursors")?;
    let projected = projected.await.context("can't read the checkpoints")?;
    Ok(Epochs {
        epoch: epoch.context("can't read the log's epoch")?,
        raises: raises.await.context("can't read the former epochs")?,
        published: published.iter().map(|it| (it.epoch, it.shards)).collect(),
        projected: projected
            .into_iter()
            .map(|it| (it.projection, it.epoch, it.shards))
            .collect(),
    })
}

impl Epochs {
    /// What still refers to another epoch, and the command that ends it.
    pub fn remedies(&self) -> Vec<String> {
        let mut remedies = Vec::new();
        let is_other = |epoch: &i32| *epoch != self.epoch;
        if let Some((epoch, _)) = self.published.iter().find(|it| is_other(&it.0)) {
            remedies.push(format!(
                "What is published is of epoch {epoch}: `command-api relay refill --from 0`, into \
                 an empty topic."
            ));
        }
        let mut projections: Vec<&str> = Vec::new();
        for (projection, epoch, _) in &self.projected {
            if is_other(epoch) && !projections.contains(&projection.as_str()) {
                projections.push(projection);
            }
        }
        if !projections.is_empty() {
            remedies.push(format!(
                "The read tables of {} are of another epoch: `projector rebuild --all`. They are \
                 read as they are until then.",
                projections.join(", ")
            ));
        }
        remedies
    }
}
