//! Rows of webhooks and the health of their receivers. Rows are written with the events of the webhooks.

mod stored;

use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::cursors::{self, ShardPlace};
use crate::{
    log::{self, PerShard},
    transaction::{PoolTransaction, SNAPSHOT},
};
use linkledger_core::{
    id::{AccountId, WebhookId},
    shard::Position,
    webhook::{DisabledReason, Webhook},
};

use self::stored::StoredRow;
pub use self::stored::{StoredWebhook, WebhookHealth};

/// Statement with a [`StoredRow`] for each row of the text, which begins with FROM.
macro_rules! query_webhooks {
    ($from:literal $(, $parameter:expr)*) => {
        query_webhooks!(
            @r#"
               (SELECT count(*) FROM (
                   SELECT FROM event_store.webhook_deliveries
                   WHERE webhook_id = w.webhook_id AND state = 'waiting'
                   LIMIT 1000
               ) AS counted) AS "waiting!",
               (SELECT count(*) FROM (
                   SELECT FROM event_store.webhook_deliveries
                   WHERE webhook_id = w.webhook_id AND state = 'failed'
                   LIMIT 1000
               ) AS counted) AS "failed!",
               coalesce((
                   SELECT true FROM event_store.webhook_cursors
                   WHERE webhook_id = w.webhook_id AND is_replay
                   LIMIT 1
               ), false) AS "replays!"
            "#,
            $from
            $(, $parameter)*
        )
    };
    // With the columns of deliveries and replays.
    (@$numbers:literal, $from:literal $(, $parameter:expr)*) => {
        sqlx::query_as!(
            StoredRow,
            r#"
        SELECT w.webhook_id AS "webhook_id!", w.account_id AS "account_id!", w.url AS "url!",
               w.types AS "types!", w.description, w.enabled AS "enabled!", w.disabled_reason,
               w.in_order AS "in_order!", w.all_accounts AS "all_accounts!",
               w.secret_key_id AS "secret_key_id!", w.secret_generation AS "secret_generation!",
               w.previous_key_id, w.previous_generation, w.previous_valid_until,
               w.created_at AS "created_at!", w.updated_at AS "updated_at!",
               h.ill_since, coalesce(h.probes, 0) AS "probes!", h.next_probe_at, h.failing_since,
               coalesce(h.notified_hours, 0::smallint) AS "notified_hours!", h.blocked_since,
               h.last_success_at, h.last_attempt_at, h.last_status, h.last_error,
        "# + $numbers + r#"
        FROM (SELECT * "# + $from + r#") AS w
        -- Not a join: planned on empty tables, it would read the health of all webhooks.
        LEFT JOIN LATERAL (
            SELECT * FROM event_store.webhook_health
            WHERE webhook_id = w.webhook_id
            LIMIT 1
        ) AS h ON true
        ORDER BY w.webhook_id
        "#
            $(, $parameter)*
        )
    };
}

