//! Rebuild of one account: its rows in the served generations are projected again from the log.
//!
//! The account's events are read in chunks of its stream. Under the lock of the checkpoint, the
//! projection writes the rows of a chunk in one transaction, each from all its applied events: no
//! reader sees an intermediate state. Orphans, which no event explains, stay: `verify --repair`
//! deletes them.

use anyhow::Context as _;
use linkledger_core::{
    databases::Databases,
    id::AccountId,
    shard::{Position, Shard},
};
use serde::Serialize;
use sqlx::{AssertSqlSafe, FromRow, PgPool};

use crate::{
    operations::verify::{
        self, GenerationTarget, exceptions::Exceptions, reprojection::project_and_commit,
        snapshot::ShardSnapshot,
    },
    pipeline::retry::retried,
    read_models::{
        Projection,
        description::{
            EXCEPTIONS, NOT_SKIPPED, RebuiltFrom, first_waiting_position, first_waiting_version,
        },
        read_model,
        redirects::RedirectChanges,
    },
};

/// Events of the account's stream in one chunk.
const CHUNK_EVENTS: i64 = 200;

/// Most events that one chunk projects, except for a link that alone has more.
const PROJECTED_EVENTS: i64 = 2_000;

/// Result of the rebuild of one account in one read model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AccountRebuild {
    /// Name of the read model.
    pub projection: &'static str,
    /// Number of the served generation.
    pub generation: i32,
    /// Number of events that were projected again.
    pub events: u64,
}

/// Returns the number of events of the account's own stream, which a rebuild of the account reads.
///
/// # Errors
/// Returns an error if there is no such account, or if the database fails.
pub async fn event_count(pool: &PgPool, account_id: AccountId) -> anyhow::Result<u64> {
    let version = sqlx::query_scalar!(
        "SELECT version FROM event_store.accounts WHERE account_id = $1",
        account_id.uuid()
    )
    .fetch_optional(pool)
    .await
    .context("cannot read the account")?;
    let version = version.with_context(|| format!("there is no account `{account_id}`"))?;
    Ok(version.unsigned_abs())
}

/// Projects all rows of an account again, up to the checkpoint, or to the first waiting event of a
/// parked account.
///
/// # Errors
/// Returns an error if this release cannot read an event of the account, if a checkpoint stays locked,
/// or if the database fails. The same command repeats the work safely.
pub async fn rebuild_account(
    databases: &Databases,
    projection: Projection,
    account_id: AccountId,
) -> anyhow::Result<AccountRebuild> {
    let target = verify::served(&databases.read, projection).await?;
    let mut progress = AccountProgress::default();
    while !progress.is_done {
        progress = retried(|| rebuild_chunk(databases, target, account_id, progress)).await?;
    }
    Ok(AccountRebuild {
        projection: projection.name(),
        generation: target.generation,
        events: progress.events,
    })
}

#[derive(Debug, Default, Clone, Copy)]
struct AccountProgress {
    /// Last version of the account's stream whose rows are written.
    version: i64,
    /// Last status event up to that version.
    status_event: Option<Position>,
    events: u64,
    is_done: bool,
}

/// Row of [`chunk_statement`].
#[derive(FromRow)]
struct ChunkRow {
    is_last: bool,
    last_version: Option<i64>,
    status_event: Option<Position>,
    positions: Vec<Position>,
}

async fn rebuild_chunk(
    databases: &Databases,
    target: GenerationTarget,
    account_id: AccountId,
    mut progress: AccountProgress,
) -> anyhow::Result<AccountProgress> {
    let projection = target.projection;
    let shard = Shard::of(account_id);
    let mut snapshot = ShardSnapshot::lock(databases, target, shard).await?;
    let account_ids = [account_id.uuid()];
    let exceptions = Exceptions::of_accounts(&mut snapshot.tx, target, &account_ids).await?;
    let statement = sqlx::query_as(AssertSqlSafe(chunk_statement(projection)));
    let chunk: ChunkRow = exceptions
        .bind(statement)
        .bind(shard.number())
        .bind(snapshot.checkpoint)
        .bind(account_id.uuid())
        .bind(progress.version)
        .bind(CHUNK_EVENTS)
        .bind(PROJECTED_EVENTS)
        .fetch_one(&snapshot.log)
        .await
        .context("cannot read the events of the account")?;
    progress.version = chunk.last_version.unwrap_or(progress.version);
    progress.status_event = chunk.status_event.or(progress.status_event);
    progress.is_done = chunk.is_last;
    let mut positions = chunk.positions;
    let mut changes = RedirectChanges::default();
    if progress.is_done && projection == Projection::Redirects {
        // Earlier status events would change the account's row for a moment.
        positions.extend(progress.status_event);
        // Caches may hold redirects of the account that have no row.
        changes.add_account(account_id.uuid());
    }
    progress.events += project_and_commit(snapshot, positions, changes).await?;
    Ok(progress)
}

