//! Checks that two addresses lead to the same database.

use anyhow::Context as _;
use sqlx::PgPool;
use time::OffsetDateTime;

use super::Finding;
use linkledger_event_store::{
    SessionKind,
    time_limit::{ANSWER_TIME_MAX, within},
};

const CHECK: &str = "relay's database";

/// Start time of the server and name of the database. Postgres' system identifier would not do: a copy
/// of a cluster has the same one.
type Identity = (OffsetDateTime, String);

/// Checks that the relay and the service use the same database. Otherwise the relay would publish
/// the events of another database.
pub async fn look(url: &str, relay_url: &str) -> Finding {
    let are_same = async || {
        let (ours, its) = tokio::try_join!(identify(url), identify(relay_url))?;
        anyhow::Ok(ours == its)
    };
    // Retried once: a restart or failover between the two queries looks like another database.
    let are_same = match are_same().await {
        Ok(false) => are_same().await,
        first => first,
    };
    match are_same {
        Ok(true) => Finding::ok(CHECK, "same as the service's"),
        Ok(false) => Finding::error(
            CHECK,
            "another database than the service's",
            "point --relay-database-url (RELAY_DATABASE_URL) at the database of --database-url, with \
             the relay's own user; neither address may alternate between servers",
        ),
        Err(error) => Finding::failed(CHECK, &error),
    }
}

/// Refuses a relay's database that is not the service's.
///
/// # Errors
/// Returns an error if the databases differ or one of them does not answer.
pub async fn admit(url: &str, relay_url: &str) -> anyhow::Result<()> {
    look(url, relay_url).await.admitted()?;
    Ok(())
}

async fn identify(url: &str) -> anyhow::Result<Identity> {
    let pool = linkledger_event_store::pool(url, SessionKind::Reader, 1)?;
    let identity = within(ANSWER_TIME_MAX, read(&pool)).await;
    pool.close().await;
    identity.context("cannot identify the database")
}

async fn read(pool: &PgPool) -> sqlx::Result<Identity> {
    let query = "SELECT pg_postmaster_start_time(), current_database()::text";
    sqlx::query_as(query).fetch_one(pool).await
}
