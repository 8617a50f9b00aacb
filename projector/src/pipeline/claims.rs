//! Claims of shards: table `read_model.claims`, renewed once a second with a report for operators.
//!
//! Each process takes its share of the shards by itself, from the rows that all of them see; there is no coordinator.
//! A claim that was not renewed for 3 s is free: after a kill, a freeze or a partition, another process takes the shard
//! over. Only the clock of the database counts.
//!
//! Two processes may apply a shard for a moment, since a claim is taken without asking. That is safe: a transaction
//! moves the checkpoint from the position that the process has read, so of two that apply the same events, one writes.

mod share;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::Context as _;
use linkledger_core::{
    clock::{Clock as _, SystemClock, new_uuid},
    projection::{PerProjection, Projection},
    shard::{Position, Shard},
};
use linkledger_event_store::{log::PerShard, time_limit::within};
use linkledger_service::lifecycle::host_name;
use sqlx::PgPool;
use time::OffsetDateTime;
use tokio::{sync::watch, time::Instant};
use uuid::Uuid;

/// Interval of the renewals.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(1);
/// Time after which a claim that was not renewed is free, as in the statement below.
const EXPIRY: Duration = Duration::from_secs(3);
/// Timeout of a renewal, which delays events meanwhile.
const RENEWAL_TIME_MAX: Duration = Duration::from_secs(1);
/// Maximum number of characters of a reported error.
const ERROR_LENGTH_MAX: usize = 500;

/// Position of each projection in a shard that this process has claimed; `None` while it is not known.
pub type ShardReport = (Shard, PerProjection<Option<Position>>);

/// The shards that a process has claimed, now and later.
pub type ClaimedShards = watch::Receiver<BTreeSet<Shard>>;

/// Claims of this process.
pub struct Claims {
    pool: PgPool,
    /// Number of this process: the name of a process may come again.
    owner_id: Uuid,
    owner: String,
    owned: watch::Sender<BTreeSet<Shard>>,
    /// Last attempt, and last success.
    attempted_at: Option<Instant>,
    renewed_at: Option<Instant>,
    /// True if the last renewal came after a silence.
    was_silent: bool,
    measured: BTreeMap<Shard, (Instant, PerProjection<Option<Position>>)>,
    /// Latest error that is not reported yet, with its time.
    error: Option<(String, OffsetDateTime)>,
}

impl Claims {
    /// Returns the claims of a process, which owns nothing yet. `owner` is the name by which operators find it.
    pub fn new(pool: PgPool, owner: String) -> Self {
        Self {
            pool,
            owner_id: new_uuid(SystemClock.now()),
            owner,
            owned: watch::Sender::default(),
            attempted_at: None,
            renewed_at: None,
            was_silent: false,
            measured: BTreeMap::new(),
            error: None,
        }
    }

    /// Returns the name by which an operator finds this process: host and process id.
    pub fn process_name() -> String {
        format!("{}:{}", host_name(), std::process::id())
    }

    /// Returns true once the shards of this process are known, even if it has none.
    pub fn are_known(&self) -> bool {
        self.renewed_at.is_some()
    }

    /// Returns the shards that this process owns.
    pub fn owned(&self) -> BTreeSet<Shard> {
        self.owned.borrow().clone()
    }

    /// Returns the shards that this process owns, for the aggregation of clicks: it has the same claims.
    pub fn shards(&self) -> ClaimedShards {
        self.owned.subscribe()
    }

    /// Records an error for the next renewal.
    pub fn record_error(&mut self, error: &anyhow::Error) {
        let text = format!("{error:#}");
        let text = text.chars().take(ERROR_LENGTH_MAX).collect();
        self.error = Some((text, SystemClock.now()));
    }

    /// Renews the claims and takes free shards, if the last renewal is older than a second. Returns true
    /// if it did.
    ///
    /// # Errors
    /// Returns an error if the database fails. The process then keeps its shards: if another one has taken them, its
    /// checkpoints have moved.
    pub async fn renew_if_due(&mut self, reports: &[ShardReport]) -> anyhow::Result<bool> {
        let is_recent = |at: Instant| at.elapsed() < RENEWAL_INTERVAL;
        if self.attempted_at.is_some_and(is_recent) {
            return Ok(false);
        }
        self.renew(reports).await?;
        Ok(true)
    }

    /// Renews the claims and takes free shards.
    ///
    /// # Errors
    /// Like [`Claims::renew_if_due`]; the recorded error is then in the next report.
    pub async fn renew(&mut self, reports: &[ShardReport]) -> anyhow::Result<()> {
        let renewal = within(RENEWAL_TIME_MAX, self.try_renew(reports)).await;
        // Also after a failure: a database that does not answer must not be asked in each cycle.
        self.attempted_at = Some(Instant::now());
        let owned = renewal.context("cannot renew the claims of shards")?;
        let before = self.owned();
        if !before.is_disjoint(&owned) {
            self.error = None;
        }
        self.renewed_at = self.attempted_at;
        self.measured.retain(|shard, _| owned.contains(shard));
        if owned != before {
            let numbers = |shards: &BTreeSet<Shard>| -> Vec<i16> {
                shards.iter().map(|shard| shard.number()).collect()
            };
            tracing::info!(shards = ?numbers(&owned), before = ?numbers(&before), "claimed shards");
            self.owned.send_replace(owned);
        }
        Ok(())
    }

