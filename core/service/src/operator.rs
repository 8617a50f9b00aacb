//! Operators' names and reasons, for the audit log.

use clap::Args;
use nix::unistd::{Uid, User};

use crate::lifecycle::host_name;
use linkledger_core::printable::is_printable;

/// Name under which a command is recorded.
#[derive(Debug, Clone, Args)]
pub struct Operator {
    /// Name of the operator, for the audit log [default: user name and host name].
    #[arg(
        id = "operator",
        long = "operator",
        env = "LINKLEDGER_OPERATOR",
        value_name = "NAME",
        value_parser = parse_text
    )]
    given: Option<String>,
}

impl Operator {
    /// Returns the given name, or one made of user and host.
    pub fn name(&self) -> String {
        self.given.clone().unwrap_or_else(user_at_host)
    }
}

/// Parses a name or a reason: one printable line, because the text is shown on terminals.
///
/// # Errors
/// Returns a description of valid texts.
pub fn parse_text(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > 200 || !text.chars().all(is_printable) {
        return Err("give 1 to 200 printable characters on one line".to_owned());
    }
    Ok(text.to_owned())
}

fn user_at_host() -> String {
    let variable = |name| parse_text(&std::env::var(name).ok()?).ok();
    let user = variable("USER").or_else(|| variable("LOGNAME"));
    let user = user.unwrap_or_else(user_of_process);
    match parse_text(&host_name()) {
        Ok(host) => format!("{user}@{host}"),
        Err(_) => user,
    }
}

/// Returns the user of the process. cron and systemd do not always set the name in the environment.
fn user_of_process() -> String {
    let uid = Uid::current();
    match User::from_uid(uid) {
        Ok(Some(user)) => user.name,
        Ok(None) | Err(_) => format!("uid {uid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_text_is_one_printable_line() {
        assert_eq!(parse_text(" ticket 7 "), Ok("ticket 7".to_owned()));
        let too_long = "x".repeat(201);
        for text in [
            "",
            "  ",
            "two\nlines",
            "\u{1b}[2Jgone",
            "\u{9b}2J",
            "refund \u{202e}001",
            &too_long,
        ] {
            assert!(parse_text(text).is_err(), "{text:?}");
        }
    }
}
