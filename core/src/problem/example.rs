//! An example of each problem, for the documentation.

use serde_json::Value;

use super::{Code, Problem};
use crate::field::{FieldCode, FieldError};

/// Request id of the examples.
pub const EXAMPLE_REQUEST_ID: &str = "req_9hqs7mz1e0vxk3b5c8d2";

impl Problem {
    /// Returns an example of the problem, with all members that the problem has.
    pub fn example_of(code: Code) -> Self {
        let with_members = [
            Problem::validation_failed(&[
                FieldError::of_member("destination_url", FieldCode::UrlSchemeNotAllowed),
                FieldError::of_member("slug", FieldCode::SlugReserved),
            ]),
            Problem::invalid_parameter(
                "limit",
                "out_of_range",
                "The limit is a number from 1 to 100.",
            )
            .with("minimum", 1)
            .with("maximum", 100),
            Problem::invalid_header("Host", "The Host header is missing."),
            Problem::new(
                Code::InsufficientCredits,
                "The price in credits is 1; the balance is 0.",
            )
            .with("balance", 0)
            .with("required", 1),
            Problem::new(
                Code::InsufficientScope,
                "This call needs a key with the scope link:links.read.",
            )
            .with("required_scopes", vec![Value::from("link:links.read")]),
            Problem::new(
                Code::DeadlineExceeded,
                "The request may have succeeded. Retry the same request; a retried create needs the same Idempotency-Key.",
            )
            .with("may_have_succeeded", true),
            Problem::internal(),
            Problem::storage_unavailable(),
        ];
        with_members
            .into_iter()
            .find(|problem| problem.code == code)
            .unwrap_or_else(|| Problem::new(code, code.advice()))
    }
}