/// Returns the statement of the next events of the account's stream after the version `$9`, up to `$10`
/// events whose rows have up to `$11` events, with the positions of all events from which the projection
/// writes their rows.
///
/// A charge stands right behind the creation of its link: no index by account is needed. The link of a
/// charge is projected as soon as its creation is applied, though the charge itself may wait.
pub fn chunk_statement(projection: Projection) -> String {
    let (link, positions, admitted) = chunk_parts(read_model(projection).rebuilt_from);
    let first_waiting_position = first_waiting_position("$8::uuid");
    let first_waiting_version = first_waiting_version("$8::uuid");
    format!(
        "WITH {EXCEPTIONS}, bound AS MATERIALIZED (
            SELECT least($7::bigint, {first_waiting_position} - 1) AS applied_up_to,
                   {first_waiting_version} AS first_waiting_version
        ), next AS MATERIALIZED (
            SELECT e.*, e.type IN ('CreditsGranted', 'CreditsAdjusted', 'CreditsCharged')
                            AS is_credit_event
            FROM event_store.events AS e
            WHERE e.shard = $6 AND e.stream_id = $8 AND e.version > $9
              AND {admitted} <= (SELECT applied_up_to FROM bound)
            ORDER BY e.version
            LIMIT $10::bigint
        ), measured AS MATERIALIZED (
            SELECT e.*, link.link_id,
                   sum(coalesce(link.event_count, 0)) OVER (
                       ORDER BY e.version ROWS UNBOUNDED PRECEDING
                   ) AS events_up_to,
                   row_number() OVER (ORDER BY e.version) AS number
            FROM next AS e
            LEFT JOIN LATERAL ({link}) AS link ON true
        ), chunk AS MATERIALIZED (
            SELECT * FROM measured WHERE number = 1 OR events_up_to <= $11::bigint
        )
        SELECT (SELECT count(*) FROM next) < $10
                   AND (SELECT count(*) FROM chunk) = (SELECT count(*) FROM next) AS is_last,
               (SELECT max(version) FROM chunk) AS last_version,
               (SELECT max(e.position) FROM chunk AS e
                WHERE NOT e.is_credit_event AND e.position <= (SELECT applied_up_to FROM bound)
                  AND {NOT_SKIPPED}) AS status_event,
               ARRAY({positions}) AS positions"
    )
}

/// Returns the parts of [`chunk_statement`] that differ: the link of the event `e` with the number of
/// the link's events, the positions to project, and the position that must be applied.
fn chunk_parts(rebuilt_from: RebuiltFrom) -> (String, String, &'static str) {
    match rebuilt_from {
        RebuiltFrom::Credits => (
            "SELECT NULL::uuid AS link_id, 1 AS event_count".to_owned(),
            format!(
                "SELECT e.position FROM chunk AS e WHERE e.is_credit_event AND {NOT_SKIPPED}
                 UNION
                 SELECT last.position FROM (
                     SELECT e.position FROM event_store.events AS e
                     WHERE e.shard = $6 AND e.stream_id = $8
                       AND e.version < (SELECT first_waiting_version FROM bound)
                       AND e.position <= (SELECT applied_up_to FROM bound)
                       AND e.type IN ('CreditsGranted', 'CreditsAdjusted', 'CreditsCharged')
                       AND {NOT_SKIPPED}
                     ORDER BY e.version DESC
                     LIMIT 1
                 ) AS last"
            ),
            "e.position",
        ),
        RebuiltFrom::Links => (
            "SELECT first.stream_id AS link_id, last.version AS event_count
             FROM (
                 SELECT stream_id, account_id, version FROM event_store.events
                 WHERE shard = $6 AND position = e.position - 1
                 LIMIT 1
             ) AS first
             CROSS JOIN LATERAL (
                 SELECT version FROM event_store.events
                 WHERE shard = $6 AND stream_id = first.stream_id
                 ORDER BY version DESC
                 LIMIT 1
             ) AS last
             WHERE first.account_id = $8 AND first.stream_id <> $8 AND first.version = 1"
                .to_owned(),
            format!(
                "SELECT e.position FROM chunk
                 CROSS JOIN LATERAL (
                     SELECT e.position FROM event_store.events AS e
                     WHERE e.shard = $6 AND e.stream_id = chunk.link_id
                       AND e.position <= (SELECT applied_up_to FROM bound) AND {NOT_SKIPPED}
                 ) AS e
                 WHERE chunk.link_id IS NOT NULL"
            ),
            "e.position - (e.type NOT IN ('AccountSuspended', 'AccountResumed'))::int",
        ),
    }
}