/// Stores a new webhook, as its event says, whose receiver gets the events after the places. The caller must have
/// locked the account.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn insert_in_tx(
    tx: &mut PgConnection,
    webhook: &Webhook,
    start: &[ShardPlace],
) -> sqlx::Result<()> {
    let previous = webhook.previous_secret.as_ref();
    sqlx::query!(
        "
        INSERT INTO event_store.webhooks
            (webhook_id, account_id, url, types, description, enabled, disabled_reason, in_order,
             all_accounts, secret_key_id, secret_generation, previous_key_id, previous_generation,
             previous_valid_until, created_at, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
        ",
        webhook.webhook_id.uuid(),
        webhook.account_id.uuid(),
        webhook.url.as_str(),
        &webhook.types,
        webhook.description.as_deref(),
        webhook.enabled,
        webhook.disabled_reason.map(DisabledReason::name),
        webhook.in_order,
        webhook.all_accounts,
        webhook.secret.master_key_id,
        webhook.secret.generation,
        previous.map(|secret| secret.version.master_key_id.as_str()),
        previous.map(|secret| secret.version.generation),
        previous.map(|secret| secret.valid_until),
        webhook.created_at,
        webhook.updated_at
    )
    .execute(&mut *tx)
    .await?;
    cursors::insert_in_tx(tx, webhook.webhook_id, start).await
}

/// Stores a webhook after one more of its events. Enabling the webhook, and another address, end the illness of its
/// receiver. The caller must have locked the account.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn update_in_tx(tx: &mut PgConnection, webhook: &Webhook) -> sqlx::Result<()> {
    let previous = webhook.previous_secret.as_ref();
    sqlx::query!(
        "
        WITH cured AS (
            UPDATE event_store.webhook_health
            SET ill_since = NULL, probes = 0, next_probe_at = NULL, failing_since = NULL,
                notified_hours = 0
            WHERE webhook_id = $1 AND (
                SELECT ($6 AND NOT enabled) OR url <> $3
                FROM event_store.webhooks
                WHERE webhook_id = $1 AND account_id = $2
            )
        )
        UPDATE event_store.webhooks
        SET url = $3, types = $4, description = $5, enabled = $6, disabled_reason = $7,
            in_order = $8, secret_key_id = $9, secret_generation = $10, previous_key_id = $11,
            previous_generation = $12, previous_valid_until = $13, updated_at = $14
        WHERE webhook_id = $1 AND account_id = $2
        ",
        webhook.webhook_id.uuid(),
        webhook.account_id.uuid(),
        webhook.url.as_str(),
        &webhook.types,
        webhook.description.as_deref(),
        webhook.enabled,
        webhook.disabled_reason.map(DisabledReason::name),
        webhook.in_order,
        webhook.secret.master_key_id,
        webhook.secret.generation,
        previous.map(|secret| secret.version.master_key_id.as_str()),
        previous.map(|secret| secret.version.generation),
        previous.map(|secret| secret.valid_until),
        webhook.updated_at
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Deletes a webhook with its cursors and deliveries, and the health of its receiver. The caller must have locked the
/// account.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn delete_in_tx(tx: &mut PgConnection, webhook_id: WebhookId) -> sqlx::Result<()> {
    sqlx::query!(
        "DELETE FROM event_store.webhooks WHERE webhook_id = $1",
        webhook_id.uuid()
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Reads a webhook. The caller must have locked the webhook's account, so that the webhook stays as it is.
///
/// # Errors
/// Returns an error if the database fails, or this release cannot read the row.
pub async fn get_in_tx(
    tx: &mut PgConnection,
    webhook_id: WebhookId,
) -> sqlx::Result<Option<Webhook>> {
    let row = query_webhooks!(
        "FROM event_store.webhooks WHERE webhook_id = $1",
        webhook_id.uuid()
    );
    let row = row.fetch_optional(tx).await?;
    let stored = row.map(StoredRow::into_stored).transpose()?;
    Ok(stored.map(|stored| stored.webhook))
}

/// Reads the webhook with this id.
///
/// # Errors
/// Returns an error if the database fails, or this release cannot read the row.
pub async fn get(pool: &PgPool, webhook_id: WebhookId) -> sqlx::Result<Option<StoredWebhook>> {
    let row = query_webhooks!(
        "FROM event_store.webhooks WHERE webhook_id = $1",
        webhook_id.uuid()
    );
    let row = row.fetch_optional(pool).await?;
    row.map(StoredRow::into_stored).transpose()
}

/// Reads a webhook of an account, and the health of its receiver, without its numbers of deliveries.
///
/// # Errors
/// Returns an error if the database fails, or this release cannot read the row.
pub async fn get_to_send(
    pool: &PgPool,
    webhook_id: WebhookId,
    account_id: AccountId,
) -> sqlx::Result<Option<(Webhook, WebhookHealth)>> {
    let row = query_webhooks!(
        @r#"0::bigint AS "waiting!", 0::bigint AS "failed!", false AS "replays!" "#,
        "FROM event_store.webhooks WHERE webhook_id = $1 AND account_id = $2",
        webhook_id.uuid(),
        account_id.uuid()
    );
    let row = row.fetch_optional(pool).await?;
    let stored = row.map(StoredRow::into_stored).transpose()?;
    Ok(stored.map(|stored| (stored.webhook, stored.health)))
}

/// Counts the webhooks of an account: those of its owner, or those of operators. The caller must have locked the
/// account, so that the number stays.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn count_in_tx(
    tx: &mut PgConnection,
    account_id: AccountId,
    all_accounts: bool,
) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"
        SELECT count(*) AS "count!"
        FROM event_store.webhooks
        WHERE account_id = $1 AND all_accounts = $2
        "#,
        account_id.uuid(),
        all_accounts
    )
    .fetch_one(tx)
    .await
}

