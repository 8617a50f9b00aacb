//! Writes rows into the read tables, in place of the projector.

use linkledger_core::{
    commands::CreateResult,
    id::{AccountId, EntryId, LinkId},
    shard::{Position, Shard},
    timestamp,
};
use serde_json::Value;
use sqlx::PgPool;
use uuid::Uuid;

use crate::service::SHORT_BASE_URL;

/// Inserts a row of `links` into the first generation. The slug is derived from the id.
pub(crate) async fn insert_link(pool: &PgPool, account_id: AccountId, link_id: LinkId) {
    let (seconds, _) = link_id.uuid().get_timestamp().unwrap().to_unix();
    sqlx::query(
        "INSERT INTO read_model.links
             (generation, account_id, link_id, slug, destination_url, version, created_at)
         VALUES (1, $1, $2, $3, 'https://example.com/', 1, to_timestamp($4))",
    )
    .bind(account_id.uuid())
    .bind(link_id.uuid())
    .bind(link_id.to_string())
    .bind(f64::from(u32::try_from(seconds).unwrap()))
    .execute(pool)
    .await
    .unwrap();
}

/// Inserts the row of `links` for the link, without the checkpoint. Members of `LinkCreated` are
/// columns of their names.
pub(crate) async fn insert_appended_link(pool: &PgPool, link: &CreateResult) {
    let mut row = serde_json::to_value(&link.link).unwrap();
    row["generation"] = 1.into();
    row["account_id"] = link.link.account_id.uuid().to_string().into();
    row["link_id"] = link.link.link_id.uuid().to_string().into();
    row["version"] = 1.into();
    row["created_at"] = timestamp::format(link.created_at).into();
    sqlx::query(
        "INSERT INTO read_model.links
         SELECT * FROM jsonb_populate_record(NULL::read_model.links, $1::jsonb)",
    )
    .bind(row.to_string())
    .execute(pool)
    .await
    .unwrap();
}

/// Returns the body of an answer with the link. Members of `LinkCreated` are members of the body,
/// except the ids and the slug.
pub(crate) fn body_of(link: &CreateResult) -> Value {
    let mut body = serde_json::to_value(&link.link).unwrap();
    for name in ["link_id", "account_id", "slug"] {
        body.as_object_mut().unwrap().remove(name);
    }
    body["id"] = link.link.link_id.to_string().into();
    body["short_url"] = format!("{SHORT_BASE_URL}/{}", link.link.slug).into();
    body["created_at"] = timestamp::format(link.created_at).into();
    body
}

/// Inserts the row of `redirects` for the link, without the checkpoint.
pub(crate) async fn insert_redirect(pool: &PgPool, link: &CreateResult) {
    sqlx::query("INSERT INTO read_model.redirects VALUES (1, $1, $2, $3, $4)")
        .bind(link.link.slug.to_ascii_lowercase())
        .bind(link.link.link_id.uuid())
        .bind(link.link.account_id.uuid())
        .bind(link.link.destination_url.as_str())
        .execute(pool)
        .await
        .unwrap();
}

/// Updates the row of a slug, given in lower case, as after a change of the link.
pub(crate) async fn update_redirect(pool: &PgPool, slug: &str, destination: &str, state: &str) {
    let done = sqlx::query(
        "UPDATE read_model.redirects SET destination_url = $2, state = $3 WHERE slug_key = $1",
    )
    .bind(slug)
    .bind(destination)
    .bind(state)
    .execute(pool)
    .await
    .unwrap();
    assert_eq!(done.rows_affected(), 1);
}

/// Stops the links of an account, as after a suspension with --stop-redirects.
pub(crate) async fn stop_account(pool: &PgPool, account_id: AccountId) {
    sqlx::query("INSERT INTO read_model.stopped_accounts VALUES (1, $1)")
        .bind(account_id.uuid())
        .execute(pool)
        .await
        .unwrap();
}

/// Sets the checkpoint of the account's shard in the first generation of a projection.
pub(crate) async fn set_checkpoint(
    pool: &PgPool,
    projection: &str,
    account_id: AccountId,
    position: Position,
) {
    let done = sqlx::query(
        "UPDATE read_model.checkpoints SET position = $3
         WHERE projection = $1 AND generation = 1 AND shard = $2",
    )
    .bind(projection)
    .bind(Shard::of(account_id).number())
    .bind(position)
    .execute(pool)
    .await
    .unwrap();
    assert_eq!(done.rows_affected(), 1);
}

