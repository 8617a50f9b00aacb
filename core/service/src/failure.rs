//! Describes failed commands for operators.

use std::str::FromStr as _;

use sqlx::postgres::PgConnectOptions;

use linkledger_event_store::errors::sqlstate;

/// Returns the error of a command that cannot reach its database, with the address and the remedy.
pub fn unreachable_database(url: &str, error: &sqlx::Error) -> anyhow::Error {
    // The text of the error already contains the texts of its sources.
    match PgConnectOptions::from_str(url) {
        Ok(options) => anyhow::anyhow!(
            "cannot connect to the database at {}:{}: {error}; correct DATABASE_URL, or start the server",
            options.get_host(),
            options.get_port()
        ),
        Err(_) => anyhow::anyhow!("cannot connect to the database: {error}; correct DATABASE_URL"),
    }
}

/// `insufficient_privilege`.
const DENIED: &str = "42501";

/// Describes an error by its contexts and causes. Repeated texts are omitted; a missing privilege
/// comes with the role that grants it.
pub fn text(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let refusal = cause.downcast_ref().and_then(refusal);
        let is_refusal = refusal.is_some();
        let words = refusal.unwrap_or_else(|| cause.to_string());
        if !text.ends_with(&words) {
            let separator = if text.is_empty() { "" } else { ": " };
            text.extend([separator, &words]);
        }
        if is_refusal {
            // The sources repeat the same message.
            break;
        }
    }
    text
}

/// Returns the message of the database.
fn refusal(error: &sqlx::Error) -> Option<String> {
    let message = error.as_database_error()?.message();
    Some(match sqlstate(error) {
        Some(state) if state == DENIED => format!(
            "{message}: the role of this database address lacks this privilege; operators' commands \
             need `linkledger_operator`, and deploy/postgres/roles.sql names the role of each service"
        ),
        _ => message.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::text;

    #[test]
    fn repeated_source_message_appears_once() {
        let source = "relative URL without a base";
        let error: anyhow::Result<()> = Err(sqlx::Error::Configuration(source.into()).into());
        let error = error.context("can't read the address of the database");
        assert_eq!(
            text(&error.unwrap_err()),
            "can't read the address of the database: error with configuration: relative URL \
             without a base"
        );
    }
}
