//! Classes of database errors, by SQLSTATE and never by message
//! (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).

/// Returns the SQLSTATE of an error of Postgres, or `None` for any other error.
pub fn sqlstate(error: &sqlx::Error) -> Option<String> {
    let code = error.as_database_error()?.code()?;
    (code.len() == 5).then(|| code.into_owned())
}

/// Returns true if the error is `lock_not_available`: another transaction held a lock until the
/// timeout.
pub fn is_lock_timeout(error: &sqlx::Error) -> bool {
    sqlstate(error).is_some_and(|state| state == "55P03")
}

/// Returns true if the transaction collided with another one: a lock timeout, a deadlock, or a
/// serialisation failure.
pub fn is_collision(error: &sqlx::Error) -> bool {
    is_lock_timeout(error) || sqlstate(error).is_some_and(|state| state.starts_with("40"))
}

/// Returns true if a retry of the same statement may succeed, on this session or on another one.
pub fn is_transient(error: &sqlx::Error) -> bool {
    let Some(state) = sqlstate(error) else {
        return matches!(
            error,
            sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
                | sqlx::Error::Protocol(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::WorkerCrashed
        );
    };
    // Connection, resources, operator intervention; a timeout ended the session (25P03), or the server
    // is a standby, because the former primary was demoted (25006).
    matches!(&state[..2], "08" | "53" | "57")
        || matches!(state.as_str(), "25P03" | "25006")
        || is_collision(error)
}

/// Returns true if the stored data are damaged or cannot be decoded: a statement on other rows may
/// succeed.
pub fn is_of_stored_data(error: &sqlx::Error) -> bool {
    let is_undecodable = matches!(
        error,
        sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. }
    );
    is_undecodable || is_of_storage(error)
}

/// Returns true if the server cannot read or write stored data: a damaged page, or an error of the disk.
pub fn is_of_storage(error: &sqlx::Error) -> bool {
    sqlstate(error).is_some_and(|state| matches!(&state[..2], "58" | "XX"))
}

/// Returns true if a retry should use another session: this one has probably ended, or its server does
/// not accept writes any more.
pub fn ends_session(error: &sqlx::Error) -> bool {
    is_transient(error) && !is_collision(error)
}
