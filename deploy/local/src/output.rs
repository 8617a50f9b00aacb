//! What the commands print: data on standard output, everything else on standard error.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::Context as _;

use crate::client::Failure;

/// The exit codes, for `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  refused by the service, or not possible here; standard error says why
  2  wrong use: an option or argument is not valid
  3  no answer in time: it may be done or not, and is safe to repeat";

const EXIT_NO_ANSWER: u8 = 3;

/// Writes to standard output and hands it on at once.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .context("can't print")
}

/// Tells a person something, on standard error.
pub(crate) fn note(text: &str) {
    // Nothing is left to do should standard error be closed.
    writeln!(io::stderr(), "{text}").ok();
}

/// The text without control characters: what a service sends must not steer a terminal.
pub(crate) fn printable(text: &str) -> String {
    let replaced = |c: char| {
        if c.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            c
        }
    };
    text.chars().map(replaced).collect()
}

/// Says why a command failed, and returns its exit code.
pub(crate) fn fail(error: &anyhow::Error, is_json: bool) -> ExitCode {
    let is_closed_pipe = error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
    if is_closed_pipe {
        // The reader, `head` for instance, has seen enough.
        return ExitCode::SUCCESS;
    }
    let failure = error.downcast_ref::<Failure>();
    match failure {
        Some(Failure::Refused(refusal)) if is_json => note(&refusal.document),
        _ => note(&format!("error: {error:#}")),
    }
    match failure {
        Some(Failure::NoAnswer { .. }) => ExitCode::from(EXIT_NO_ANSWER),
        Some(Failure::Refused(_) | Failure::NotTheApi { .. }) | None => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: io::ErrorKind) -> ExitCode {
        let written: io::Result<()> = Err(kind.into());
        fail(&written.context("can't print").unwrap_err(), false)
    }

    #[test]
    fn a_reader_that_has_seen_enough_is_no_failure() {
        assert_eq!(failure(io::ErrorKind::BrokenPipe), ExitCode::SUCCESS);
        assert_eq!(failure(io::ErrorKind::StorageFull), ExitCode::FAILURE);
    }
}
