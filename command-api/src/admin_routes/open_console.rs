//! `POST /admin/v1/accounts/{account_id}/console-sessions`: makes a code that opens the console of an account's owner.

use axum::{http::StatusCode, response::Response};
use linkledger_core::{
    api_key::{AdminScope, Scope},
    field::FieldError,
    json::JsonObject,
    timestamp,
};
use linkledger_event_store::console_sessions::ConsoleSession;
use linkledger_http::{openapi::Timestamp, problem::Problem, request::AcceptedBody, route_table};
use serde::Serialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use super::{
    admin_request::{AdminRequest, outcome},
    answer,
    members::{Members, RETURN_URL, SCOPES, return_url},
    schema::{self, AccountIdInPath},
};
use crate::admin::console_session::{self, OpenedConsole};

/// Body of the request in the OpenAPI document.
struct ConsoleOpen;

impl PartialSchema for ConsoleOpen {
    fn schema() -> RefOr<Schema> {
        let members = [
            (SCOPES, schema::scopes()),
            (RETURN_URL, schema::return_url()),
        ];
        schema::body(&members, &[SCOPES])
    }
}

impl ToSchema for ConsoleOpen {}

/// Session that a valid body requests.
struct RequestedSession {
    scopes: Vec<Scope>,
    return_url: Option<String>,
}

/// Address that opens the console.
#[derive(Serialize, ToSchema)]
#[schema(as = ConsoleSession)]
struct OpenedConsoleBody {
    /// Address of the console with the code: redirect the browser of the account's owner to it.
    #[schema(examples(
        "https://api.example.com/console/#/enter?code=2Yx0vK1pS9qfWc7ZbT4nRjE6uHd8LaGm3oIiX5sQwNk"
    ))]
    url: String,
    #[schema(inline, value_type = Timestamp)]
    #[serde(with = "timestamp")]
    expires_at: OffsetDateTime,
}

/// Opens a console session of an account.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::ADMIN_CONSOLE_SESSIONS,
    tag = "keys",
    summary = "Open a console session",
    description = "Makes an address that opens the console once, within 60 s, with an API key of the account: the \
                   key has these scopes, and expires after 8 h. Needs no `Idempotency-Key`: each request makes \
                   another address.",
    params(("account_id" = inline(AccountIdInPath), Path)),
    request_body(content = ConsoleOpen, example = json!(example_body())),
    responses(
        (status = 201, description = "The address, which is a secret until it expires.", body = OpenedConsoleBody,
         example = json!(example())),
    ),
    security(("admin_key" = [AdminScope::Keys.name()])),
)]
pub async fn open_console(mut request: AdminRequest) -> Result<Response, Problem> {
    let object = request.object(&AcceptedBody::JSON).await?;
    let wanted = parse(&object).map_err(|errors| Problem::validation_failed(&errors))?;
    let session = ConsoleSession {
        account_id: request.account_id()?,
        scopes: wanted.scopes,
        return_url: wanted.return_url,
        opened_by: request.caller.key_id,
    };
    let OpenedConsole { code, expires_at } =
        outcome(console_session::open(&request.state.pool, &session)).await?;
    let (base_url, page) = (&request.state.base_url, route_table::CONSOLE_PAGE);
    let body = OpenedConsoleBody {
        // Behind the `#`, so that no server and no log gets the code by the address of the page.
        url: format!("{base_url}{page}#/enter?code={}", code.reveal()),
        expires_at,
    };
    Ok(answer::json(StatusCode::CREATED, &body))
}

fn parse(object: &JsonObject) -> Result<RequestedSession, Vec<FieldError>> {
    let mut members = Members::of(object, &[SCOPES, RETURN_URL]);
    let scopes = members.required_scopes();
    let return_url = members.optional(RETURN_URL, return_url);
    members.finish(|| {
        Some(RequestedSession {
            scopes: scopes?,
            return_url,
        })
    })
}

fn example_body() -> Value {
    json!({
        SCOPES: [Scope::LinksWrite.name(), Scope::LinksRead.name()],
        RETURN_URL: "https://shop.example.com/account",
    })
}

fn example() -> Value {
    json!({
        "url": "https://api.example.com/console/#/enter?code=2Yx0vK1pS9qfWc7ZbT4nRjE6uHd8LaGm3oIiX5sQwNk",
        "expires_at": "2026-11-20T09:52:00.123Z",
    })
}
