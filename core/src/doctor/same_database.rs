//! Whether two addresses lead to the same database.

use anyhow::{Context as _, ensure};
use sqlx::PgPool;
use time::OffsetDateTime;

use super::{Finding, Verdict, server::Refused};
use crate::{
    event_store::{
        self, SessionKind,
        time_limit::{ANSWER_TIME_MAX, within},
    },
    failure,
};

const CHECK: &str = "relay's database";

/// What no two databases share. A copy of a cluster has its identifier, but was started at another
/// time.
type Identity = (OffsetDateTime, String);

/// Compares the database of the relay with that of the service: the events of another one would be
/// published in place of ours.
pub async fn look(url: &str, relay_url: &str) -> Finding {
    let error = |is, remedy| Finding::new(CHECK, Verdict::Error, is, remedy);
    let are_same = async || {
        let (ours, its) = tokio::try_join!(identify(url), identify(relay_url))?;
        anyhow::Ok(ours == its)
    };
    // Asked once more: the server may have been replaced between the two.
    let are_same = match are_same().await {
        Ok(false) => are_same().await,
        first => first,
    };
    match are_same {
        Ok(true) => Finding::ok(CHECK, "that of the service"),
        Ok(false) => error(
            "another one than that of the service".to_owned(),
            "let --relay-database-url (RELAY_DATABASE_URL) lead to the database of --database-url, \
             as a user of its own, and neither of them to several servers by turns",
        ),
        Err(reason) => error(failure::text(&reason), ""),
    }
}

/// Whether the relay may publish what is there.
///
/// # Errors
/// When it is another database, or one of them does not answer.
pub async fn admit(url: &str, relay_url: &str) -> anyhow::Result<()> {
    let finding = look(url, relay_url).await;
    ensure!(finding.verdict == Verdict::Ok, Refused(finding));
    Ok(())
}

async fn identify(url: &str) -> anyhow::Result<Identity> {
    let pool = event_store::pool(url, SessionKind::Reader, 1)?;
    let identity = within(ANSWER_TIME_MAX, read(&pool)).await;
    pool.close().await;
    identity.context("can't read which database it is")
}

async fn read(pool: &PgPool) -> sqlx::Result<Identity> {
    let query = "SELECT pg_postmaster_start_time(), current_database()::text";
    sqlx::query_as(query).fetch_one(pool).await
}
