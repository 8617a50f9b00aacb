//! What the projector writes into the read tables, written by hand.

use linkledger_core::{
    batch::SettledCreate,
    id::{AccountId, LinkId},
    shard::{Position, Shard},
};
use sqlx::PgPool;
use uuid::Uuid;

/// A row of `links`, in the generation that is active at first. Its slug is made from its id.
pub(crate) async fn insert_link(pool: &PgPool, account_id: AccountId, link_id: LinkId) {
    let (seconds, _) = link_id.uuid().get_timestamp().unwrap().to_unix();
    sqlx::query(
        "INSERT INTO read_model.links
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

/// The row of `links` that the link leads to; not the checkpoint.
pub(crate) async fn insert_appended_link(pool: &PgPool, link: &SettledCreate) {
    sqlx::query("INSERT INTO read_model.links VALUES (1, $1, $2, $3, $4, 1, $5)")
        .bind(link.link.account_id.uuid())
        .bind(link.link.link_id.uuid())
        .bind(&link.link.slug)
        .bind(&link.link.destination_url)
        .bind(link.created_at)
        .execute(pool)
        .await
        .unwrap();
}

/// The row of `redirects` that the link leads to; not the checkpoint.
pub(crate) async fn insert_redirect(pool: &PgPool, link: &SettledCreate) {
    sqlx::query("INSERT INTO read_model.redirects VALUES (1, $1, $2, $3, $4)")
        .bind(link.link.slug.to_ascii_lowercase())
        .bind(link.link.link_id.uuid())
        .bind(link.link.account_id.uuid())
        .bind(&link.link.destination_url)
        .execute(pool)
        .await
        .unwrap();
}

/// The checkpoint of the account's shard in the first generation of a projection.
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

/// An id of that millisecond; of two with the same one, `order` decides which is newer.
pub(crate) fn link_id(millisecond: u64, order: u64) -> LinkId {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&order.to_be_bytes());
    LinkId::from_uuid(uuid::Builder::from_unix_timestamp_millis(millisecond, &random).into_uuid())
}

/// An id that no test gives to a link.
pub(crate) fn unused_link_id() -> LinkId {
    LinkId::from_uuid(Uuid::from_u128(0x0189_0a5d_ac96_774b_bcce_b302_099a_8057))
}
