//! Answers to a batch: the outcome of each item, and the credits of the whole request.

use axum::{
    http::{HeaderValue, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use linkledger_core::{
    commands::{CreateResult, Created, Outcome},
    shard::Position,
};
use linkledger_http::{observe::ServiceName, problem::Problem};
use linkledger_service::metrics::HTTP_PROBLEMS_TOTAL;
use metrics::counter;
use serde::Serialize;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use utoipa::ToSchema;

use super::{
    super::{answer, command_request::CommandRequest, problem_of_rejection},
    documents::{BatchLink, problem_reference},
};
use crate::{command_handler::Decision, command_queue::Reply};

/// Members of a link that does not exist yet and that a dry run cannot know.
pub(super) const SET_AT_CREATION: [&str; 2] = ["id", "created_at"];
pub(super) const SHORT_URL: &str = "short_url";

// Body of all answers to a batch.
#[derive(Serialize, ToSchema)]
#[schema(as = BatchResult)]
pub(super) struct BatchBody {
    /// Outcome of each item, in the order of the request.
    items: Vec<ItemBody>,
    /// Credits that this request has cost, or would cost; replays cost nothing.
    #[schema(minimum = 0)]
    credits_charged: i64,
    /// Balance after the last decision on an item; null if no item was decided.
    #[schema(required, minimum = 0)]
    credits_balance: Option<i64>,
}

/// Outcome of an item: a link with the status 201, a problem with every other status.
#[derive(Serialize, ToSchema)]
#[schema(as = BatchOutcome)]
struct ItemBody {
    /// 201, or the status of the problem. After a 5xx or a 409 `idempotency_key_in_use`, send the item again with the same key.
    #[schema(value_type = i32)]
    status: u16,
    /// True if an earlier request with the same key created the link.
    replayed: bool,
    #[schema(value_type = BatchLink, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<Box<RawValue>>,
    #[schema(schema_with = problem_reference, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Value>,
}

/// Renders the outcomes of items that were decided one by one.
pub(super) fn partial(request: &CommandRequest, replies: Vec<Reply<Outcome<Created>>>) -> Response {
    // A retried item is decided later than the items behind it.
    let credits = replies.iter().flatten().map(|decision| decision.credits);
    let last = credits.max_by_key(|credits| credits.version);
    let created: Vec<_> = replies.into_iter().map(answer::effect).collect();
    let (credits_charged, position) = totals(created.iter().flatten());
    let items = created
        .into_iter()
        .map(|created| item(request, created.and_then(|created| link(&created))));
    let body = BatchBody {
        items: items.collect(),
        credits_charged,
        credits_balance: last.map(|credits| credits.balance),
    };
    response(request, StatusCode::MULTI_STATUS, position, &body)
}

/// Renders the links of an atomic batch.
///
/// # Errors
/// Returns the problem of a link that this release cannot render.
pub(super) fn atomic(
    request: &CommandRequest,
    decision: &Decision<Vec<Outcome<Created>>>,
) -> Result<Response, Problem> {
    let created = decision.outcome.iter().map(|outcome| {
        let created = outcome.as_ref();
        created.expect("an atomic batch is accepted or rejected as a whole")
    });
    let (credits_charged, position) = totals(created.clone());
    let body = BatchBody {
        items: created.map(link).collect::<Result<_, _>>()?,
        credits_charged,
        credits_balance: Some(decision.credits.balance),
    };
    Ok(response(request, StatusCode::CREATED, position, &body))
}

/// Renders the outcomes of a dry run. `has_slug` says for each item if it has a chosen slug.
pub(super) fn dry_run(
    request: &CommandRequest,
    decision: &Decision<Vec<Outcome<Created>>>,
    has_slug: &[bool],
) -> Response {
    let mut created = decision.outcome.iter().flatten();
    let (credits_charged, _) = totals(created.clone());
    let last = created.rfind(|created| !created.is_replay);
    let items = decision
        .outcome
        .iter()
        .zip(has_slug)
        .map(|(outcome, has_slug)| {
            let rendered = match outcome {
                Ok(created) if created.is_replay => link(created),
                Ok(created) => made_up(&created.settled, *has_slug),
                Err(rejection) => Err(problem_of_rejection::problem(rejection)),
            };
            item(request, rendered)
        });
    let body = BatchBody {
        items: items.collect(),
        credits_charged,
        credits_balance: Some(last.map_or(decision.credits.balance, |created| {
            created.settled.charge.balance_after
        })),
    };
    response(request, StatusCode::OK, None, &body)
}

/// Returns the charges of the new links, and the highest position of all links.
fn totals<'c>(created: impl Iterator<Item = &'c Created>) -> (i64, Option<Position>) {
    created.fold((0, None), |(charged, highest), created| {
        let settled = &created.settled;
        let charge = if created.is_replay {
            0
        } else {
            settled.charge.amount
        };
        (charged + charge, highest.max(Some(settled.position)))
    })
}

fn item(request: &CommandRequest, rendered: Result<ItemBody, Problem>) -> ItemBody {
    rendered.unwrap_or_else(|problem| {
        let code = problem.code.as_str();
        let service = ServiceName::CommandApi.name();
        counter!(HTTP_PROBLEMS_TOTAL, "service" => service, "code" => code).increment(1);
        let request_id = request.context.request_id();
        ItemBody {
            status: problem.code.status(),
            replayed: false,
            link: None,
            problem: Some(problem.to_body(&request.state.base_url, request_id)),
        }
    })
}

/// Returns the item of a link, with the bytes of the answer to a single create.
fn link(created: &Created) -> Result<ItemBody, Problem> {
    let rendered = String::from_utf8(answer::rendered(&created.settled)?).expect("JSON is UTF-8");
    let link = RawValue::from_string(rendered).expect("the answer to a create is JSON");
    Ok(item_of_link(link, created.is_replay))
}

/// Returns the item of a link that a dry run would create.
fn made_up(settled: &CreateResult, has_slug: bool) -> Result<ItemBody, Problem> {
    let rendered = answer::rendered(settled)?;
    let mut link: Value =
        serde_json::from_slice(&rendered).expect("the answer to a create is JSON");
    if let Some(members) = link.as_object_mut() {
        members.retain(|name, _| {
            let is_known = !SET_AT_CREATION.contains(&name.as_str());
            is_known && (has_slug || name != SHORT_URL)
        });
    }
    let link = to_raw_value(&link).expect("a parsed value can be written");
    Ok(item_of_link(link, false))
}

fn item_of_link(link: Box<RawValue>, is_replayed: bool) -> ItemBody {
    ItemBody {
        status: StatusCode::CREATED.as_u16(),
        replayed: is_replayed,
        link: Some(link),
        problem: None,
    }
}

fn response(
    request: &CommandRequest,
    status: StatusCode,
    position: Option<Position>,
    body: &BatchBody,
) -> Response {
    let mut headers = match position {
        Some(position) => answer::headers(request, position),
        None => answer::headers_without_token(),
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body = serde_json::to_vec(body).expect("texts and integers can be written");
    (status, headers, body).into_response()
}
