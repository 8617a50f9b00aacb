//! The exit codes of all commands: one table, from the status of a problem or the kind of an error.

use std::process::ExitCode;

use reqwest::StatusCode;

use crate::{
    client::CallFailure,
    output::{LinkNotFound, Refused, WrongUse},
};

/// List of the exit codes, for `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  not possible, for any other reason, such as a file that cannot be written
  2  wrong use: an option, argument or setting is missing, not valid, or does not fit the others
  4  not found
  5  conflict: the slug or external id is taken, the link was changed meanwhile, or the log was
     restored (409, 412)
  6  refused: the request is not valid, or key, scope or credits do not allow it (other 4xx)
  7  unavailable: no connection, no answer in time, too many requests, or a failure of the
     service (429, 5xx); the request may have taken effect, so repeat the same command
     (links create, webhooks create, webhooks rotate-secret: with the --idempotency-key that
     the error names; webhooks replay, webhooks test: look first, as the error says)
Errors are on standard error; with --json as a problem document, and nothing else is there.";

/// Reason for which a command ends without success; the number is its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ExitReason {
    Other = 1,
    WrongUse = 2,
    NotFound = 4,
    Conflict = 5,
    Refused = 6,
    Unavailable = 7,
}

impl ExitReason {
    /// Returns the reason for the status of a problem, of a request or of an item of a batch.
    pub(crate) fn of_status(status: u16) -> Self {
        match status {
            404 | 410 => Self::NotFound,
            409 | 412 => Self::Conflict,
            408 | 429 | 500..=599 => Self::Unavailable,
            400..=499 => Self::Refused,
            _ => Self::Other,
        }
    }

    /// Returns the reason for an error, whatever context was added to it.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        match error.downcast_ref() {
            Some(CallFailure::Refused(refusal)) => return Self::of_status(refusal.status),
            Some(CallFailure::NoAnswer { .. }) => return Self::Unavailable,
            Some(CallFailure::NotTheApi { .. }) => return Self::Other,
            None => {}
        }
        if error.is::<WrongUse>() {
            Self::WrongUse
        } else if error.is::<LinkNotFound>() {
            Self::of_status(StatusCode::NOT_FOUND.as_u16())
        } else if error.is::<Refused>() {
            Self::Refused
        } else {
            Self::Other
        }
    }
}

impl From<ExitReason> for ExitCode {
    fn from(reason: ExitReason) -> Self {
        Self::from(reason as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_the_exit_code_of_its_kind() {
        for (code, statuses) in [
            (1, &[200, 302, 399, 600][..]),
            (4, &[404, 410]),
            (5, &[409, 412]),
            (6, &[400, 401, 402, 403, 405, 413, 415, 421, 422, 431]),
            (7, &[408, 429, 500, 502, 503, 504, 507]),
        ] {
            for &status in statuses {
                assert_eq!(ExitReason::of_status(status) as u8, code, "{status}");
            }
        }
    }

    #[test]
    fn context_of_an_error_keeps_its_exit_code() {
        for (error, reason) in [
            (WrongUse(String::new()).into(), ExitReason::WrongUse),
            (LinkNotFound(String::new()).into(), ExitReason::NotFound),
            (Refused(String::new()).into(), ExitReason::Refused),
            (anyhow::anyhow!("disk full"), ExitReason::Other),
        ] {
            let error: anyhow::Error = error;
            let error = error.context("the import stopped").context("again");
            assert_eq!(ExitReason::of(&error), reason);
        }
    }
}
