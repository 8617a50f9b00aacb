//! Table `clicks.first_clicks`.

use linkledger_core::id::{AccountId, LinkId};
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::ROWS_MAX;

/// First human click of a link on a UTC day.
pub(super) type FirstClick = (AccountId, LinkId, OffsetDateTime);

/// Adds the clicks of links that had none on any day. Of two clicks of a link, the first in this order counts.
pub(super) async fn add_in_tx(
    tx: &mut PgConnection,
    first_clicks: &[FirstClick],
) -> sqlx::Result<()> {
    for chunk in first_clicks.chunks(ROWS_MAX) {
        let accounts: Vec<Uuid> = chunk.iter().map(|it| it.0.uuid()).collect();
        let links: Vec<Uuid> = chunk.iter().map(|it| it.1.uuid()).collect();
        let instants: Vec<OffsetDateTime> = chunk.iter().map(|it| it.2).collect();
        sqlx::query!(
            "
            INSERT INTO clicks.first_clicks (account_id, link_id, clicked_at)
            SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[])
            ON CONFLICT (link_id) DO NOTHING
            ",
            &accounts,
            &links,
            &instants
        )
        .execute(&mut *tx)
        .await?;
    }
    Ok(())
}