    async fn try_renew(&mut self, reports: &[ShardReport]) -> sqlx::Result<BTreeSet<Shard>> {
        let owners = self.owners().await?;
        let own = self.owner_id;
        // What nobody has taken meanwhile stays with this process.
        let living = owners.map(|(owner_id, is_renewed)| {
            owner_id.filter(|owner_id| is_renewed || *owner_id == own)
        });
        let is_own = |shard: &Shard| owners[shard.index()].0 == Some(own);
        // After a silence of the database, all claims have expired, also those of processes that are about to renew
        // them: this process then takes only what nobody owns, until its next renewal.
        let is_silent = self.renewed_at.is_some_and(|at| at.elapsed() >= EXPIRY);
        self.was_silent = is_silent && !self.was_silent;
        let mut claimable = share::claimable(&living, own);
        claimable.retain(|shard| !self.was_silent || owners[shard.index()].0.is_none());
        let kept = Shard::all().filter(is_own);
        let rows = kept.chain(claimable).map(|shard| {
            let report = reports.iter().find(|(reported, _)| *reported == shard);
            let rates = report.map_or([0.0; _], |(_, positions)| self.rates(shard, *positions));
            (shard.number(), owners[shard.index()].0, by_name(rates))
        });
        let (shards, owner_ids, rates): (Vec<_>, Vec<_>, Vec<_>) = rows.collect();
        self.write(&shards, &owner_ids, &rates).await
    }

    /// Reads the owner of each shard, and whether it has renewed its claim in time.
    async fn owners(&self) -> sqlx::Result<PerShard<(Option<Uuid>, bool)>> {
        let rows = sqlx::query!(
            r#"
            SELECT shard, owner_id,
                   -- A later time: the clock was set back.
                   coalesce(renewed_at BETWEEN now() - interval '3 seconds'
                       AND now() + interval '3 seconds', false) AS "is_renewed!"
            FROM read_model.claims
            "#
        )
        .fetch_all(&self.pool)
        .await?;
        let mut owners = PerShard::default();
        for row in rows {
            if let Some(shard) = Shard::new(row.shard.into()) {
                owners[shard.index()] = (row.owner_id, row.is_renewed);
            }
        }
        Ok(owners)
    }

    /// Returns the events per second since the previous report on the shard.
    #[expect(clippy::cast_precision_loss, reason = "a rate is a float")]
    fn rates(
        &mut self,
        shard: Shard,
        positions: PerProjection<Option<Position>>,
    ) -> PerProjection<f64> {
        let now = Instant::now();
        let Some((at, before)) = self.measured.insert(shard, (now, positions)) else {
            return PerProjection::default();
        };
        let seconds = (now - at).as_secs_f64().max(f64::EPSILON);
        std::array::from_fn(|index| {
            let progress = positions[index].zip(before[index]);
            let events = progress.map_or(0, |(position, before)| (position - before).max(0));
            events as f64 / seconds
        })
    }

    /// Writes the claims whose owner is still the one that was read. Returns the shards that this process then owns.
    async fn write(
        &self,
        shards: &[i16],
        owner_ids: &[Option<Uuid>],
        rates: &[serde_json::Value],
    ) -> sqlx::Result<BTreeSet<Shard>> {
        let (error, error_at) = self.error.as_ref().map(|(text, at)| (text, *at)).unzip();
        let shards = sqlx::query_scalar!(
            r#"
            WITH claimed AS (
                SELECT c.shard, n.rates
                FROM unnest($1::smallint[], $2::uuid[], $3::jsonb[]) AS n (shard, owner_id, rates)
                JOIN read_model.claims AS c USING (shard)
                WHERE c.owner_id IS NOT DISTINCT FROM n.owner_id
                ORDER BY c.shard
                FOR NO KEY UPDATE OF c
            )
            UPDATE read_model.claims AS c
            SET owner_id = $4, owner = $5, version = $6, renewed_at = now(),
                events_per_second = claimed.rates,
                last_error = CASE WHEN c.owner_id = $4 THEN coalesce($7, c.last_error) ELSE c.last_error END,
                last_error_at = CASE WHEN c.owner_id = $4 THEN coalesce($8, c.last_error_at) ELSE c.last_error_at END
            FROM claimed
            WHERE c.shard = claimed.shard
            RETURNING c.shard
            "#,
            shards,
            owner_ids as &[Option<Uuid>],
            rates,
            self.owner_id,
            self.owner,
            env!("CARGO_PKG_VERSION"),
            error,
            error_at
        )
        .fetch_all(&self.pool)
        .await?;
        let shards = shards.into_iter();
        Ok(shards
            .filter_map(|number| Shard::new(number.into()))
            .collect())
    }

    /// Gives all shards up, with the recorded error, so that the other processes need not wait until the claims expire.
    /// A failure is only logged.
    pub async fn release(&mut self) {
        let (error, error_at) = self.error.take().unzip();
        let releasing = sqlx::query!(
            "
            WITH owned AS (
                SELECT shard FROM read_model.claims WHERE owner_id = $1
                -- The order of the other statements.
                ORDER BY shard
                FOR NO KEY UPDATE
            )
            UPDATE read_model.claims AS c
            SET owner_id = NULL, last_error = coalesce($2, c.last_error),
                last_error_at = coalesce($3, c.last_error_at)
            FROM owned
            WHERE c.shard = owned.shard
            ",
            self.owner_id,
            error,
            error_at
        );
        if let Err(error) = within(RENEWAL_TIME_MAX, releasing.execute(&self.pool)).await {
            tracing::warn!(%error, "cannot give the claims of shards up: they expire within 3 s");
        }
    }
}

/// Returns the rates with the names of the projections.
fn by_name(rates: PerProjection<f64>) -> serde_json::Value {
    let names = Projection::ALL.map(Projection::name);
    names.into_iter().zip(rates).collect()
}
