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
        CommandRefusal::Overloaded => Problem::overloaded(),
        CommandRefusal::StorageUnavailable => Problem::storage_unavailable(),
        CommandRefusal::OutcomeUnknown => Problem::deadline_exceeded(),
        CommandRefusal::KeyInUse => Problem::idempotency_key_in_use(),
        CommandRefusal::Failed => Problem::internal(),
    }
}

fn problem_of_rejection(rejection: &CommandRejection) -> Problem {
    match rejection {
        CommandRejection::KeyReused => Problem::idempotency_key_reused(),
        CommandRejection::Invalid(errors) => Problem::validation_failed(errors),
        CommandRejection::LinkNotFound => Problem::link_not_found(),
        CommandRejection::VersionConflict { actual } => {
            Problem::etag_mismatch(entity_tag::of_version(*actual))
        }
        CommandRejection::LinkDisabledByOperator => Problem::link_disabled_by_operator(),
        CommandRejection::SlugTaken(slug) => Problem::slug_taken(slug),
        CommandRejection::ExternalIdTaken { holder } => {
            let holder = holder.map(|link_id| link_id.to_string());
            Problem::external_id_taken(holder.as_deref())
        }
        CommandRejection::InsufficientCredits(InsufficientCredits { balance, required }) => {
            Problem::insufficient_credits(*balance, *required)
        }
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
            | CommandRejection::SlugTaken(_)
            | CommandRejection::ExternalIdTaken { .. }
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
        CommandRejection::SlugTaken(_) => "/slug",
        CommandRejection::ExternalIdTaken { .. } => "/external_id",
        CommandRejection::Invalid(_)
        | CommandRejection::LinkNotFound
        | CommandRejection::VersionConflict { .. }
        | CommandRejection::LinkDisabledByOperator
        | CommandRejection::InsufficientCredits(_)
        | CommandRejection::Items(_) => "",
    }
}
