//! `POST /v1/links/batch`: creates up to 100 links in one request, each once per idempotency key.

mod answer_body;
mod documents;

use axum::response::Response;
use linkledger_core::{
    api_key::Scope,
    commands::{
        BatchCreate, BatchMode, Created, KeyedCreate, Outcome,
        batch_request::{BatchRequest, RequestItem, RequestMode},
    },
    id::AccountId,
    link::members::parse_new_link,
};
use linkledger_http::{
    link_request::LinkBatch, problem::Problem, request::AcceptedBody, route_table,
};

use super::{
    body, command_request::CommandRequest, create_link::IDEMPOTENCY_KEY, problem_of_rejection,
};
use crate::{command_handler::Decision, command_queue::CommandQueue};
use answer_body::BatchBody;

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
         body = BatchBody,
         example = json!(documents::example_of_partial())),
        (status = 201, description = "`atomic`: all links were created, now or by an earlier request.",
         body = BatchBody, headers(("Consistency-Token")),
         example = json!(documents::example_of_atomic())),
        (status = 200, description = "`dry_run`: the outcome that each item would have. A link that does \
                                      not exist yet has no `id` and `created_at`, and without a chosen \
                                      slug no `short_url`.",
         body = BatchBody, example = json!(documents::example_of_dry_run())),
    ),
    security(("api_key" = [Scope::LinksWrite.name()])),
)]
pub async fn create_links(mut request: CommandRequest) -> Result<Response, Problem> {
    let batch = parse(&mut request).await?;
    let account_id = request.caller.account_id;
    let limits = request.state.rate_limits.as_ref();
    let limited = limits.map(|limits| limits.check_items(account_id, batch.items.len()));
    let limit_headers = limited.transpose()?;
    let (mode, creates) = (batch.mode, creates(&request, batch));
    let queue = &request.state.queue;
    let mut response = match mode {
        RequestMode::Partial => {
            let replies = queue.submit_creates(creates).await?;
            answer_body::partial(&request, replies)
        }
        RequestMode::Atomic => {
            let decision = submit(queue, account_id, BatchMode::Atomic, creates).await?;
            answer_body::atomic(&request, &decision)?
        }
        RequestMode::DryRun => {
            let has_slug = creates.iter().map(has_chosen_slug).collect::<Vec<_>>();
            let decision = submit(queue, account_id, BatchMode::DryRun, creates).await?;
            answer_body::dry_run(&request, &decision, &has_slug)
        }
    };
    if let Some(headers) = limit_headers {
        headers.add_to(response.headers_mut());
    }
    Ok(response)
}

/// Checks the request as far as possible without the database, up to the number of items and their
/// keys. Errors in other members are left to the decision on each item.
async fn parse(request: &mut CommandRequest) -> Result<BatchRequest, Problem> {
    let bytes = request.read_body(&AcceptedBody::BATCH).await?;
    if request.headers.contains_key(IDEMPOTENCY_KEY) {
        let detail = "A batch has no Idempotency-Key; each item has the member idempotency_key.";
        return Err(Problem::invalid_header("Idempotency-Key", detail));
    }
    let object = body::parse_object(&bytes)?;
    BatchRequest::parse(object).map_err(|errors| Problem::validation_failed(&errors))
}

fn creates(request: &CommandRequest, batch: BatchRequest) -> Vec<KeyedCreate> {
    let metadata = request.metadata();
    let create = |item: RequestItem| KeyedCreate {
        account_id: request.caller.account_id,
        key_id: request.caller.key_id,
        key: item.key,
        fingerprint: item.body.fingerprint(),
        body: parse_new_link(&item.body, &request.state.destination_rules)
            .map_err(BatchRequest::errors_of_item),
        metadata: metadata.clone(),
    };
    batch.items.into_iter().map(create).collect()
}

/// Submits the creates as one command.
///
/// # Errors
/// Returns the problem of a batch that has no outcome for each item.
async fn submit(
    queue: &CommandQueue,
    account_id: AccountId,
    mode: BatchMode,
    creates: Vec<KeyedCreate>,
) -> Result<Decision<Vec<Outcome<Created>>>, Problem> {
    let batch = BatchCreate {
        account_id,
        mode,
        creates,
    };
    let Decision { outcome, credits } = queue.submit_batch(batch).await?;
    let outcome = outcome.map_err(|rejection| problem_of_rejection::problem(&rejection))?;
    Ok(Decision { outcome, credits })
}

fn has_chosen_slug(create: &KeyedCreate) -> bool {
    create.body.as_ref().is_ok_and(|draft| draft.slug.is_some())
}
