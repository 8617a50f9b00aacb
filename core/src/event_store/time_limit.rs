//! Time limits of our own: a server that vanishes without a word ends no statement.

use std::{future::Future, io, time::Duration};

use sqlx::{Connection as _, Error, PgConnection};

/// Longest wait for the answer to a statement or a short transaction, in seconds: a little above
/// the server's own limit, so that a server that is there gets to say what is wrong.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(6);

/// Longest wait for a session that has nothing to compute, in seconds.
const SESSION_TEST_TIME_MAX: Duration = Duration::from_secs(1);

/// What `work` on the database comes to, if it does in time. Otherwise it is dropped where it
/// stands, and what it has sent may still be carried out.
///
/// # Errors
/// Those of `work`, and [`Error::Io`] when the time is over.
pub async fn within<T, E: From<Error>>(
    time_max: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    tokio::time::timeout(time_max, work)
        .await
        .unwrap_or_else(|_| {
            let message = format!("the database has not answered within {time_max:?}");
            Err(Error::Io(io::Error::new(io::ErrorKind::TimedOut, message)).into())
        })
}

/// Whether the server still answers.
pub(super) async fn test(session: &mut PgConnection) -> sqlx::Result<()> {
    within(SESSION_TEST_TIME_MAX, session.ping()).await
}

/// Takes what is still to come of work that was given up. A session without such work takes no
/// round trip.
pub(super) async fn settle(session: &mut PgConnection) -> sqlx::Result<()> {
    within(SESSION_TEST_TIME_MAX, session.flush()).await
}
