//! Output of the commands: data on standard output, notices and errors on standard error.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::Context as _;

use crate::client::CallFailure;

/// List of the exit codes, for `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  refused by the service, or not possible; standard error says why
  2  wrong use: an option or argument is not valid, or does not fit the others
  3  no answer before the timeout: the request may have taken effect or not; repeat the
     command (links create: with the --idempotency-key that standard error names)";

const EXIT_WRONG_USE: u8 = 2;
const EXIT_NO_ANSWER: u8 = 3;

/// Error of options or arguments that do not fit together, found after the command line was parsed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongUse(pub(crate) String);

/// Writes to standard output, and flushes standard output.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .context("can't write to standard output")
}

/// Writes a line to standard error.
pub(crate) fn note(text: &str) {
    // If standard error is closed, there is no other place for the line.
    writeln!(io::stderr(), "{text}").ok();
}

/// Prints the error of a command, and returns the exit code for the error.
pub(crate) fn fail(error: &anyhow::Error, is_json: bool) -> ExitCode {
    let is_closed_pipe = error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
    if is_closed_pipe {
        // The reader of the pipe, `head` for instance, has ended on purpose.
        return ExitCode::SUCCESS;
    }
    let failure = error.downcast_ref::<CallFailure>();
    let is_wrong_use = error.is::<WrongUse>();
    match failure {
        Some(CallFailure::Refused(refusal)) if is_json => note(&refusal.document),
        _ => note(&format!("error: {error:#}")),
    }
    match failure {
        Some(CallFailure::NoAnswer { .. }) => ExitCode::from(EXIT_NO_ANSWER),
        None if is_wrong_use => ExitCode::from(EXIT_WRONG_USE),
        Some(CallFailure::Refused(_) | CallFailure::NotTheApi { .. }) | None => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: io::ErrorKind) -> ExitCode {
        let written: io::Result<()> = Err(kind.into());
        fail(&written.context("can't write").unwrap_err(), false)
    }

    #[test]
    fn closed_pipe_is_no_failure() {
        assert_eq!(failure(io::ErrorKind::BrokenPipe), ExitCode::SUCCESS);
        assert_eq!(failure(io::ErrorKind::StorageFull), ExitCode::FAILURE);
    }
}
