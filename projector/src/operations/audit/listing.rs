//! What operators have done, to look at.

use sqlx::PgPool;
use time::OffsetDateTime;

/// A command on record.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Its name, as it is typed.
    pub command: String,
    /// What it changes, if that is a projection.
    pub projection: Option<String>,
    /// What else it is about.
    pub subject: Option<String>,
    /// Who has asked for it.
    pub operator: String,
    /// Why.
    pub reason: Option<String>,
    /// When it began.
    pub started_at: OffsetDateTime,
    /// How it is going, or has ended.
    pub course: Course,
}

/// How a command is going.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Course {
    /// It is at work.
    Running,
    /// Nothing has been heard of its process for longer than a lease lasts: it has died.
    Silent,
    /// It is over.
    Ended {
        /// When.
        at: OffsetDateTime,
        /// `done`, `failed` or `interrupted`; as stored.
        outcome: String,
        /// The same in words.
        detail: Option<String>,
    },
}

/// The latest commands, the last one first; those that have not ended are among them.
///
/// # Errors
/// When the database does not answer.
pub async fn latest(pool: &PgPool, limit: i64) -> sqlx::Result<Vec<Recorded>> {
    let rows = sqlx::query!(
        r#"
        SELECT operation_id AS "operation_id!", command AS "command!", projection, subject,
               operator AS "operator!", reason, started_at AS "started_at!", finished_at, outcome,
               detail, coalesce(lease_expires_at > clock_timestamp(), false) AS "is_heard_of!"
        FROM (
            (SELECT * FROM read_model.operations WHERE finished_at IS NULL LIMIT $1)
            UNION
            (SELECT * FROM read_model.operations ORDER BY operation_id DESC LIMIT $1)
        ) AS latest
        ORDER BY operation_id DESC
        "#,
        limit
    )
    .fetch_all(pool)
    .await?;
    let recorded = rows.into_iter().map(|row| Recorded {
        course: match row.finished_at {
            Some(at) => Course::Ended {
                at,
                outcome: row.outcome.unwrap_or_default(),
                detail: row.detail,
            },
            None if row.is_heard_of => Course::Running,
            None => Course::Silent,
        },
        command: row.command,
        projection: row.projection,
        subject: row.subject,
        operator: row.operator,
        reason: row.reason,
        started_at: row.started_at,
    });
    Ok(recorded.collect())
}
