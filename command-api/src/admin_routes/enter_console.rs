//! `POST /console/session` of the public listener: exchanges the code of a console session for an API key. Only the
//! console calls it, and without a key: the code is the permission.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::StatusCode,
    response::Response,
    routing::post,
};
use linkledger_core::{clock::Clock, console_code::ConsoleCode, json::JsonObject};
use linkledger_http::{
    admin_body::{Members, parse_object, read_body, text_of},
    problem::Problem,
    request::{AcceptedBody, RequestContext, check_accept, check_no_query},
    route_table,
};
use sqlx::PgPool;

use super::{admin_request::outcome, answer};
use crate::admin::{
    author::{Author, Request as Command},
    console_session,
};

/// The only member of the body.
const CODE: &str = "code";

/// Sessions and clock of the exchanges. The sessions are of kind `Writer`, and serve nothing else, since anybody may
/// send codes.
#[derive(Clone)]
pub struct ConsoleEntrance {
    /// Sessions with the log.
    pub pool: PgPool,
    /// Clock of the decision.
    pub clock: Arc<dyn Clock>,
}

impl ConsoleEntrance {
    /// Returns the route, without the form of its answers: the public listener has it.
    pub fn router(self) -> Router {
        Router::new()
            .route(route_table::CONSOLE_SESSION, post(enter_console))
            .with_state(self)
    }
}

/// Exchanges a code for an API key.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
async fn enter_console(
    State(entrance): State<ConsoleEntrance>,
    request: Request,
) -> Result<Response, Problem> {
    check_no_query(request.uri())?;
    check_accept(request.headers())?;
    let (mut head, body) = request.into_parts();
    let context = head.extensions.remove::<RequestContext>();
    let context = context.ok_or_else(Problem::internal)?;
    let bytes = read_body(&head.headers, body, &AcceptedBody::SHORT).await?;
    let code = parse(&parse_object(&bytes)?)?;
    let entering = async {
        let session = console_session::find(&entrance.pool, &code).await?;
        let author = Author::AdminKey(session.opened_by);
        let command = Command::new(&entrance.pool, &*entrance.clock, &author).of_http(&context);
        console_session::enter(&command, &code, session).await
    };
    let entered = outcome(entering).await?;
    Ok(answer::json(StatusCode::OK, &entered))
}

fn parse(object: &JsonObject) -> Result<ConsoleCode, Problem> {
    let mut members = Members::of(object, &[CODE]);
    let code = members.required(CODE, |value| text_of(value).map(ConsoleCode::parse));
    let code = members.finish(|| code);
    let code = code.map_err(|errors| Problem::validation_failed(&errors))?;
    code.ok_or_else(Problem::console_code_invalid)
}
