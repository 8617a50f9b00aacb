//! Rows of the read tables for an account or a link, read in one snapshot.

use linkledger_core::{
    envelope::RecordedEvent,
    id::AccountId,
    shard::{Position, Shard},
    timestamp,
};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

use super::{
    ParkedWhy,
    link::Creation,
    rows::{self, BalanceRow, EntryRow, LinkRow, RedirectRow},
};
use crate::read_models::Projection;

/// Rows, and checkpoints of the same snapshot.
#[derive(Debug, Default)]
pub(super) struct RowsSnapshot {
    /// Checkpoint of each projection.
    pub(super) checkpoints: Vec<SubjectCheckpoint>,
    /// Shown events that wait behind a parked one.
    waiting: Vec<(Projection, Position)>,
    pub(super) link: Option<LinkRow>,
    pub(super) redirect: Option<RedirectRow>,
    pub(super) entry: Option<EntryRow>,
    pub(super) balance: Option<BalanceRow>,
    /// True if the redirects of the account are stopped.
    pub(super) is_stopped: bool,
    /// Number of links, counted up to 1,000.
    pub(super) links: i64,
}

/// Checkpoint of a projection in the shard of the account.
#[derive(Debug)]
pub(super) struct SubjectCheckpoint {
    pub(super) projection: Projection,
    pub(super) generation: i32,
    pub(super) epoch: i32,
    pub(super) position: Position,
    pub(super) paused_at: Option<OffsetDateTime>,
    pub(super) parked: Option<ParkedWhy>,
    /// True if an operator skipped an event of the account.
    pub(super) has_skipped: bool,
}

impl SubjectCheckpoint {
    /// Returns the position up to which every event of the account is applied.
    pub(super) fn applied_up_to(&self) -> Position {
        let parked = self.parked.as_ref().map(|it| it.position - 1);
        parked.map_or(self.position, |it| it.min(self.position))
    }
}

impl RowsSnapshot {
    /// Reads the snapshot. `creation` is that of the link, if the subject is a link; `events` are
    /// the shown events.
    pub(super) async fn read(
        pool: &PgPool,
        account_id: AccountId,
        creation: Option<&Creation>,
        events: &[RecordedEvent],
    ) -> sqlx::Result<Self> {
        let mut tx = pool
            .begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            .await?;
        let mut snapshot = Self {
            checkpoints: checkpoints_in_tx(&mut tx, account_id).await?,
            ..Self::default()
        };
        snapshot.waiting = waiting_in_tx(&mut tx, account_id, events).await?;
        let generation = |projection| {
            let mut checkpoints = snapshot.checkpoints.iter();
            let checkpoint = checkpoints.find(|it| it.projection == projection);
            checkpoint.map_or(0, |it| it.generation)
        };
        let [links, redirects, credits] = [
            Projection::Links,
            Projection::Redirects,
            Projection::Credits,
        ]
        .map(generation);
        let account = account_id.uuid();
        snapshot.is_stopped = rows::is_stopped_in_tx(&mut tx, redirects, account).await?;
        match creation {
            None => {
                snapshot.links = rows::links_in_tx(&mut tx, links, account).await?;
                snapshot.balance = rows::balance_in_tx(&mut tx, credits, account).await?;
            }
            Some(creation) => {
                snapshot.link =
                    rows::link_in_tx(&mut tx, links, account, creation.link_id.uuid()).await?;
                if let Some(slug) = creation.slug_folded() {
                    snapshot.redirect = rows::redirect_in_tx(&mut tx, redirects, &slug).await?;
                }
                if let Some(charge) = &creation.charge {
                    let version = charge.version;
                    snapshot.entry = rows::entry_in_tx(&mut tx, credits, account, version).await?;
                }
            }
        }
        tx.rollback().await?;
        if let Some(redirect) = &mut snapshot.redirect {
            redirect.account_is_stopped = snapshot.is_stopped;
        }
        Ok(snapshot)
    }

    /// Returns true if the event waits: the account is parked for this event or an earlier one.
    pub(super) fn waits(&self, projection: Projection, position: Position) -> bool {
        self.waiting.contains(&(projection, position))
    }
}

async fn checkpoints_in_tx(
    tx: &mut PgConnection,
    account_id: AccountId,
) -> sqlx::Result<Vec<SubjectCheckpoint>> {
    let rows = sqlx::query!(
        r#"
        SELECT c.projection, c.generation, c.epoch, c.position, c.paused_at,
               a.position AS "parked_position?", a.event_type AS "parked_event_type?",
               a.detail AS "detail?", a.parked_at AS "parked_at?",
               EXISTS (
                   SELECT FROM read_model.skipped_events AS s
                   WHERE s.account_id = $2 AND s.projection = c.projection
               ) AS "has_skipped!"
        FROM read_model.checkpoints AS c
        LEFT JOIN read_model.parked_accounts AS a
            ON a.account_id = $2 AND a.projection = c.projection AND a.generation = c.generation
        WHERE c.shard = $1 AND c.role = 'live'
        ORDER BY c.projection
        "#,
        Shard::of(account_id).number(),
        account_id.uuid()
    )
    .fetch_all(tx)
    .await?;
    let known = rows.into_iter().filter_map(|row| {
        let parked = row.parked_position.zip(row.parked_at);
        Some(SubjectCheckpoint {
            projection: Projection::named(&row.projection)?,
            generation: row.generation,
            epoch: row.epoch,
            position: row.position,
            paused_at: row.paused_at,
            parked: parked.map(|(position, parked_at)| ParkedWhy {
                position,
                event_type: row.parked_event_type.unwrap_or_default(),
                detail: row.detail.unwrap_or_default(),
                parked_at: timestamp::format(parked_at),
            }),
            has_skipped: row.has_skipped,
        })
    });
    Ok(known.collect())
}

async fn waiting_in_tx(
    tx: &mut PgConnection,
    account_id: AccountId,
    events: &[RecordedEvent],
) -> sqlx::Result<Vec<(Projection, Position)>> {
    let positions: Vec<Position> = events.iter().map(|it| it.position).collect();
    let rows = sqlx::query!(
        "
        SELECT e.projection, e.position
        FROM read_model.checkpoints AS c
        CROSS JOIN unnest($2::bigint[]) AS place (position)
        JOIN read_model.parked_events AS e
            ON e.projection = c.projection AND e.generation = c.generation AND e.shard = c.shard
           AND e.position = place.position
        WHERE c.shard = $1 AND c.role = 'live'
        ",
        Shard::of(account_id).number(),
        &positions
    )
    .fetch_all(tx)
    .await?;
    let known = rows
        .into_iter()
        .filter_map(|row| Some((Projection::named(&row.projection)?, row.position)));
    Ok(known.collect())
}
