//! Why a call did not succeed, as people read it.

use std::fmt;

use reqwest::StatusCode;
use serde::Deserialize;

use crate::output::printable;

/// A call that came to no success.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The service said no, and will say so again.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// Nothing that this client could understand.
    #[error("{url} answers {status}, but not as the API of linkledger does")]
    NotTheApi { url: String, status: StatusCode },
    /// No answer, or none that lasts, as often as it was tried.
    #[error("gave up on {url}: {reason}{}", advice.as_deref().unwrap_or_default())]
    NoAnswer {
        url: String,
        reason: String,
        /// What to do, where there is more to say than to try it again.
        advice: Option<String>,
    },
}

impl Failure {
    /// The same with what to do about an outcome that is not known.
    pub(crate) fn advise(mut self, text: &str) -> Self {
        match &mut self {
            Self::NoAnswer { advice, .. } => *advice = Some(format!("\n  {text}")),
            Self::Refused(_) | Self::NotTheApi { .. } => {}
        }
        self
    }
}

/// A problem (contract §9), and the document as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) problem: Problem,
    pub(crate) document: String,
}

/// The members of a problem that we speak of.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Problem {
    pub(crate) code: String,
    pub(crate) detail: String,
    #[serde(default)]
    pub(crate) errors: Vec<FieldProblem>,
    request_id: Option<String>,
}

/// What is wrong in one place of the request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct FieldProblem {
    pub(crate) code: String,
    #[serde(default)]
    pub(crate) detail: String,
    pointer: Option<String>,
    parameter: Option<String>,
    header: Option<String>,
}

impl FieldProblem {
    /// The name of the place, as the caller knows it.
    fn place(&self) -> &str {
        let pointer = self.pointer.as_deref();
        pointer
            .map(|pointer| pointer.trim_start_matches("#/"))
            .or(self.parameter.as_deref())
            .or(self.header.as_deref())
            .unwrap_or_default()
    }
}

impl Refusal {
    /// `None` when the body is no problem document.
    pub(crate) fn parse(status: StatusCode, body: &[u8]) -> Option<Self> {
        Some(Self {
            status: status.as_u16(),
            problem: serde_json::from_slice(body).ok()?,
            document: String::from_utf8(body.to_vec()).ok()?,
        })
    }

    /// Code and detail: those of the field, where one is named, rather than `validation_failed`.
    pub(crate) fn most_telling(&self) -> (&str, &str) {
        match self.problem.errors.first() {
            Some(error) => (&error.code, &error.detail),
            None => (&self.problem.code, &self.problem.detail),
        }
    }
}

impl fmt::Display for Refusal {
    /// Code and detail, a line for each field, the request's id.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem {
            code,
            detail,
            errors,
            request_id,
        } = &self.problem;
        write!(f, "{}: {}", printable(code), printable(detail))?;
        for error in errors {
            let (place, code, detail) = (error.place(), &error.code, &error.detail);
            write!(f, "\n  {}: {}", printable(place), printable(detail))?;
            write!(f, " ({})", printable(code))?;
        }
        match request_id {
            Some(id) => write!(f, "\n  request id: {}", printable(id)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_names_each_field_and_the_request() {
        let body = json!({
            "code": "validation_failed",
            "detail": "2 fields are not valid.",
            "errors": [
                { "pointer": "#/slug", "code": "slug_too_short", "detail": "Too short." },
                { "parameter": "limit", "code": "out_of_range", "detail": "1 to 100." },
            ],
            "request_id": "req_1",
            "status": 422,
        });
        let refusal = Refusal::parse(
            StatusCode::UNPROCESSABLE_ENTITY,
            body.to_string().as_bytes(),
        );
        let refusal = refusal.unwrap();
        assert_eq!(
            refusal.to_string(),
            "validation_failed: 2 fields are not valid.\n  slug: Too short. (slug_too_short)\n  \
             limit: 1 to 100. (out_of_range)\n  request id: req_1"
        );
        assert_eq!(refusal.most_telling(), ("slug_too_short", "Too short."));
    }

    #[test]
    fn what_is_printed_has_no_control_characters() {
        let body = json!({ "code": "a\u{1b}[2J", "detail": "b\nc" }).to_string();
        let refusal = Refusal::parse(StatusCode::CONFLICT, body.as_bytes()).unwrap();
        assert_eq!(refusal.to_string(), "a\u{fffd}[2J: b\u{fffd}c");
    }
}