/// Parks an account, as after a poison event at the given position.
pub(crate) async fn park_account(
    pool: &PgPool,
    projection: &str,
    account_id: AccountId,
    position: Position,
) {
    sqlx::query(
        "INSERT INTO read_model.parked_accounts
         VALUES ($1, 1, $2, $3, $4, 'LinkPainted', 'unknown_event', 'test')",
    )
    .bind(projection)
    .bind(Shard::of(account_id).number())
    .bind(account_id.uuid())
    .bind(position)
    .execute(pool)
    .await
    .unwrap();
}

/// Returns a link id of the millisecond; within one millisecond, a higher `order` is newer.
pub(crate) fn link_id(millisecond: u64, order: u64) -> LinkId {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&order.to_be_bytes());
    LinkId::from_uuid(uuid::Builder::from_unix_timestamp_millis(millisecond, &random).into_uuid())
}

/// Returns a link id that no test uses.
pub(crate) fn unused_link_id() -> LinkId {
    LinkId::from_uuid(Uuid::from_u128(0x0189_0a5d_ac96_774b_bcce_b302_099a_8057))
}

/// Inserts a row of `credit_entries` and sets the balance. The id is derived from the version.
pub(crate) async fn insert_entry(pool: &PgPool, account_id: AccountId, entry: Entry) {
    sqlx::query(
        "WITH balance AS (
             INSERT INTO read_model.credit_balances VALUES (1, $1, $5, $2)
             ON CONFLICT (generation, account_id) DO UPDATE
             SET balance = excluded.balance, version = excluded.version
         )
         INSERT INTO read_model.credit_entries
         VALUES (1, $1, $2, $7, $3, $4, $5, $6, $8, $9, '2026-11-20T09:51:00.123Z')",
    )
    .bind(account_id.uuid())
    .bind(entry.version)
    .bind(entry.kind)
    .bind(entry.amount)
    .bind(entry.balance_after)
    .bind(entry.link_id.map(LinkId::uuid))
    .bind(entry.id().uuid())
    .bind(entry.description)
    .bind(entry.refunds.map(EntryId::uuid))
    .execute(pool)
    .await
    .unwrap();
}

/// An entry of an account's ledger.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) version: i64,
    pub(crate) kind: &'static str,
    pub(crate) amount: i64,
    pub(crate) balance_after: i64,
    pub(crate) link_id: Option<LinkId>,
    pub(crate) description: Option<&'static str>,
    pub(crate) refunds: Option<EntryId>,
}

impl Entry {
    pub(crate) fn grant(version: i64, amount: i64, balance_after: i64) -> Self {
        Self::of_kind("grant", version, amount, balance_after)
    }

    /// Returns an entry without members that only some types have.
    pub(crate) fn of_kind(
        kind: &'static str,
        version: i64,
        amount: i64,
        balance_after: i64,
    ) -> Self {
        Self {
            version,
            kind,
            amount,
            balance_after,
            link_id: None,
            description: None,
            refunds: None,
        }
    }

    pub(crate) fn id(&self) -> EntryId {
        EntryId::from_uuid(Uuid::from_u128(
            0x01a0_0000_0000_7000_8000_0000_0000_0000 + u128::try_from(self.version).unwrap(),
        ))
    }
}

/// Inserts a change of a slug, given in lower case, or of an account, for the caches to read.
pub(crate) async fn announce_change(
    pool: &PgPool,
    slug_key: Option<&str>,
    account_id: Option<AccountId>,
) {
    sqlx::query(
        "WITH taken AS (
             UPDATE read_model.redirect_change_counter SET last_number = last_number + 1
             RETURNING last_number
         )
         INSERT INTO read_model.redirect_changes SELECT last_number, $1, $2, now() FROM taken",
    )
    .bind(slug_key)
    .bind(account_id.map(AccountId::uuid))
    .execute(pool)
    .await
    .unwrap();
}

/// Inserts the row of a tag of a link.
pub(crate) async fn insert_tag(pool: &PgPool, account_id: AccountId, tag: &str, link_id: LinkId) {
    sqlx::query("INSERT INTO read_model.link_tags VALUES (1, $1, $2, $3)")
        .bind(account_id.uuid())
        .bind(tag)
        .bind(link_id.uuid())
        .execute(pool)
        .await
        .unwrap();
}
