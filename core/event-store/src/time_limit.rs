//! Timeouts on the client's side. If the server vanishes without closing
//! the connection, a statement would wait for ever.

use std::{
    future::Future,
    io,
    time::{Duration, Instant},
};

use sqlx::{Connection as _, Error, PgConnection};

use super::errors::ends_session;

/// Longest wait for the answer to a statement or a short transaction. A little above
/// the server's statement timeout, so that a live server can report its own error.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(6);

/// Longest time of one read for an answer. The whole answer to a read takes little longer, and arrives before an
/// ingress gives up after 5 s.
pub const READ_TIME_MAX: Duration = Duration::from_secs(4);

/// Longest wait for an answer that needs no computation, such as a ping.
const SESSION_TEST_TIME_MAX: Duration = Duration::from_secs(1);

/// Time in which a read is retried after its session has ended; below [`READ_TIME_MAX`].
const READ_RETRY_TIME_MAX: Duration = Duration::from_secs(3);

/// Delay between two such attempts.
const READ_RETRY_DELAY: Duration = Duration::from_millis(20);

/// Runs `work` on the database with a timeout. After the timeout, `work` is dropped; statements
/// that were already sent may still be executed.
///
/// # Errors
/// Returns the error of `work`, or [`Error::Io`] after the timeout.
pub async fn within<T, E: From<Error>>(
    time_max: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    tokio::time::timeout(time_max, work)
        .await
        .unwrap_or_else(|_| {
            let message = format!("the database did not answer within {time_max:?}");
            Err(Error::Io(io::Error::new(io::ErrorKind::TimedOut, message)).into())
        })
}

/// Runs a read, and retries the read on other sessions if its session has ended: after a restart of
/// the server all sessions of a pool have ended, and each fails one statement.
///
/// # Errors
/// Returns the last error of `read` after `READ_RETRY_TIME_MAX`, and any other error at once.
pub async fn read_on_live_session<T, F: Future<Output = sqlx::Result<T>>>(
    mut read: impl FnMut() -> F,
) -> sqlx::Result<T> {
    let until = Instant::now() + READ_RETRY_TIME_MAX;
    loop {
        match read().await {
            Err(error) if ends_session(&error) && Instant::now() < until => {
                tokio::time::sleep(READ_RETRY_DELAY).await;
            }
            read => return read,
        }
    }
}

/// Returns true if the server still answers and accepts writes. A primary that was demoted keeps the
/// sessions of its clients, and refuses their writes.
pub(super) async fn is_usable(session: &mut PgConnection) -> sqlx::Result<bool> {
    let asking = sqlx::query_scalar("SELECT current_setting('transaction_read_only') = 'off'");
    within(SESSION_TEST_TIME_MAX, asking.fetch_one(session)).await
}

/// Returns true if the server still answers.
pub(super) async fn answers(session: &mut PgConnection) -> sqlx::Result<bool> {
    within(SESSION_TEST_TIME_MAX, session.ping()).await?;
    Ok(true)
}

/// Receives outstanding answers of work that was dropped. A session without outstanding answers
/// needs no round trip.
pub(super) async fn settle(session: &mut PgConnection) -> sqlx::Result<()> {
    within(SESSION_TEST_TIME_MAX, session.flush()).await
}
