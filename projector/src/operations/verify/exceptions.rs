//! Events up to the checkpoint whose effects the read tables lack: skipped events, and waiting events of
//! parked accounts. Statements on the log take them as parameters, because the read tables may be on
//! another server.

use std::collections::BTreeSet;

use anyhow::Context as _;
use linkledger_core::shard::{Position, Shard};
use sqlx::{PgConnection, Postgres, postgres::PgArguments, query::QueryAs};
use uuid::Uuid;

use super::snapshot::GenerationTarget;

/// Exceptions as columns, for `unnest`.
#[derive(Debug, Default)]
pub(crate) struct Exceptions {
    skipped_shards: Vec<i16>,
    skipped_positions: Vec<Position>,
    skipped_event_ids: Vec<Uuid>,
    waiting_accounts: Vec<Uuid>,
    /// Position of the first waiting event of each parked account.
    waiting_positions: Vec<Position>,
}

/// Statement whose parameters are bound one after the other.
pub(super) type Statement<'q, Row> = QueryAs<'q, Postgres, Row, PgArguments>;

impl Exceptions {
    /// Reads the exceptions of a shard. Memory grows with the number of its parked accounts and skipped
    /// events, some bytes for each.
    pub(crate) async fn of_shard(
        tx: &mut PgConnection,
        target: GenerationTarget,
        shard: Shard,
    ) -> anyhow::Result<Self> {
        let mut exceptions = Self::default();
        let skipped = sqlx::query!(
            "
            SELECT position, event_id FROM read_model.skipped_events
            WHERE projection = $1 AND shard = $2
            ",
            target.projection.name(),
            shard.number()
        )
        .fetch_all(&mut *tx)
        .await
        .context("cannot read the skipped events")?;
        for row in skipped {
            exceptions.add_skipped(shard.number(), row.position, row.event_id);
        }
        let waiting = sqlx::query!(
            "
            SELECT p.account_id, w.position
            FROM read_model.parked_accounts AS p
            CROSS JOIN LATERAL (
                SELECT position FROM read_model.parked_events
                WHERE account_id = p.account_id AND projection = $1 AND generation = $2
                ORDER BY position
                LIMIT 1
            ) AS w
            WHERE p.projection = $1 AND p.generation = $2 AND p.shard = $3
            ",
            target.projection.name(),
            target.generation,
            shard.number()
        )
        .fetch_all(tx)
        .await
        .context("cannot read the waiting events of parked accounts")?;
        for row in waiting {
            exceptions.add_waiting(row.account_id, row.position);
        }
        Ok(exceptions)
    }

    /// Reads the exceptions of these accounts.
    pub(crate) async fn of_accounts(
        tx: &mut PgConnection,
        target: GenerationTarget,
        account_ids: &[Uuid],
    ) -> anyhow::Result<Self> {
        let account_ids: BTreeSet<Uuid> = account_ids.iter().copied().collect();
        let account_ids: Vec<Uuid> = account_ids.into_iter().collect();
        let mut exceptions = Self::default();
        let skipped = sqlx::query!(
            "
            SELECT shard, position, event_id FROM read_model.skipped_events
            WHERE account_id = ANY($1) AND projection = $2
            ",
            &account_ids,
            target.projection.name()
        )
        .fetch_all(&mut *tx)
        .await
        .context("cannot read the skipped events")?;
        for row in skipped {
            exceptions.add_skipped(row.shard, row.position, row.event_id);
        }
        let waiting = sqlx::query!(
            "
            SELECT p.account_id, w.position
            FROM unnest($1::uuid[]) AS wanted (account_id)
            CROSS JOIN LATERAL (
                SELECT account_id FROM read_model.parked_accounts
                WHERE account_id = wanted.account_id AND projection = $2 AND generation = $3
                LIMIT 1
            ) AS p
            CROSS JOIN LATERAL (
                SELECT position FROM read_model.parked_events
                WHERE account_id = p.account_id AND projection = $2 AND generation = $3
                ORDER BY position
                LIMIT 1
            ) AS w
            ",
            &account_ids,
            target.projection.name(),
            target.generation
        )
        .fetch_all(tx)
        .await
        .context("cannot read the waiting events of parked accounts")?;
        for row in waiting {
            exceptions.add_waiting(row.account_id, row.position);
        }
        Ok(exceptions)
    }

    fn add_skipped(&mut self, shard: i16, position: Position, event_id: Uuid) {
        self.skipped_shards.push(shard);
        self.skipped_positions.push(position);
        self.skipped_event_ids.push(event_id);
    }

    fn add_waiting(&mut self, account_id: Uuid, first: Position) {
        self.waiting_accounts.push(account_id);
        self.waiting_positions.push(first);
    }

    /// Binds the parameters of [`EXCEPTIONS`](crate::read_models::description::EXCEPTIONS).
    pub(crate) fn bind<'q, Row>(&self, statement: Statement<'q, Row>) -> Statement<'q, Row> {
        statement
            .bind(self.skipped_shards.clone())
            .bind(self.skipped_positions.clone())
            .bind(self.skipped_event_ids.clone())
            .bind(self.waiting_accounts.clone())
            .bind(self.waiting_positions.clone())
    }
}
