//! What the last verification of what is read has come to.

use linkledger_core::timestamp;
use serde::Serialize;
use sqlx::PgPool;
use time::{Duration, OffsetDateTime};

use crate::{operations::verify::outcome, read_models::Projection};

/// The last verification of the generation that is read.
#[derive(Debug, Clone, Serialize)]
pub struct LastVerification {
    /// When it was.
    pub verified_at: String,
    /// Rows that were wrong, and are still unless somebody has mended them by hand.
    pub mismatches: i64,
}

/// `None`: it never was verified.
pub(super) async fn read(
    pool: &PgPool,
    projection: Projection,
) -> sqlx::Result<Option<LastVerification>> {
    let last = outcome::last(pool, projection).await?;
    let is_known = last.verified_at_s > 0.0;
    Ok(is_known.then(|| LastVerification {
        verified_at: timestamp::format(
            OffsetDateTime::UNIX_EPOCH + Duration::seconds_f64(last.verified_at_s),
        ),
        mismatches: last.mismatches,
    }))
}
