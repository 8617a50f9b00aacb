//! State of the aggregation of clicks.

use linkledger_core::timestamp;
use serde::Serialize;
use sqlx::PgPool;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::operations::PausedBy;

/// State of the aggregation.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ClickStatus {
    /// Recorders with a heartbeat within the last 60 s.
    pub recorders: i64,
    /// Instant before which every click is in the statistics; null before every partition was read to its end.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(serialize_with = "timestamp::serialize")]
    pub complete_until: Option<OffsetDateTime>,
    /// Lag of the statistics: age of `complete_until`, or of the first recorder before that.
    pub lag_seconds: f64,
    /// Time since the partition that is read least far was read to its end; null if a partition never was.
    pub read_to_end_seconds_ago: Option<f64>,
    /// Time since the last batch; null before the first one.
    pub last_batch_seconds_ago: Option<f64>,
    /// Records of clicks that the topic lacked, with those that a recorder wrote last before its end.
    pub missing: i64,
    /// Start of a pause; null if no partition is paused.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(serialize_with = "timestamp::serialize")]
    pub paused_at: Option<OffsetDateTime>,
    /// Operator of the pause, if the command is among the latest.
    pub paused_by: Option<PausedBy>,
}

/// Reads the state of the aggregation, without the operator of a pause.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn read(pool: &PgPool) -> sqlx::Result<ClickStatus> {
    let row = sqlx::query!(
        r#"
        SELECT (SELECT count(*) FROM clicks.recorders
                WHERE ended_at IS NULL AND seen_at > now() - interval '60 s') AS "recorders!",
               nullif(clicks.complete_until(), 'epoch') AS complete_until,
               clicks.lag_seconds() AS "lag_seconds!",
               CASE WHEN count(p.read_to_end_at) = count(*) THEN
                   extract(epoch FROM now() - min(p.read_to_end_at))::double precision
               END AS read_to_end_seconds_ago,
               extract(epoch FROM now() - max(p.counted_at))::double precision
                   AS last_batch_seconds_ago,
               (SELECT coalesce(sum(s.missing), 0)::bigint FROM clicks.sequences AS s)
               -- After the last counted record of a recorder that is gone: its last heartbeat knows of more.
               + (SELECT coalesce(sum(claimed.sequence - coalesce(s.sequence, 0)), 0)::bigint
                  FROM clicks.recorders AS r
                  CROSS JOIN LATERAL (
                      SELECT h.sequences FROM clicks.heartbeats AS h
                      WHERE h.recorder_id = r.recorder_id
                      ORDER BY h.recorded_until DESC
                      LIMIT 1
                  ) AS last
                  CROSS JOIN LATERAL unnest(last.sequences) WITH ORDINALITY AS claimed (sequence, number)
                  JOIN clicks.positions AS own
                    ON own.partition = claimed.number - 1
                   AND own.read_to_end_at > greatest(r.seen_at, r.ended_at) + interval '60 s'
                  LEFT JOIN clicks.sequences AS s
                    ON s.partition = own.partition AND s.recorder_id = r.recorder_id
                  WHERE claimed.sequence > coalesce(s.sequence, 0)) AS "missing!",
               min(p.paused_at) AS paused_at
        FROM clicks.positions AS p
        "#
    )
    .fetch_one(pool)
    .await?;
    let seconds_ago = |at: Option<f64>| at.map(|seconds| seconds.max(0.0));
    Ok(ClickStatus {
        recorders: row.recorders,
        complete_until: row.complete_until,
        lag_seconds: row.lag_seconds,
        read_to_end_seconds_ago: seconds_ago(row.read_to_end_seconds_ago),
        last_batch_seconds_ago: seconds_ago(row.last_batch_seconds_ago),
        missing: row.missing,
        paused_at: row.paused_at,
        paused_by: None,
    })
}
