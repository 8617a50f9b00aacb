//! `POST /v1/links/batch`: creates up to 100 links in one request, each once per idempotency key.

mod answer_body;
mod documents;

use axum::{
    Extension,
    extract::{Request, State},
    response::Response,
};
use linkledger_core::{
    api_key::Scope,
    batch::{
        BulkCreate, BulkMode, KeyedCreate,
        bulk_request::{BulkRequest, RequestItem, RequestMode},
    },
    envelope::Metadata,
    http::{
        authentication::Caller,
        link_request::LinkBatch,
        request::{
            BATCH_BODY_LENGTH_MAX, RequestContext, check_accept, check_batch_body, check_no_query,
        },
        route_table,
    },
    id::AccountId,
    link::members::parse_new_link,
    problem::Problem,
};

use super::{
    WriteState, answer,
    body::{self, BodyRoom},
    create_link::idempotency_key,
    problem_of_refusal,
};
use crate::command_reply::{CommandReply, CommandResult};
use answer_body::BatchAnswer;
use documents::BatchResult;

/// Creates the links of a request and charges their price.
///
/// # Errors
/// Returns the first problem of the request as a whole, in the order of checks of
/// `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::LINK_BATCH,
    tag = "links",
    summary = "Create several links",
    description = "Creates 1 to 100 links in one request of at most 256 KiB. Each item is the body of \
                   a create, with its idempotency key as a member; the header `Idempotency-Key` is \
                   refused. With the mode `partial` each item is decided in its order like a create of \
                   its own, and the answer has the status of each item. With `atomic` all links are \
                   created, or none. With `dry_run` nothing is created or charged, and the answer shows \
                   the outcome of `partial`. A key has one effect, whether it is sent alone or in any \
                   batch: sending the same items again, in any grouping, creates what is missing. \
                   Each item counts as a write for the rate limit: all of them, or none.",
    request_body(content = LinkBatch, examples(
        ("partial" = (value = json!(LinkBatch::example("partial")))),
        ("atomic" = (value = json!(LinkBatch::example("atomic")))),
        ("dry run" = (value = json!(LinkBatch::example("dry_run")))),
    )),
    responses(
        (status = 207, description = "`partial`: the outcome of each item, in the order of the request. \
                                      If an item has a link, the header `Consistency-Token` is as in \
                                      other answers.",
         body = BatchResult,
         example = json!(BatchResult::example_of_partial())),
        (status = 201, description = "`atomic`: all links were created, now or by an earlier request.",
         body = BatchResult, headers(("Consistency-Token")),
         example = json!(BatchResult::example_of_atomic())),
        (status = 200, description = "`dry_run`: the outcome that each item would have. A link that does \
                                      not exist yet has no `id` and `created_at`, and without a chosen \
                                      slug no `short_url`.",
         body = BatchResult, example = json!(BatchResult::example_of_dry_run())),
    ),
    security(("api_key" = [Scope::LinksWrite.as_str()])),
)]
pub async fn create_links(
    State(state): State<WriteState>,
    Extension(context): Extension<RequestContext>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let account_id = caller.account_id;
    let request = parse(&state.bodies, account_id, request).await?;
    let limits = state.rate_limits.as_ref();
    let limited = limits.map(|limits| limits.check_items(account_id, request.items.len()));
    let limit_headers = limited.transpose()?;
    let metadata = answer::metadata(&context, &caller);
    let (mode, creates) = (request.mode, creates(&state, &caller, &metadata, request));
    let batch_answer = BatchAnswer::new(&state, &context, account_id);
    let mut response = match mode {
        RequestMode::Partial => {
            let replies = state.queue.submit_creates(creates).await;
            let replies = replies.map_err(|refusal| problem_of_refusal::problem(&refusal))?;
            batch_answer.partial(replies)
        }
        RequestMode::Atomic => {
            let reply = submit(&state, &caller, BulkMode::Atomic, creates).await;
            let CommandResult::Bulk(outcomes) = &reply.outcome else {
                return Err(refused(&reply.outcome));
            };
            batch_answer.atomic(outcomes, balance(&reply))?
        }
        RequestMode::DryRun => {
            let has_slug = creates.iter().map(has_chosen_slug).collect::<Vec<_>>();
            let reply = submit(&state, &caller, BulkMode::DryRun, creates).await;
            let CommandResult::DryRun(outcomes) = &reply.outcome else {
                return Err(refused(&reply.outcome));
            };
            batch_answer.dry_run(outcomes, &has_slug, balance(&reply))
        }
    };
    if let Some(headers) = limit_headers {
        headers.add_to(response.headers_mut());
    }
    Ok(response)
}

/// Checks the request as far as possible without the database, up to the number of items and their
/// keys. Errors in other members are left to the decision on each item.
async fn parse(
    bodies: &BodyRoom,
    account_id: AccountId,
    request: Request,
) -> Result<BulkRequest, Problem> {
    check_no_query(request.uri())?;
    check_accept(request.headers())?;
    check_batch_body(request.headers())?;
    let (head, body) = request.into_parts();
    let bytes = bodies.read(account_id, body, BATCH_BODY_LENGTH_MAX).await?;
    if head.headers.contains_key(idempotency_key::IDEMPOTENCY_KEY) {
        let detail = "A batch has no Idempotency-Key; each item has the member idempotency_key.";
        return Err(Problem::invalid_header("Idempotency-Key", detail));
    }
    let object = body::parse_object(&bytes)?;
    BulkRequest::parse(object).map_err(|errors| Problem::validation_failed(&errors))
}

fn creates(
    state: &WriteState,
    caller: &Caller,
    metadata: &Metadata,
    request: BulkRequest,
) -> Vec<KeyedCreate> {
    let create = |item: RequestItem| KeyedCreate {
        account_id: caller.account_id,
        key_id: caller.key_id,
        key: item.key,
        fingerprint: item.body.fingerprint(),
        body: parse_new_link(&item.body, &state.destination_rules)
            .map_err(BulkRequest::errors_of_item),
        metadata: metadata.clone(),
    };
    request.items.into_iter().map(create).collect()
}

async fn submit(
    state: &WriteState,
    caller: &Caller,
    mode: BulkMode,
    creates: Vec<KeyedCreate>,
) -> CommandReply {
    let bulk = BulkCreate {
        account_id: caller.account_id,
        mode,
        creates,
    };
    state.queue.submit_bulk(bulk).await
}

fn balance(reply: &CommandReply) -> Option<i64> {
    reply.credits.map(|credits| credits.balance)
}

fn has_chosen_slug(create: &KeyedCreate) -> bool {
    create.body.as_ref().is_ok_and(|draft| draft.slug.is_some())
}

/// Returns the problem of a batch that was refused as a whole.
fn refused(outcome: &CommandResult) -> Problem {
    match outcome {
        CommandResult::Refused(refusal) => problem_of_refusal::problem(refusal),
        CommandResult::Created(_)
        | CommandResult::Replayed(_)
        | CommandResult::Changed(_)
        | CommandResult::Bulk(_)
        | CommandResult::DryRun(_) => answer::not_an_answer("a batch"),
    }
}
