//! Calls that take effect once for one idempotency key, which the user can name to repeat a command.

use anyhow::Context as _;
use linkledger_core::clock::{Clock as _, SystemClock, new_uuid};
use tokio::signal::unix::{SignalKind, signal};
use uuid::Uuid;

use super::{ApiCall, ApiClient, ApiResponse, CallFailure};

/// Idempotency key of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallKey {
    pub(crate) value: Uuid,
    is_given: bool,
}

impl CallKey {
    /// Returns the key that the user gave, or a new one.
    pub(crate) fn given_or_new(given: Option<Uuid>) -> Self {
        Self {
            value: given.unwrap_or_else(|| new_uuid(SystemClock.now())),
            is_given: given.is_some(),
        }
    }
}

/// Parses an idempotency key on the command line.
pub(crate) fn parse_idempotency_key(text: &str) -> Result<Uuid, String> {
    text.parse()
        .map_err(|_| "not a UUID such as 01997f2c-5d1e-7c3a-9b1f-0123456789ab".to_owned())
}

impl ApiClient {
    /// Sends a call with its key. The error of an unknown outcome says what may be, and what the service
    /// does when the command is repeated with the key.
    pub(crate) async fn send_keyed(
        &self,
        call: &ApiCall,
        key: CallKey,
        (what_may_be, effect): (&str, &str),
    ) -> anyhow::Result<ApiResponse> {
        let outcome = self.send_until_interrupt(call).await?;
        Ok(outcome.map_err(|failure| {
            // A key that the user gave may have had its effect in an earlier run.
            if !failure.is_unknown_outcome() && !key.is_given {
                return failure;
            }
            failure.advise(&format!(
                "{what_may_be}. Repeat the command with --idempotency-key {}: the service then {effect}.",
                key.value
            ))
        })?)
    }

    /// Sends a call. Ctrl-C ends the wait but not the process, so that the idempotency key can still
    /// be printed. The process therefore listens for Ctrl-C before the request is sent.
    async fn send_until_interrupt(
        &self,
        call: &ApiCall,
    ) -> anyhow::Result<Result<ApiResponse, CallFailure>> {
        let mut interrupt = signal(SignalKind::interrupt()).context("can't listen for Ctrl-C")?;
        Ok(tokio::select! {
            outcome = self.send(call) => outcome,
            _ = interrupt.recv() => Err(self.no_answer(call, "interrupted", true)),
        })
    }
}