/// Lists the webhooks of an account's owner, oldest first.
///
/// # Errors
/// Returns an error if the database fails, or this release cannot read a row.
pub async fn list(pool: &PgPool, account_id: AccountId) -> sqlx::Result<Vec<StoredWebhook>> {
    let rows = query_webhooks!(
        "FROM event_store.webhooks WHERE account_id = $1 AND NOT all_accounts",
        account_id.uuid()
    );
    let rows = rows.fetch_all(pool).await?;
    rows.into_iter().map(StoredRow::into_stored).collect()
}

/// Lists the webhooks of operators, which receive the events of all accounts, oldest first.
///
/// # Errors
/// Returns an error if the database fails, or this release cannot read a row.
pub async fn list_of_operators(pool: &PgPool) -> sqlx::Result<Vec<StoredWebhook>> {
    // Only the order makes a plan for few webhooks use the index of those of operators.
    let rows = query_webhooks!("FROM event_store.webhooks WHERE all_accounts ORDER BY webhook_id");
    let rows = rows.fetch_all(pool).await?;
    rows.into_iter().map(StoredRow::into_stored).collect()
}

/// An enabled webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnabledWebhook {
    /// The webhook.
    pub webhook_id: WebhookId,
    /// Its account.
    pub account_id: AccountId,
    /// True if it receives the events of all accounts.
    pub all_accounts: bool,
    /// Time of its last change.
    pub updated_at: OffsetDateTime,
}

/// Returns the enabled webhooks.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn enabled(pool: &PgPool) -> sqlx::Result<Vec<EnabledWebhook>> {
    let rows = sqlx::query!(
        "
        SELECT webhook_id, account_id, all_accounts, updated_at
        FROM event_store.webhooks
        WHERE enabled
        ORDER BY webhook_id
        "
    )
    .fetch_all(pool)
    .await?;
    let webhooks = rows.into_iter().map(|row| EnabledWebhook {
        webhook_id: WebhookId::from_uuid(row.webhook_id),
        account_id: AccountId::from_uuid(row.account_id),
        all_accounts: row.all_accounts,
        updated_at: row.updated_at,
    });
    Ok(webhooks.collect())
}

/// Number of webhooks that one statement reads.
const WEBHOOKS_PER_READ: i64 = 1_000;

/// Reads all webhooks, in one read-only transaction, and calls `take` with each. Returns the head of each shard in the
/// same snapshot.
///
/// # Errors
/// Returns an error if the database fails, or this release cannot read a row.
pub async fn read_each(
    pool: &PgPool,
    mut take: impl FnMut(Webhook),
) -> sqlx::Result<PerShard<Position>> {
    let mut tx = PoolTransaction::begin_with(pool, SNAPSHOT).await?;
    let heads = log::heads(&mut *tx).await?;
    let mut after = Uuid::nil();
    loop {
        let page = query_webhooks!(
            "FROM event_store.webhooks WHERE webhook_id > $1 ORDER BY webhook_id LIMIT $2",
            after,
            WEBHOOKS_PER_READ
        );
        let page = page.fetch_all(&mut *tx).await?;
        let Some(last) = page.last() else { break };
        after = last.webhook_id;
        for row in page {
            take(row.into_stored()?.webhook);
        }
    }
    tx.rollback().await?;
    Ok(heads)
}
