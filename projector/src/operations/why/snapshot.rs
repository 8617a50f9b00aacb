//! Rows of the read tables for an account or a link, read in one snapshot.

use linkledger_core::{
    envelope::RecordedEvent,
    event_store::transaction::PoolTransaction,
    id::AccountId,
    shard::{Position, Shard},
    timestamp,
};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

use super::{LinkRecord, ParkedWhy, ShownRow};
use crate::read_models::{
    Projection,
    credits::lookup::{balance_in_tx, entry_in_tx},
    description::WhyRows,
    links::lookup::{link_in_tx, links_in_tx},
    read_model,
    redirects::lookup::{RedirectRow, is_stopped_in_tx, redirect_in_tx},
};

/// Checkpoints with the rows of the subject, all of one snapshot.
#[derive(Debug)]
pub(super) struct RowsSnapshot {
    /// Checkpoint of each projection.
    pub(super) checkpoints: Vec<SubjectCheckpoint>,
    /// Shown events that wait behind a parked one.
    waiting: Vec<(Projection, Position)>,
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
    /// Row of the subject in the live generation.
    pub(super) shows: Option<ShownRow>,
}

impl SubjectCheckpoint {
    /// Returns the rows that are shown.
    pub(super) fn rows(&self) -> WhyRows {
        read_model(self.projection).why
    }

    /// Returns the position up to which every event of the account is applied.
    pub(super) fn applied_up_to(&self) -> Position {
        let parked = self.parked.as_ref().map(|it| it.position - 1);
        parked.map_or(self.position, |it| it.min(self.position))
    }
}

impl RowsSnapshot {
    /// Reads the snapshot. `link` is the subject, unless the subject is the account; `events` are the
    /// shown events.
    pub(super) async fn read(
        pool: &PgPool,
        account_id: AccountId,
        link: Option<&LinkRecord>,
        events: &[RecordedEvent],
    ) -> sqlx::Result<Self> {
        let mut tx =
            PoolTransaction::begin_with(pool, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                .await?;
        let mut checkpoints = checkpoints_in_tx(&mut tx, account_id).await?;
        let waiting = waiting_in_tx(&mut tx, account_id, events).await?;
        for checkpoint in &mut checkpoints {
            checkpoint.shows = match link {
                Some(link) => row_of_link_in_tx(&mut tx, checkpoint, account_id, link).await?,
                None => row_of_account_in_tx(&mut tx, checkpoint, account_id).await?,
            };
        }
        tx.rollback().await?;
        Ok(Self {
            checkpoints,
            waiting,
        })
    }

    /// Returns true if the event waits: the account is parked for this event or an earlier one.
    pub(super) fn waits(&self, projection: Projection, position: Position) -> bool {
        self.waiting.contains(&(projection, position))
    }
}

async fn row_of_link_in_tx(
    tx: &mut PgConnection,
    checkpoint: &SubjectCheckpoint,
    account_id: AccountId,
    link: &LinkRecord,
) -> sqlx::Result<Option<ShownRow>> {
    let (generation, account_id) = (checkpoint.generation, account_id.uuid());
    Ok(match checkpoint.rows() {
        WhyRows::None => None,
        WhyRows::Links => {
            let row = link_in_tx(tx, generation, account_id, link.link_id.uuid()).await?;
            row.map(ShownRow::Link)
        }
        WhyRows::Redirects => {
            let Some(slug) = link.slug_folded() else {
                return Ok(None);
            };
            let account_is_stopped = is_stopped_in_tx(tx, generation, account_id).await?;
            let row = redirect_in_tx(tx, generation, &slug).await?;
            row.map(|row| {
                ShownRow::Redirect(RedirectRow {
                    account_is_stopped,
                    ..row
                })
            })
        }
        WhyRows::Credits => {
            let Some(charge) = &link.charge else {
                return Ok(None);
            };
            let row = entry_in_tx(tx, generation, account_id, charge.version).await?;
            row.map(ShownRow::Entry)
        }
    })
}

async fn row_of_account_in_tx(
    tx: &mut PgConnection,
    checkpoint: &SubjectCheckpoint,
    account_id: AccountId,
) -> sqlx::Result<Option<ShownRow>> {
    let (generation, account_id) = (checkpoint.generation, account_id.uuid());
    Ok(match checkpoint.rows() {
        WhyRows::None => None,
        WhyRows::Links => Some(ShownRow::Links {
            links: links_in_tx(tx, generation, account_id).await?,
        }),
        WhyRows::Redirects => Some(ShownRow::Stopped {
            redirects_stopped: is_stopped_in_tx(tx, generation, account_id).await?,
        }),
        WhyRows::Credits => {
            let row = balance_in_tx(tx, generation, account_id).await?;
            row.map(ShownRow::Balance)
        }
    })
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
            shows: None,
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
