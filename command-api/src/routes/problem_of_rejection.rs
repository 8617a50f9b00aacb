//! The problem of the API for each rejection of a command, and for each reason why there is no decision.

use linkledger_core::{
    commands::Rejection,
    credits::InsufficientCredits,
    field::{ERRORS_MAX, FieldError},
};
use linkledger_http::{
    entity_tag,
    problem::{Code, Problem},
};

use serde_json::{Value, json};

use crate::command_queue::Unavailable;

impl From<Unavailable> for Problem {
    fn from(reason: Unavailable) -> Self {
        match reason {
            Unavailable::Overloaded => Self::overloaded(),
            Unavailable::StorageUnavailable => Self::storage_unavailable(),
            Unavailable::OutcomeUnknown => Self::deadline_exceeded(),
            Unavailable::KeyInUse => Self::idempotency_key_in_use(),
            Unavailable::Failed => Self::internal(),
        }
    }
}

/// Returns the problem of a command that is rejected.
pub(super) fn problem(rejection: &Rejection) -> Problem {
    match rejection {
        Rejection::KeyReused => Problem::idempotency_key_reused(),
        Rejection::Invalid(errors) => Problem::validation_failed(errors),
        Rejection::LinkNotFound => Problem::link_not_found(),
        Rejection::VersionConflict { actual } => {
            Problem::etag_mismatch(entity_tag::of_version(*actual))
        }
        Rejection::LinkDisabledByOperator => Problem::link_disabled_by_operator(),
        Rejection::SlugTaken(slug) => Problem::slug_taken(slug),
        Rejection::ExternalIdTaken { holder } => {
            let holder = holder.map(|link_id| link_id.to_string());
            Problem::external_id_taken(holder.as_deref())
        }
        Rejection::InsufficientCredits(InsufficientCredits { balance, required }) => {
            Problem::insufficient_credits(*balance, *required)
        }
        Rejection::Items(items) => problem_of_items(items),
    }
}

/// Returns the problem of an atomic batch: that of its first rejected item, with a list of all rejected
/// items. All items are rejected for the same reason.
fn problem_of_items(items: &[(usize, Rejection)]) -> Problem {
    let Some((_, first)) = items.first() else {
        return Problem::internal();
    };
    let of_first = problem(first);
    if of_first.code == Code::IdempotencyKeyReused {
        return problem_of_used_keys(items);
    }
    if of_first.code == Code::ValidationFailed {
        let errors = items.iter().flat_map(|(index, rejection)| {
            let Rejection::Invalid(errors) = rejection else {
                return Vec::new();
            };
            let errors = errors.iter().cloned();
            errors.map(|error| error.in_item(*index)).collect()
        });
        let errors: Vec<FieldError> = errors.take(ERRORS_MAX).collect();
        return Problem::validation_failed(&errors);
    }
    let errors = items
        .iter()
        .map(|(index, rejection)| error_of_item(*index, rejection, &problem(rejection)));
    let errors: Vec<Value> = errors.collect();
    of_first.with("errors", errors)
}

/// Returns the problem of an atomic batch with used keys, with these bodies or others. A client that took new
/// keys for all of the named items could create a link twice.
fn problem_of_used_keys(items: &[(usize, Rejection)]) -> Problem {
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

fn error_of_item(index: usize, rejection: &Rejection, problem: &Problem) -> Value {
    let pointer = format!("#/items/{index}{}", member_of(rejection));
    json!({ "pointer": pointer, "code": problem.code.as_str(), "detail": problem.detail })
}

/// Returns the pointer to the member of an item that is the reason of the rejection; empty for the
/// item as a whole.
const fn member_of(rejection: &Rejection) -> &'static str {
    match rejection {
        Rejection::KeyReused => "/idempotency_key",
        Rejection::SlugTaken(_) => "/slug",
        Rejection::ExternalIdTaken { .. } => "/external_id",
        Rejection::Invalid(_)
        | Rejection::LinkNotFound
        | Rejection::VersionConflict { .. }
        | Rejection::LinkDisabledByOperator
        | Rejection::InsufficientCredits(_)
        | Rejection::Items(_) => "",
    }
}
