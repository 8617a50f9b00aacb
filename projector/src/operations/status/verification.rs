//! Last verification of the live generation.

use linkledger_core::timestamp;
use serde::Serialize;
use sqlx::PgPool;
use time::{Duration, OffsetDateTime};

use crate::{operations::verify::outcome, read_models::Projection};

/// Last verification of the live generation.
#[derive(Debug, Clone, Serialize)]
pub struct LastVerification {
    /// Time of the verification.
    pub verified_at: String,
    /// Number of wrong rows.
    pub mismatches: i64,
}

/// Reads the last verification; `None` if there was none.
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
