//! Table `read_model.verifications`: result of the last verification of each generation. The process that
//! verifies ends soon; the metrics are set from this table by the running projector.

use std::time::Duration;

use linkledger_core::timestamp;
use linkledger_event_store::time_limit::{ANSWER_TIME_MAX, within};
use linkledger_service::metrics::{VERIFIED_TIMESTAMP_SECONDS, VERIFY_MISMATCHES};
use metrics::gauge;
use serde::Serialize;
use sqlx::PgPool;
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::VerificationReport;
use crate::{pipeline::periodic::Periodic, read_models::Projection};

/// Interval at which the gauges are set.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Records the result of a verification.
///
/// # Errors
/// Returns an error if the database fails, or if the role may not write.
pub async fn record(pool: &PgPool, verified: &VerificationReport) -> sqlx::Result<()> {
    sqlx::query!(
        "
        INSERT INTO read_model.verifications (projection, generation, mismatches)
        VALUES ($1, $2, $3)
        ON CONFLICT (projection, generation) DO UPDATE
        SET mismatches = excluded.mismatches, verified_at = excluded.verified_at
        ",
        verified.projection,
        verified.generation,
        i64::try_from(verified.findings.mismatches).unwrap_or(i64::MAX)
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Result of the last verification of the served generation.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct LastVerification {
    /// Time of the verification.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "timestamp::serialize")]
    pub verified_at: OffsetDateTime,
    /// Number of wrong rows.
    pub mismatches: i64,
}

/// Returns the result of the last verification of the served generation; `None` if there was none.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn last(pool: &PgPool, projection: Projection) -> sqlx::Result<Option<LastVerification>> {
    sqlx::query_as!(
        LastVerification,
        "
        SELECT v.mismatches, v.verified_at
        FROM read_model.projections AS p
        JOIN read_model.verifications AS v
            ON v.projection = p.projection AND v.generation = p.active_generation
        WHERE p.projection = $1
        ",
        projection.name()
    )
    .fetch_optional(pool)
    .await
}

/// Sets the metrics of the last verifications until the shutdown; a failure is retried.
///
/// # Errors
/// Returns no error.
pub async fn keep_reported(pool: PgPool, shutdown: CancellationToken) -> anyhow::Result<()> {
    let mut periodic = Periodic::new(REPORT_INTERVAL, shutdown);
    while periodic.is_due().await {
        if let Err(error) = within(ANSWER_TIME_MAX, report(&pool)).await {
            tracing::debug!(%error, "cannot read the last verifications");
        }
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a gauge; exact up to 2^53")]
async fn report(pool: &PgPool) -> sqlx::Result<()> {
    for projection in Projection::ALL {
        let last = last(pool, projection).await?;
        let name = projection.name();
        let mismatches = last.map_or(0, |it| it.mismatches);
        gauge!(VERIFY_MISMATCHES, "projection" => name).set(mismatches as f64);
        let since_1970 = last.map(|it| it.verified_at - OffsetDateTime::UNIX_EPOCH);
        let seconds = since_1970.map_or(0.0, time::Duration::as_seconds_f64);
        gauge!(VERIFIED_TIMESTAMP_SECONDS, "projection" => name).set(seconds);
    }
    Ok(())
}
