//! Output of the commands: data on standard output, notices and errors on standard error.

use std::{
    io::{self, Write as _},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::Context as _;

use crate::{exit_code::ExitReason, problem};

/// True for `--json`: standard error then has the problem document and nothing else, so that a script
/// can parse all of it.
static HAS_NO_NOTICES: AtomicBool = AtomicBool::new(false);

/// Error of options, arguments or settings that are missing or do not fit together, found after the
/// command line was parsed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongUse(pub(crate) String);

/// Error of a link that the account does not have, found without an error of the API.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct LinkNotFound(pub(crate) String);

/// Error of an import whose links are not all there: some were refused, or the file lacks some.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(pub(crate) String);

/// Leaves out all notices from now on.
pub(crate) fn omit_notices() {
    HAS_NO_NOTICES.store(true, Ordering::Relaxed);
}

/// Writes to standard output, and flushes standard output.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .context("can't write to standard output")
}

/// Writes a notice to standard error, on a line of its own.
pub(crate) fn note(text: &str) {
    if !HAS_NO_NOTICES.load(Ordering::Relaxed) {
        complain(text);
    }
}

/// Writes an error to standard error, on a line of its own.
pub(crate) fn complain(text: &str) {
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
    if is_json {
        complain(&problem::document(error));
    } else {
        complain(&format!("error: {error:#}"));
    }
    ExitReason::of(error).into()
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
