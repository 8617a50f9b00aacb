//! Requirements on a Postgres server: settings that keep the log durable, and sessions with the
//! requested settings.

use anyhow::Context as _;
use sqlx::{FromRow, PgPool};

use super::{Finding, Severity, pooler};
use linkledger_event_store::SessionKind;

/// Oldest supported release of Postgres: the first with all features that the statements use.
const VERSION_MIN: i32 = 14;
const ALLOW_UNSAFE: &str = "--allow-unsafe-postgres (ALLOW_UNSAFE_POSTGRES)";

/// Settings and state of a server, as seen by a session of the process.
#[derive(Debug, Clone, FromRow)]
pub struct ServerFacts {
    version: i32,
    encoding: String,
    is_standby: bool,
    is_read_only: bool,
    fsync: String,
    full_page_writes: String,
    synchronous_commit: String,
    isolation: String,
    statement_timeout: String,
}

/// Reads the settings and the state of the server.
///
/// # Errors
/// Returns an error if the server does not answer.
pub async fn read(pool: &PgPool) -> sqlx::Result<ServerFacts> {
    sqlx::query_as(
        "SELECT current_setting('server_version_num')::int / 10000 AS version,
                current_setting('server_encoding') AS encoding,
                pg_is_in_recovery() AS is_standby,
                current_setting('default_transaction_read_only')::bool AS is_read_only,
                current_setting('fsync') AS fsync,
                current_setting('full_page_writes') AS full_page_writes,
                current_setting('synchronous_commit') AS synchronous_commit,
                current_setting('default_transaction_isolation') AS isolation,
                current_setting('statement_timeout') AS statement_timeout",
    )
    .fetch_one(pool)
    .await
}

/// Judges the facts for a process with sessions of this kind. Pure.
pub fn judge(facts: &ServerFacts, kind: SessionKind, allows_unsafe: bool) -> Vec<Finding> {
    let mut findings = vec![
        version(facts),
        expect(
            "encoding",
            &facts.encoding,
            "UTF8",
            "make the database with ENCODING 'UTF8' TEMPLATE template0",
        ),
        writable(facts, kind),
    ];
    findings.extend(durability(facts, kind, allows_unsafe));
    findings.extend(session(facts));
    findings
}

fn version(facts: &ServerFacts) -> Finding {
    let is = format!("Postgres {}", facts.version);
    if facts.version < VERSION_MIN {
        let remedy = format!("upgrade to Postgres {VERSION_MIN} or later");
        Finding::error("version", is, remedy)
    } else {
        Finding::ok("version", is)
    }
}

fn writable(facts: &ServerFacts, kind: SessionKind) -> Finding {
    let check = "writable";
    let reads_only = kind == SessionKind::Reader;
    if kind == SessionKind::Replica {
        return if facts.is_standby {
            Finding::ok(check, "it is a replica")
        } else {
            let remedy = "remove the address of a primary from --read-replica-urls";
            Finding::new(
                check,
                Severity::Warning,
                "it is a primary, and is not read",
                remedy,
            )
        };
    }
    if facts.is_standby && reads_only {
        let remedy = "give the address of the primary: last_used_at of API keys is not recorded";
        Finding::new(check, Severity::Warning, "it is a standby", remedy)
    } else if facts.is_standby {
        let remedy = "give the address of the primary, or promote it";
        Finding::error(check, "it is a standby", remedy)
    } else if facts.is_read_only && !reads_only {
        let remedy = "ALTER ROLE or ALTER DATABASE … RESET default_transaction_read_only";
        Finding::error(check, "default_transaction_read_only is on", remedy)
    } else {
        Finding::ok(check, "it is a primary")
    }
}

/// Checks that a crash of the machine cannot lose acknowledged or published events.
fn durability(facts: &ServerFacts, kind: SessionKind, allows_unsafe: bool) -> Vec<Finding> {
    let unsafe_verdict = if allows_unsafe {
        Severity::Warning
    } else {
        Severity::Error
    };
    let off = |check, setting: &str, verdict, remedy: String| match setting {
        "off" => Finding::new(check, verdict, "off", remedy),
        _ => Finding::ok(check, "on"),
    };
    let fsync = format!(
        "ALTER SYSTEM SET fsync = on: a crash of the machine destroys the log; for tests \
         {ALLOW_UNSAFE}"
    );
    let pages = "ALTER SYSTEM SET full_page_writes = on, unless the file system never tears a page";
    let mut findings = vec![
        off("fsync", &facts.fsync, unsafe_verdict, fsync),
        off(
            "full_page_writes",
            &facts.full_page_writes,
            Severity::Warning,
            pages.to_owned(),
        ),
    ];
    // The projector itself turns synchronous_commit off: lost rows are projected again from the
    // log. Readers hardly write.
    if kind == SessionKind::Writer {
        let commit = format!(
            "set it to on, for the server, the database and the role: acknowledged events could \
             be lost; for tests {ALLOW_UNSAFE}"
        );
        let setting = &facts.synchronous_commit;
        findings.push(off("synchronous_commit", setting, unsafe_verdict, commit));
    }
    findings
}

/// Checks that the server received the session settings that the process requested.
fn session(facts: &ServerFacts) -> [Finding; 2] {
    let remedy = "a proxy in front of Postgres drops the settings that sessions request at their start: \
                  connect to Postgres itself, or to a pooler in session mode that passes `options`";
    [
        expect("isolation", &facts.isolation, "read committed", remedy),
        expect(
            "session settings",
            &facts.statement_timeout,
            linkledger_event_store::STATEMENT_TIMEOUT,
            remedy,
        ),
    ]
}

fn expect(check: &'static str, is: &str, should_be: &str, remedy: &str) -> Finding {
    if is == should_be {
        return Finding::ok(check, is);
    }
    Finding::error(check, format!("{is}, not {should_be}"), remedy)
}

/// A database that a process refuses to start with.
#[derive(Debug, thiserror::Error)]
#[error("this database is refused: {}", .0.sentence())]
pub struct DatabaseRefused(Finding);

impl Finding {
    /// Returns the finding, which may be a warning.
    ///
    /// # Errors
    /// Returns [`DatabaseRefused`] if the finding is an error.
    pub fn admitted(self) -> Result<Self, DatabaseRefused> {
        if self.verdict == Severity::Error {
            return Err(DatabaseRefused(self));
        }
        Ok(self)
    }
}

/// Checks the server before a process starts. Warnings are logged.
///
/// # Errors
/// Returns the first finding that is an error, or the reason why the server does not answer.
pub async fn admit(url: &str, kind: SessionKind, allows_unsafe: bool) -> anyhow::Result<()> {
    let mut findings = super::configuration::database(url);
    // Comes first: further statements could meet the settings of other clients in a shared session.
    pooler::look(url, kind).await?.admitted()?;
    let pool = linkledger_event_store::pool(url, kind, 1)?;
    let facts = read(&pool)
        .await
        .context("cannot read the server's settings")?;
    pool.close().await;
    findings.extend(judge(&facts, kind, allows_unsafe));
    for finding in findings {
        let finding = finding.admitted()?;
        if finding.verdict == Severity::Warning {
            tracing::warn!("the database: {}", finding.sentence());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
