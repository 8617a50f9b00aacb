//! The problem of the admin API for each failure of a command.

use linkledger_core::{
    credits::{CreditsError, InsufficientCredits},
    field::{FieldCode, FieldError},
    webhook::WEBHOOKS_OF_ACCOUNT_MAX,
};
use linkledger_http::{
    per_account_limit::overloaded,
    problem::{Code, Problem},
};

use super::members::{AFTER, AMOUNT, BALANCE, EXPIRES_AT, EXTERNAL_ID, SECRET_SHA256};
use crate::admin::error::{AdminError, AdminRefusal};

/// Returns the problem of a command without a known effect, and logs a failure of the service.
pub(super) fn problem(error: &AdminError) -> Problem {
    match error {
        AdminError::Refused(refusal) => problem_of_refusal(refusal),
        AdminError::Unavailable(cause) => {
            tracing::warn!(error = %format!("{cause:#}"), "an admin command was not executed");
            Problem::storage_unavailable()
        }
        AdminError::OutcomeUnknown(cause) => {
            tracing::error!(error = %format!("{cause:#}"), "the outcome of an admin command is unknown");
            Problem::deadline_exceeded()
        }
        AdminError::Failed(cause) => {
            tracing::error!(error = %format!("{cause:#}"), "an admin command has failed");
            Problem::internal()
        }
    }
}

fn problem_of_refusal(refusal: &AdminRefusal) -> Problem {
    match refusal {
        AdminRefusal::AccountNotFound(_) => Problem::account_not_found(),
        AdminRefusal::KeyNotFound(_) | AdminRefusal::AdminKeyNotFound(_) => {
            Problem::key_not_found()
        }
        AdminRefusal::ConsoleCodeInvalid => Problem::console_code_invalid(),
        AdminRefusal::LinkNotFound(_) => Problem::link_of_no_account(),
        AdminRefusal::LinkDeleted(_) => {
            let detail = "The link is deleted; its short address leads nowhere.";
            Problem::new(Code::LinkNotFound, detail)
        }
        AdminRefusal::EntryNotFound(_) => Problem::entry_not_found(),
        AdminRefusal::NotACharge(_) => Problem::entry_of_other_type("charge"),
        AdminRefusal::NotAGrant(_) => Problem::entry_of_other_type("grant"),
        AdminRefusal::ExternalIdTaken { account_id } => {
            Problem::external_id_of_account_taken(&account_id.to_string())
        }
        AdminRefusal::ExternalIdReserved => invalid(EXTERNAL_ID, FieldCode::ExternalIdReserved),
        AdminRefusal::WebhookNotFound(_) => Problem::webhook_not_found(),
        AdminRefusal::DeliveryNotFound(_) => Problem::delivery_not_found(),
        AdminRefusal::WebhookLimitReached => {
            Problem::webhook_limit_reached(WEBHOOKS_OF_ACCOUNT_MAX)
        }
        AdminRefusal::ReplayInProgress(_) => Problem::replay_in_progress(),
        AdminRefusal::WebhookDisabled(_) => Problem::webhook_disabled(),
        AdminRefusal::DeliveriesWait(_) => {
            overloaded("Too many deliveries of this webhook wait: retry later.")
        }
        AdminRefusal::EventUnknown => invalid(AFTER, FieldCode::EventUnknown),
        AdminRefusal::MasterKeyMissing(id) => Problem::master_key_missing(id),
        AdminRefusal::IdempotencyKeyReused { .. } => Problem::idempotency_key_reused(),
        AdminRefusal::AlreadyRefunded(_) => Problem::already_refunded(),
        AdminRefusal::AlreadyRevoked(_) => Problem::already_revoked(),
        AdminRefusal::KeyNotValid { because, .. } => Problem::key_not_valid(&because.to_string()),
        AdminRefusal::SecretTaken => invalid(SECRET_SHA256, FieldCode::SecretTaken),
        AdminRefusal::ExpiryInPast => invalid(EXPIRES_AT, FieldCode::ExpiresAtInThePast),
        AdminRefusal::Credits(error) => problem_of_credits(*error),
    }
}

fn problem_of_credits(error: CreditsError) -> Problem {
    match error {
        CreditsError::Insufficient(InsufficientCredits { balance, required }) => {
            Problem::adjustment_exceeds_balance(balance, required)
        }
        CreditsError::AmountNotPositive | CreditsError::AmountIsZero => {
            invalid(AMOUNT, FieldCode::AmountInvalid)
        }
        CreditsError::BalanceNegative => invalid(BALANCE, FieldCode::BalanceInvalid),
        // A refund has no member `amount`; here its amount is that of the charge.
        CreditsError::BalanceTooLarge => invalid(AMOUNT, FieldCode::BalanceTooLarge),
    }
}

fn invalid(member: &str, code: FieldCode) -> Problem {
    Problem::validation_failed(&[FieldError::of_member(member, code)])
}
