//! The problem that each refusal of a command is answered with.

use linkledger_core::{
    batch::CommandRejection,
    http::entity_tag,
    problem::{Code, Problem},
};

use crate::command_queue::Refusal;

pub(super) fn problem(refusal: &Refusal) -> Problem {
    match refusal {
        Refusal::Rejected(rejection) => problem_of_rejection(rejection),
        Refusal::Overloaded => {
            Problem::new(Code::Overloaded, "Nothing was done; retry shortly.").retry_after(1)
        }
        Refusal::StorageUnavailable => Problem::storage_unavailable(),
        Refusal::OutcomeUnknown => Problem::new(
            Code::DeadlineExceeded,
            "The request may have succeeded; retry the same request, a create with its Idempotency-Key.",
        )
        .with("may_have_succeeded", true)
        .retry_after(1),
        Refusal::KeyInUse => Problem::new(
            Code::IdempotencyKeyInUse,
            "The first request with this key is still running; send it again shortly.",
        )
        .retry_after(1),
        Refusal::Failed => Problem::internal(),
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
            "If-Match does not name its current version; read the link again and send its ETag, quotes included.",
        )
        .with_header("etag", entity_tag::of_version(*actual)),
        CommandRejection::SlugTaken => Problem::new(
            Code::SlugTaken,
            "Choose another slug, or leave it out to get one.",
        ),
        CommandRejection::InsufficientCredits { balance, required } => Problem::new(
            Code::InsufficientCredits,
            format!("The price in credits is {required}; the balance is {balance}."),
        )
        .with("balance", *balance)
        .with("required", *required),
    }
}
