//! The errors of a call, as people read them.

use std::fmt;

use linkledger_core::printable::printable;
use reqwest::StatusCode;
use serde::Deserialize;

/// The error of a call.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallFailure {
    /// The service refuses the request, and would refuse a retry as well.
    #[error("{0}")]
    Refused(Box<ApiRefusal>),
    /// The response is not a response of the API of linkledger.
    #[error(
        "{url} answers {status}, but not as the API of linkledger does; check the address \
         (--api-url)"
    )]
    NotTheApi { url: String, status: StatusCode },
    /// No attempt got a final answer before the retry policy ended.
    #[error("gave up on {url}: {reason}{}", advice.as_deref().unwrap_or_default())]
    NoAnswer {
        url: String,
        reason: String,
        /// True if an attempt may have taken effect. Without a connection, nothing was sent.
        may_be_done: bool,
        /// Advice beyond "repeat the command".
        advice: Option<String>,
        /// Problem in the last answer, if the service sent one.
        refusal: Option<Box<ApiRefusal>>,
    },
}

impl CallFailure {
    /// Returns true if the outcome of the call is unknown.
    pub(crate) fn is_unknown_outcome(&self) -> bool {
        matches!(
            self,
            Self::NoAnswer {
                may_be_done: true,
                ..
            }
        )
    }

    /// Adds advice on a call that may have taken effect.
    pub(crate) fn advise_if_unknown(self, text: &str) -> Self {
        if self.is_unknown_outcome() {
            self.advise(text)
        } else {
            self
        }
    }

    /// Adds advice on a call without an answer.
    pub(crate) fn advise(mut self, text: &str) -> Self {
        match &mut self {
            Self::NoAnswer { advice, .. } => *advice = Some(format!("\n  {text}")),
            Self::Refused(_) | Self::NotTheApi { .. } => {}
        }
        self
    }
}

/// An error of the API: the parsed problem document, and its text as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiRefusal {
    pub(crate) status: u16,
    pub(crate) problem: ProblemDocument,
    pub(crate) document: String,
}

/// The members of a problem document that the client shows.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ProblemDocument {
    pub(crate) code: String,
    pub(crate) detail: String,
    #[serde(default)]
    pub(crate) errors: Vec<FieldProblem>,
    /// Credits that the request costs, of `insufficient_credits`.
    pub(crate) required: Option<i64>,
    request_id: Option<String>,
}

/// The error of one member, parameter or header of the request.
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
    /// Returns the name of the member, parameter or header.
    fn place(&self) -> &str {
        let pointer = self.pointer.as_deref();
        pointer
            .map(|pointer| pointer.trim_start_matches("#/"))
            .or(self.parameter.as_deref())
            .or(self.header.as_deref())
            .unwrap_or_default()
    }
}

impl ApiRefusal {
    /// Parses a problem document; `None` if the body is not a problem document.
    pub(crate) fn parse(status: StatusCode, body: &[u8]) -> Option<Self> {
        Some(Self {
            status: status.as_u16(),
            problem: serde_json::from_slice(body).ok()?,
            document: String::from_utf8(body.to_vec()).ok()?,
        })
    }

    /// Returns the most specific code and detail: of the first field that is not valid, or else of
    /// the whole request.
    pub(crate) fn code_and_detail(&self) -> (&str, &str) {
        match self.problem.errors.first() {
            Some(error) => (&error.code, &error.detail),
            None => (&self.problem.code, &self.problem.detail),
        }
    }
}

impl fmt::Display for ApiRefusal {
    /// Writes code and detail, a line for each field, and the id of the request.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProblemDocument {
            code,
            detail,
            errors,
            request_id,
            required: _,
        } = &self.problem;
        write!(f, "{}: {}", printable(code), printable(detail))?;
        for error in errors {
            let (place, code, detail) = (error.place(), &error.code, &error.detail);
            write!(f, "\n  {}", printable(place))?;
            if !self.problem.detail.contains(detail.as_str()) {
                write!(f, ": {}", printable(detail))?;
            }
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
    fn refusal_names_each_field_and_the_request() {
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
        let refusal = ApiRefusal::parse(
            StatusCode::UNPROCESSABLE_ENTITY,
            body.to_string().as_bytes(),
        );
        let refusal = refusal.unwrap();
        assert_eq!(
            refusal.to_string(),
            "validation_failed: 2 fields are not valid.\n  slug: Too short. (slug_too_short)\n  \
             limit: 1 to 100. (out_of_range)\n  request id: req_1"
        );
        assert_eq!(refusal.code_and_detail(), ("slug_too_short", "Too short."));
    }

    #[test]
    fn equal_detail_of_a_field_is_printed_once() {
        let body = json!({
            "code": "invalid_parameter", "detail": "Choose a later from.",
            "errors": [{ "parameter": "from", "code": "too_early", "detail": "Choose a later from." }],
        });
        let body = body.to_string();
        let refusal = ApiRefusal::parse(StatusCode::BAD_REQUEST, body.as_bytes()).unwrap();
        let expected = "invalid_parameter: Choose a later from.\n  from (too_early)";
        assert_eq!(refusal.to_string(), expected);
    }

    #[test]
    fn refusal_is_printed_without_control_characters() {
        let body = json!({ "code": "a\u{1b}[2J", "detail": "b\nc" }).to_string();
        let refusal = ApiRefusal::parse(StatusCode::CONFLICT, body.as_bytes()).unwrap();
        assert_eq!(refusal.to_string(), "a\\u{1b}[2J: b\\nc");
    }
}
