//! Problem details (RFC 9457): one occurrence of an error of the catalogue (`docs/api.md#errors`).
//!
//! Pure; [`crate::answer`] renders a [`Problem`] as a response.

mod code;
mod example;
mod occurrence;

use serde_json::{Map, Value, json};

pub use code::Code;
pub use example::EXAMPLE_REQUEST_ID;
use linkledger_core::field::{FieldError, ITEM_ERRORS_MAX};
pub use occurrence::CURSOR_NOT_OF_LIST;

/// One occurrence of a problem, to be sent to the caller.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// Code of the problem.
    pub code: Code,
    /// Explanation and remedy, for people.
    pub detail: String,
    /// Additional members, beyond those of every problem.
    pub members: Map<String, Value>,
    /// Headers of the answer, by name.
    pub headers: Vec<(&'static str, String)>,
}

impl Problem {
    /// Returns a problem without additional members and headers.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            members: Map::new(),
            headers: Vec::new(),
        }
    }

    /// Adds a member.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Adds `Retry-After`, in seconds.
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        self.with_header("retry-after", seconds.to_string())
    }

    /// Returns the problem of an internal error, without details for the caller.
    pub fn internal() -> Self {
        Self::new(
            Code::InternalError,
            "The request failed through a defect of the service.",
        )
    }

    /// Returns the problem of a database that does not answer before anything was done.
    pub fn storage_unavailable() -> Self {
        Self::new(Code::StorageUnavailable, "Nothing was done; retry shortly.").retry_after(1)
    }

    /// Returns the same problem for a malformed id, an unknown id and the id of another account,
    /// for any method.
    pub fn link_not_found() -> Self {
        let detail = "Check the id; this account has no such link.";
        Self::new(Code::LinkNotFound, detail)
    }

    /// Returns the problem of an invalid body, with all its field errors.
    pub fn validation_failed(errors: &[FieldError]) -> Self {
        let mut detail = match errors {
            [error] => error.detail_with_place(),
            // From here on, errors of an item of a batch may have been left out.
            _ if errors.len() >= ITEM_ERRORS_MAX => {
                format!("{} or more fields are not valid.", errors.len())
            }
            _ => format!("{} fields are not valid.", errors.len()),
        };
        // Once, not with each error: an answer must not be far larger than its request.
        let known = errors.iter().find(|error| !error.members.is_empty());
        if let Some(FieldError { members, .. }) = known {
            detail = format!("{detail} The members are {}.", members.join(", "));
        }
        let errors: Vec<Value> = errors
            .iter()
            .map(|error| {
                json!({
                    "pointer": error.pointer,
                    "code": error.code.as_str(),
                    "detail": error.detail(),
                })
            })
            .collect();
        Self::new(Code::ValidationFailed, detail).with("errors", errors)
    }

    /// Returns the problem of an invalid query parameter.
    pub fn invalid_parameter(parameter: &str, code: &str, detail: &str) -> Self {
        let error = json!({ "parameter": parameter, "code": code, "detail": detail });
        Self::new(Code::InvalidParameter, detail).with("errors", vec![error])
    }

    /// Returns the problem of an invalid header.
    pub fn invalid_header(header: &str, detail: &str) -> Self {
        let error = json!({ "header": header, "code": "invalid_header", "detail": detail });
        Self::new(Code::InvalidHeader, detail).with("errors", vec![error])
    }

    /// Returns the body of the answer.
    pub fn to_body(&self, base_url: &str, request_id: &str) -> Value {
        let code = self.code.as_str();
        let mut body = json!({
            "type": format!("{base_url}/docs/problems/{code}"),
            "title": self.code.title(),
            "status": self.code.status(),
            "detail": self.detail,
            "instance": format!("urn:linkledger:request:{request_id}"),
            "code": code,
            "request_id": request_id,
        });
        for (name, value) in &self.members {
            body[name] = value.clone();
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linkledger_core::{commands::batch_request::BatchRequest, field::FieldCode};

    #[test]
    fn number_of_invalid_fields_says_if_some_are_left_out() {
        for (count, detail) in [
            (2, "2 fields are not valid."),
            (9, "9 fields are not valid."),
            (201, "10 or more fields are not valid."),
        ] {
            let error = FieldError::of_member("tags", FieldCode::TagInvalid);
            let errors = BatchRequest::errors_of_item(vec![error; count]);
            assert_eq!(Problem::validation_failed(&errors).detail, detail);
        }
    }
}
