//! The problem of the API for each refusal of a command.

use linkledger_core::{
    batch::CommandRejection,
    credits::InsufficientCredits,
    http::entity_tag,
    problem::{Code, Problem},
};

use crate::command_reply::CommandRefusal;

pub(super) fn problem(refusal: &CommandRefusal) -> Problem {
    match refusal {
        CommandRefusal::Rejected(rejection) => problem_of_rejection(rejection),
        CommandRefusal::Overloaded => {
            Problem::new(Code::Overloaded, "Nothing was done; retry shortly.").retry_after(1)
        }
        CommandRefusal::StorageUnavailable => Problem::storage_unavailable(),
        CommandRefusal::OutcomeUnknown => Problem::new(
            Code::DeadlineExceeded,
            "The request may have succeeded. Retry the same request; a retried create needs the same Idempotency-Key.",
        )
        .with("may_have_succeeded", true)
        .retry_after(1),
        CommandRefusal::KeyInUse => Problem::new(
            Code::IdempotencyKeyInUse,
            "The first request with this key is still running; retry in a second.",
        )
        .retry_after(1),
        CommandRefusal::Failed => Problem::internal(),
    }
}

fn problem_of_rejection(rejection: &CommandRejection) -> Problem {
    match rejection {
        CommandRejection::KeyReused => Problem::new(
            Code::IdempotencyKeyReused,
            "This Idempotency-Key was used with another body; a different link needs a new key.",
        ),
        CommandRejection::Invalid(errors) => Problem::validation_failed(errors),
        CommandRejection::LinkNotFound => Problem::link_not_found(),
        CommandRejection::VersionConflict { actual } => Problem::new(
            Code::EtagMismatch,
            "If-Match does not name the current version of the link; read the link again and send its ETag, quotes included.",
        )
        .with_header("etag", entity_tag::of_version(*actual)),
        CommandRejection::SlugTaken => Problem::new(
            Code::SlugTaken,
            "Choose another slug, or leave out the slug to get a generated slug.",
        ),
        CommandRejection::ExternalIdTaken => Problem::new(
            Code::ExternalIdTaken,
            "Choose another external_id, or take it from the other link first.",
        ),
        CommandRejection::InsufficientCredits(InsufficientCredits { balance, required }) => Problem::new(
            Code::InsufficientCredits,
            format!("The price in credits is {required}; the balance is {balance}."),
        )
        .with("balance", *balance)
        .with("required", *required),
    }
}
