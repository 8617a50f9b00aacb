//! Answers to a batch: the outcome of each item, and the credits of the whole request.

use axum::{
    http::{HeaderValue, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use linkledger_core::{
    batch::{CommandRejection, DryRunOutcome, SettledCreate},
    http::{observe::ServiceName, request::RequestContext},
    id::AccountId,
    metrics::HTTP_PROBLEMS_TOTAL,
    problem::Problem,
    shard::Position,
};
use metrics::counter;
use serde::Serialize;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::super::{WriteState, answer, problem_of_refusal};
use crate::command_reply::{CommandRefusal, CommandReply, CommandResult};

/// Members of a link that does not exist yet and that a dry run cannot know.
pub(super) const SET_AT_CREATION: [&str; 2] = ["id", "created_at"];
pub(super) const SHORT_URL: &str = "short_url";

/// Renders the answer to one request.
pub(super) struct BatchAnswer<'a> {
    state: &'a WriteState,
    context: &'a RequestContext,
    account_id: AccountId,
}

#[derive(Serialize)]
struct BatchBody {
    items: Vec<ItemBody>,
    credits_charged: i64,
    credits_balance: Option<i64>,
}

#[derive(Serialize)]
struct ItemBody {
    status: u16,
    replayed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Value>,
}

impl<'a> BatchAnswer<'a> {
    pub(super) const fn new(
        state: &'a WriteState,
        context: &'a RequestContext,
        account_id: AccountId,
    ) -> Self {
        Self {
            state,
            context,
            account_id,
        }
    }

    /// Renders the outcomes of items that were decided one by one.
    pub(super) fn partial(&self, replies: Vec<CommandReply>) -> Response {
        // A retried item is decided later than the items behind it.
        let credits = replies.iter().filter_map(|reply| reply.credits);
        let last = credits.max_by_key(|credits| credits.version);
        let outcomes = replies.iter().map(|reply| &reply.outcome);
        let (charged, position) = totals(outcomes);
        let outcomes = replies.into_iter().map(|reply| reply.outcome);
        let items = outcomes.map(|outcome| item(outcome).unwrap_or_else(|it| self.failed(&it)));
        let body = BatchBody {
            items: items.collect(),
            credits_charged: charged,
            credits_balance: last.map(|credits| credits.balance),
        };
        self.response(StatusCode::MULTI_STATUS, position, &body)
    }

    /// Renders the links of an atomic batch.
    ///
    /// # Errors
    /// Returns the problem of a link that this release cannot render.
    pub(super) fn atomic(
        &self,
        outcomes: &[CommandResult],
        balance: Option<i64>,
    ) -> Result<Response, Problem> {
        let (charged, position) = totals(outcomes.iter());
        let items = outcomes.iter().map(|outcome| item(outcome.clone()));
        let body = BatchBody {
            items: items.collect::<Result<_, _>>()?,
            credits_charged: charged,
            credits_balance: balance,
        };
        Ok(self.response(StatusCode::CREATED, position, &body))
    }

    /// Renders the outcomes of a dry run. `has_slug` says for each item if it has a chosen slug;
    /// `balance` is the current one.
    pub(super) fn dry_run(
        &self,
        outcomes: &[DryRunOutcome],
        has_slug: &[bool],
        balance: Option<i64>,
    ) -> Response {
        let mut charges = outcomes.iter().filter_map(|outcome| match outcome {
            DryRunOutcome::WouldCreate(settled) => Some(&settled.charge),
            DryRunOutcome::WouldReplay(_) | DryRunOutcome::Rejected(_) => None,
        });
        let items = outcomes.iter().zip(has_slug).map(|(outcome, has_slug)| {
            let item = match outcome {
                DryRunOutcome::WouldCreate(settled) => made_up(settled, *has_slug),
                DryRunOutcome::WouldReplay(settled) => link(settled, true),
                DryRunOutcome::Rejected(rejection) => Err(rejected(rejection)),
            };
            item.unwrap_or_else(|problem| self.failed(&problem))
        });
        let body = BatchBody {
            items: items.collect(),
            credits_charged: charges.clone().map(|charge| charge.amount).sum(),
            credits_balance: charges
                .next_back()
                .map(|charge| charge.balance_after)
                .or(balance),
        };
        self.response(StatusCode::OK, None, &body)
    }

    fn failed(&self, problem: &Problem) -> ItemBody {
        let code = problem.code.as_str();
        let service = ServiceName::CommandApi.name();
        counter!(HTTP_PROBLEMS_TOTAL, "service" => service, "code" => code).increment(1);
        ItemBody {
            status: problem.code.status(),
            replayed: false,
            link: None,
            problem: Some(problem.to_body(&self.state.base_url, self.context.request_id())),
        }
    }

    fn response(
        &self,
        status: StatusCode,
        position: Option<Position>,
        body: &BatchBody,
    ) -> Response {
        let mut headers = match position {
            Some(position) => answer::headers(self.state, self.account_id, position),
            None => answer::headers_without_token(),
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = serde_json::to_vec(body).expect("texts and integers can be written");
        (status, headers, body).into_response()
    }
}

/// Returns the charges of the new links, and the highest position of all links.
fn item(outcome: CommandResult) -> Result<ItemBody, Problem> {
    let (settled, is_replayed) = answer::to_settled(outcome)?;
    link(&settled, is_replayed)
}

fn totals<'o>(outcomes: impl Iterator<Item = &'o CommandResult>) -> (i64, Option<Position>) {
    let (mut charged, mut highest) = (0, None);
    for outcome in outcomes {
        let position = match outcome {
            CommandResult::Created(settled) => {
                charged += settled.charge.amount;
                Some(settled.position)
            }
            CommandResult::Replayed(settled) => Some(settled.position),
            CommandResult::Changed(_)
            | CommandResult::Bulk(_)
            | CommandResult::DryRun(_)
            | CommandResult::Refused(_) => None,
        };
        highest = highest.max(position);
    }
    (charged, highest)
}

/// Returns the item of a link, with the bytes of the answer to a single create.
fn link(settled: &SettledCreate, is_replayed: bool) -> Result<ItemBody, Problem> {
    let rendered = String::from_utf8(answer::rendered(settled)?).expect("JSON is UTF-8");
    let link = RawValue::from_string(rendered).expect("the answer to a create is JSON");
    Ok(created(link, is_replayed))
}

/// Returns the item of a link that a dry run would create.
fn made_up(settled: &SettledCreate, has_slug: bool) -> Result<ItemBody, Problem> {
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
    Ok(created(link, false))
}

fn created(link: Box<RawValue>, is_replayed: bool) -> ItemBody {
    ItemBody {
        status: StatusCode::CREATED.as_u16(),
        replayed: is_replayed,
        link: Some(link),
        problem: None,
    }
}

fn rejected(rejection: &CommandRejection) -> Problem {
    problem_of_refusal::problem(&CommandRefusal::Rejected(rejection.clone()))
}
