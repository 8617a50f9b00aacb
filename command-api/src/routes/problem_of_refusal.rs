//! The problem of the API for each refusal of a command.

use linkledger_core::{
    batch::CommandRejection,
    credits::InsufficientCredits,
    field::{ERRORS_MAX, FieldError},
    http::entity_tag,
    problem::{Code, Problem},
};

use serde_json::{Value, json};

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
        CommandRejection::LinkDisabledByOperator => Problem::new(
            Code::LinkDisabledByOperator,
            "An operator has disabled the link; contact the operator.",
        ),
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
        CommandRejection::Items(items) => problem_of_items(items),
    }
}

/// Returns the problem of an atomic batch: that of its first rejected item, with a list of all rejected
/// items. All items are rejected for the same reason.
fn problem_of_items(items: &[(usize, CommandRejection)]) -> Problem {
    let Some((_, first)) = items.first() else {
        return Problem::internal();
    };
    let problem = problem_of_rejection(first);
    if problem.code == Code::IdempotencyKeyReused {
        return problem_of_used_keys(items);
    }
    if problem.code == Code::ValidationFailed {
        let errors = items.iter().flat_map(|(index, rejection)| match rejection {
            CommandRejection::Invalid(errors) => in_item(*index, errors),
            CommandRejection::KeyReused
            | CommandRejection::LinkNotFound
            | CommandRejection::VersionConflict { .. }
            | CommandRejection::LinkDisabledByOperator
            | CommandRejection::SlugTaken
            | CommandRejection::ExternalIdTaken
            | CommandRejection::InsufficientCredits(_)
            | CommandRejection::Items(_) => Vec::new(),
        });
        let errors: Vec<FieldError> = errors.take(ERRORS_MAX).collect();
        return Problem::validation_failed(&errors);
    }
    let errors = items.iter().map(|(index, rejection)| {
        error_of_item(*index, rejection, &problem_of_rejection(rejection))
    });
    let errors: Vec<Value> = errors.collect();
    problem.with("errors", errors)
}

/// Returns the problem of an atomic batch with used keys, with these bodies or others. A client that took new
/// keys for all of the named items could create a link twice.
fn problem_of_used_keys(items: &[(usize, CommandRejection)]) -> Problem {
    let problem = Problem::new(
        Code::IdempotencyKeyReused,
        "Some keys of the batch were used before: send the batch in mode partial, with the same keys; an item with \
         another body than before needs a new key.",
    );
    let item = Problem::new(Code::IdempotencyKeyReused, "The key was used before.");
    let errors = items.iter();
    let errors = errors.map(|(index, rejection)| error_of_item(*index, rejection, &item));
    let errors: Vec<Value> = errors.collect();
    problem.with("errors", errors)
}

fn error_of_item(index: usize, rejection: &CommandRejection, problem: &Problem) -> Value {
    let pointer = format!("#/items/{index}{}", member_of(rejection));
    json!({ "pointer": pointer, "code": problem.code.as_str(), "detail": problem.detail })
}

fn in_item(index: usize, errors: &[FieldError]) -> Vec<FieldError> {
    let errors = errors.iter().cloned();
    errors.map(|error| error.in_item(index)).collect()
}

/// Returns the pointer to the member of an item that is the reason of the rejection; empty for the
/// item as a whole.
const fn member_of(rejection: &CommandRejection) -> &'static str {
    match rejection {
        CommandRejection::KeyReused => "/idempotency_key",
        CommandRejection::SlugTaken => "/slug",
        CommandRejection::ExternalIdTaken => "/external_id",
        CommandRejection::Invalid(_)
        | CommandRejection::LinkNotFound
        | CommandRejection::VersionConflict { .. }
        | CommandRejection::LinkDisabledByOperator
        | CommandRejection::InsufficientCredits(_)
        | CommandRejection::Items(_) => "",
    }
}
