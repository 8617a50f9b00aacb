//! Why a command was not done, in words for whoever gave it.

use crate::event_store::sqlstate;

/// `insufficient_privilege`.
const DENIED: &str = "42501";

/// What was being done and each cause of its failure, once: what some errors repeat of their
/// sources is left out, and a right that is missing comes with whoever has it.
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
            // Its sources say nothing else.
            break;
        }
    }
    text
}

/// What the database says itself.
fn refusal(error: &sqlx::Error) -> Option<String> {
    let message = error.as_database_error()?.message();
    Some(match sqlstate(error) {
        Some(state) if state == DENIED => format!(
            "{message}: the role of this database address may not do that; operators' commands \
             need `linkledger_operator`, and deploy/postgres/roles.sql names everybody's role"
        ),
        _ => message.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::text;

    #[test]
    fn what_an_error_repeats_of_its_source_is_said_once() {
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
