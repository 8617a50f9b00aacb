//! Writes of the dispatcher alone: its lease, and its events, which disable a webhook or tell that it fails.

use sqlx::{PgConnection, PgPool};
use time::{Duration, OffsetDateTime};

use super::rows;
use crate::{accounts, append, transaction::PoolTransaction};
use linkledger_core::{
    clock::new_uuid,
    envelope::{Metadata, NewEvent},
    event::Event,
    id::{AccountId, EventId, WebhookId},
    webhook::{DisabledReason, Webhook, WebhookEvent, WebhookFailing},
};

/// Actor of the events that the dispatcher appends.
const DISPATCHER: &str = "dispatcher";

/// Acquires or renews the lease of the dispatcher for some seconds. Returns false if another owner has it, by the clock
/// of the database.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn acquire(pool: &PgPool, owner: &str, seconds: f64) -> sqlx::Result<bool> {
    let acquired = sqlx::query!(
        "
        UPDATE event_store.webhook_dispatcher
        SET owner = $1, expires_at = now() + make_interval(secs => $2)
        WHERE id AND (owner IS NULL OR owner = $1 OR expires_at <= now())
        ",
        owner,
        seconds
    )
    .execute(pool)
    .await?;
    Ok(acquired.rows_affected() == 1)
}

/// Gives the lease of the dispatcher up, if this owner has it.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn release(pool: &PgPool, owner: &str) -> sqlx::Result<()> {
    sqlx::query!(
        "
        UPDATE event_store.webhook_dispatcher
        SET owner = NULL, expires_at = NULL
        WHERE id AND owner = $1
        ",
        owner
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Disables a webhook by its event. Returns false if the webhook has changed since it was read: what its receiver
/// answered may not concern it any more.
///
/// # Errors
/// Returns an error if the database fails, or this release cannot read the row. The outcome may be unknown.
pub async fn disable(
    pool: &PgPool,
    clock_now: OffsetDateTime,
    read: &Webhook,
    reason: DisabledReason,
) -> sqlx::Result<bool> {
    let account_id = read.account_id;
    let mut tx = PoolTransaction::begin(pool).await?;
    let mut accounts = accounts::lock_in_tx(&mut tx, &[account_id]).await?;
    let webhook = unchanged_in_tx(&mut tx, read).await?;
    let event = webhook
        .as_ref()
        .and_then(|webhook| webhook.decide_disable(reason));
    let (Some(webhook), Some(event), Some(credits)) =
        (webhook, event, accounts.get_mut(&account_id))
    else {
        tx.rollback().await?;
        return Ok(false);
    };
    *credits = credits.pass();
    let event = WebhookEvent::Disabled(event);
    update_in_tx(&mut tx, &webhook.apply(&event, clock_now)).await?;
    let event = new_event(account_id, credits.version, clock_now, event);
    append::append_in_tx(&mut tx, &[&event], &accounts).await?;
    tx.commit().await?;
    Ok(true)
}

/// Tells operators, by an event, that a webhook has had no success for some hours. Returns false if the webhook has
/// changed since it was read, or has had a success, or such a notice is stored: there is one for these hours until the
/// next success.
///
/// # Errors
/// Returns an error if the database fails, or this release cannot read the row. The outcome may be unknown.
pub async fn notify_failing(
    pool: &PgPool,
    clock_now: OffsetDateTime,
    read: &Webhook,
    hours: i16,
) -> sqlx::Result<bool> {
    let account_id = read.account_id;
    let mut tx = PoolTransaction::begin(pool).await?;
    let mut accounts = accounts::lock_in_tx(&mut tx, &[account_id]).await?;
    let failing_since = match unchanged_in_tx(&mut tx, read).await? {
        Some(_) => store_notice_in_tx(&mut tx, read.webhook_id, clock_now, hours).await?,
        None => None,
    };
    let (Some(failing_since), Some(credits)) = (failing_since, accounts.get_mut(&account_id))
    else {
        tx.rollback().await?;
        return Ok(false);
    };
    *credits = credits.pass();
    let event = WebhookEvent::Failing(WebhookFailing {
        account_id,
        webhook_id: read.webhook_id,
        failing_since,
        hours: hours.into(),
    });
    let event = new_event(account_id, credits.version, clock_now, event);
    append::append_in_tx(&mut tx, &[&event], &accounts).await?;
    tx.commit().await?;
    Ok(true)
}

/// Reads a webhook that has not changed since it was read before. The caller must have locked the account.
async fn unchanged_in_tx(tx: &mut PgConnection, read: &Webhook) -> sqlx::Result<Option<Webhook>> {
    let webhook = rows::get_in_tx(tx, read.webhook_id).await?;
    Ok(webhook.filter(|webhook| webhook.updated_at == read.updated_at))
}

/// Stores the notice of some hours. Returns the beginning of the time without a success; `None` if the notice is stored
/// already, or not due.
async fn store_notice_in_tx(
    tx: &mut PgConnection,
    webhook_id: WebhookId,
    clock_now: OffsetDateTime,
    hours: i16,
) -> sqlx::Result<Option<OffsetDateTime>> {
    sqlx::query_scalar!(
        r#"
        UPDATE event_store.webhook_health
        SET notified_hours = $2
        WHERE webhook_id = $1 AND notified_hours < $2 AND failing_since <= $3
        RETURNING failing_since AS "failing_since!"
        "#,
        webhook_id.uuid(),
        hours,
        clock_now - Duration::hours(hours.into())
    )
    .fetch_optional(tx)
    .await
}

/// Stores what `WebhookDisabled` changes: the role of the dispatcher may write no other column.
async fn update_in_tx(tx: &mut PgConnection, webhook: &Webhook) -> sqlx::Result<()> {
    sqlx::query!(
        "
        UPDATE event_store.webhooks
        SET enabled = $2, disabled_reason = $3, updated_at = $4
        WHERE webhook_id = $1
        ",
        webhook.webhook_id.uuid(),
        webhook.enabled,
        webhook.disabled_reason.map(DisabledReason::name),
        webhook.updated_at
    )
    .execute(tx)
    .await?;
    Ok(())
}

fn new_event(
    account_id: AccountId,
    version: i64,
    now: OffsetDateTime,
    event: WebhookEvent,
) -> NewEvent {
    NewEvent {
        event_id: EventId::from_uuid(new_uuid(now)),
        account_id,
        version,
        recorded_at: now,
        event: Event::Webhook(event),
        metadata: Metadata {
            actor: Some(DISPATCHER.to_owned()),
            ..Metadata::default()
        },
        idempotency: None,
    }
}
