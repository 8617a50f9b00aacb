//! The error of a command as a problem document (RFC 9457), for `--json`: one line of JSON.
//!
//! An error of the API is printed as it was received. Other errors have the same members where they
//! make sense: `type`, `title`, `code`, `detail`, and `status` if the error has one.

use linkledger_http::problem::Code;
use serde_json::{Map, Value, json};

use crate::{
    client::{ApiRefusal, CallFailure},
    exit_code::ExitReason,
    output::LinkNotFound,
};

/// Type of a problem that has no page of its own (RFC 9457).
const NO_TYPE: &str = "about:blank";

/// Returns the problem document of an error.
pub(crate) fn document(error: &anyhow::Error) -> String {
    let detail = format!("{error:#}");
    match error.downcast_ref::<CallFailure>() {
        Some(CallFailure::Refused(refusal)) => in_one_line(&refusal.document),
        Some(CallFailure::NoAnswer {
            may_be_done,
            refusal,
            ..
        }) => no_answer(detail, *may_be_done, refusal.as_deref()).to_string(),
        Some(CallFailure::NotTheApi { status, .. }) => {
            let mut problem = problem("not_the_api", "The answer is not of this API", &detail);
            problem["status"] = status.as_u16().into();
            problem.to_string()
        }
        None => of_command(error, &detail).to_string(),
    }
}

/// Returns the problem document of a command line that is not valid.
pub(crate) fn wrong_use(detail: &str) -> String {
    problem("wrong_use", "The command is used wrongly", detail).to_string()
}

fn problem(code: &str, title: &str, detail: &str) -> Value {
    json!({ "type": NO_TYPE, "title": title, "code": code, "detail": detail })
}

/// Returns the last problem that the service sent, or one of the client. The detail says what to do
/// about a request that may have taken effect.
fn no_answer(detail: String, may_be_done: bool, refusal: Option<&ApiRefusal>) -> Value {
    let received: Option<Map<String, Value>> =
        refusal.and_then(|refusal| serde_json::from_str(&refusal.document).ok());
    let mut problem = received.map_or_else(
        || problem("no_answer", "There was no answer", ""),
        Value::Object,
    );
    problem["detail"] = detail.into();
    problem["may_have_succeeded"] = may_be_done.into();
    problem
}

fn of_command(error: &anyhow::Error, detail: &str) -> Value {
    if error.is::<LinkNotFound>() {
        let code = Code::LinkNotFound;
        let mut problem = problem(code.as_str(), code.title(), detail);
        problem["status"] = code.status().into();
        return problem;
    }
    match ExitReason::of(error) {
        ExitReason::WrongUse => problem("wrong_use", "The command is used wrongly", detail),
        ExitReason::Refused => problem("refused", "The command was refused", detail),
        ExitReason::Other
        | ExitReason::NotFound
        | ExitReason::Conflict
        | ExitReason::Unavailable => problem("failed", "The command has failed", detail),
    }
}

/// Returns a JSON text without line breaks, and otherwise unchanged.
fn in_one_line(document: &str) -> String {
    let document = document.trim();
    if !document.contains(['\n', '\r']) {
        return document.to_owned();
    }
    let value: serde_json::Result<Value> = serde_json::from_str(document);
    value.map_or_else(|_| document.to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;
    use reqwest::StatusCode;

    use super::*;
    use crate::output::WrongUse;

    fn refusal(body: &str) -> Box<ApiRefusal> {
        Box::new(ApiRefusal::parse(StatusCode::CONFLICT, body.as_bytes()).unwrap())
    }

    fn parsed(error: &anyhow::Error) -> Value {
        serde_json::from_str(&document(error)).unwrap()
    }

    #[test]
    fn problem_of_the_api_is_printed_as_received() {
        let body = r#"{"title":"T","code":"slug_taken","detail":"D","extra":[1, 2]}"#;
        let error = anyhow::Error::new(CallFailure::Refused(refusal(body))).context("stopped");
        assert_eq!(document(&error), body);
        let pretty = "{\n  \"code\": \"x\",\n  \"detail\": \"D\"\n}\n";
        let error = CallFailure::Refused(refusal(pretty)).into();
        assert_eq!(document(&error), r#"{"code":"x","detail":"D"}"#);
    }

    #[test]
    fn missing_answer_says_whether_it_may_have_succeeded() {
        let failure = |refusal| CallFailure::NoAnswer {
            url: "http://host/v1/links".to_owned(),
            reason: "no answer before the timeout".to_owned(),
            may_be_done: true,
            advice: Some("\n  Repeat it.".to_owned()),
            refusal,
        };
        let problem = parsed(&failure(None).into());
        assert_eq!(problem["code"], "no_answer");
        assert_eq!(problem["may_have_succeeded"], true);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.ends_with("timeout\n  Repeat it."), "{detail}");
        let body = r#"{"status":503,"code":"overloaded","detail":"D","request_id":"req_1"}"#;
        let problem = parsed(&failure(Some(refusal(body))).into());
        assert_eq!(problem["status"], 503);
        assert_eq!(problem["code"], "overloaded");
        assert_eq!(problem["request_id"], "req_1");
    }

    #[test]
    fn error_of_the_client_has_the_members_of_a_problem() {
        let problem = parsed(&WrongUse("name a change".to_owned()).into());
        let expected = json!({
            "type": "about:blank", "title": "The command is used wrongly", "code": "wrong_use",
            "detail": "name a change",
        });
        assert_eq!(problem, expected);
        let problem = parsed(&LinkNotFound("no link x".to_owned()).into());
        assert_eq!(problem["status"], 404);
        assert_eq!(problem["code"], "link_not_found");
        let written: std::io::Result<()> = Err(std::io::ErrorKind::StorageFull.into());
        let problem = parsed(&written.context("can't write a.svg").unwrap_err());
        assert_eq!(problem["code"], "failed");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.starts_with("can't write a.svg: "), "{detail}");
    }
}
