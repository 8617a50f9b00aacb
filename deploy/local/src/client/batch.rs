//! Many creates in few requests. Items that fail for a while are sent again, with the same keys.

use std::{
    iter::Peekable,
    time::{Duration, Instant},
};

use linkledger_core::clock::random_bytes;
use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::{ApiCall, ApiClient, ApiRefusal, CallFailure, is_retried};

/// Maximum number of items of a request.
const ITEMS_MAX: usize = 100;
/// Maximum number of bytes of the items of a request. The API accepts 256 KiB, with the members around
/// the items.
const BYTES_MAX: usize = 255 * 1024;
const PAYLOAD_TOO_LARGE: u16 = 413;

/// A link to be created.
#[derive(Debug)]
pub(crate) struct NewLink {
    item: Value,
    bytes: usize,
}

impl NewLink {
    /// Takes the item of a batch: the members of a create and the idempotency key.
    pub(crate) fn new(item: Value) -> Self {
        let bytes = item.to_string().len();
        Self { item, bytes }
    }
}

/// Effect of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchMode {
    /// Each link is created or refused on its own.
    Partial,
    /// Nothing is created; the outcomes are those that `Partial` would have.
    DryRun,
}

/// Outcome of the links of a request.
#[derive(Debug, Default)]
pub(crate) struct BatchOutcome {
    /// Outcome of each link, in order; `None` if the outcome is unknown.
    pub(crate) items: Vec<Option<ItemOutcome>>,
    /// Credits that the links cost, or would cost.
    pub(crate) credits_charged: i64,
    /// Balance after the last decision; `None` if the API named none.
    pub(crate) credits_balance: Option<i64>,
    /// Token of the last write.
    pub(crate) token: Option<String>,
    /// Failure that left outcomes unknown.
    pub(crate) failure: Option<CallFailure>,
}

/// Outcome of a create in a batch.
#[derive(Debug)]
pub(crate) enum ItemOutcome {
    /// The link exists; `replayed` is true if an earlier request has created it.
    Created {
        link: Value,
        replayed: bool,
    },
    Refused(Box<ApiRefusal>),
}

#[derive(Deserialize)]
struct BatchDocument {
    items: Vec<ItemDocument>,
    credits_charged: i64,
    credits_balance: Option<i64>,
}

/// Answer to one attempt: for each item the outcome, or the reason to send the item again.
#[derive(Default)]
struct BatchAnswer {
    items: Vec<Result<ItemOutcome, String>>,
    credits_charged: i64,
    credits_balance: Option<i64>,
    token: Option<String>,
}

#[derive(Deserialize)]
struct ItemDocument {
    status: u16,
    replayed: bool,
    link: Option<Value>,
    problem: Option<Value>,
}

/// Iterator of requests: consecutive links, as many as a request can hold.
struct Requests<I: Iterator<Item = NewLink>>(Peekable<I>);

/// Divides the links into requests, in their order. Only the next request is in memory.
pub(crate) fn requests(
    links: impl IntoIterator<Item = NewLink>,
) -> impl Iterator<Item = Vec<NewLink>> {
    Requests(links.into_iter().peekable())
}

impl<I: Iterator<Item = NewLink>> Iterator for Requests<I> {
    type Item = Vec<NewLink>;

    fn next(&mut self) -> Option<Vec<NewLink>> {
        let first = self.0.next()?;
        // A comma follows each item.
        let mut bytes = first.bytes + 1;
        let mut request = vec![first];
        while request.len() < ITEMS_MAX {
            let fits = |link: &NewLink| bytes + link.bytes < BYTES_MAX;
            let Some(link) = self.0.next_if(fits) else {
                break;
            };
            bytes += link.bytes + 1;
            request.push(link);
        }
        Some(request)
    }
}

impl ApiClient {
    /// Creates the links of one request. Links that fail for a while are sent again, with the same
    /// keys, until the retry policy ends. A failure keeps the outcomes that are known.
    pub(crate) async fn create_links(&self, links: &[NewLink], mode: BatchMode) -> BatchOutcome {
        let begun = Instant::now();
        let mut outcome = BatchOutcome {
            items: links.iter().map(|_| None).collect(),
            ..BatchOutcome::default()
        };
        let mut attempts = 0;
        loop {
            attempts += 1;
            let items = outcome.items.iter().enumerate();
            let open: Vec<usize> = items
                .filter_map(|(index, item)| item.is_none().then_some(index))
                .collect();
            if open.is_empty() {
                return outcome;
            }
            let items: Vec<&Value> = open.iter().map(|index| &links[*index].item).collect();
            let call = ApiCall::create_links(&items, mode);
            let answer = match self.attempt_batch(&call, open.len()).await {
                Ok(answer) => answer,
                Err(failure) => {
                    outcome.failure = Some(failure);
                    return outcome;
                }
            };
            let Some(reason) = outcome.add(answer, &open) else {
                continue;
            };
            let [chance] = random_bytes();
            let wait = self
                .patience
                .wait(attempts, begun.elapsed(), Duration::ZERO, chance);
            let Some(wait) = wait else {
                outcome.failure = Some(self.no_answer(&call, &reason, true));
                return outcome;
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Sends a batch.
    async fn attempt_batch(
        &self,
        call: &ApiCall,
        count: usize,
    ) -> Result<BatchAnswer, CallFailure> {
        let answer = match self.send(call).await {
            // One item that is too large for a request.
            Err(CallFailure::Refused(refusal))
                if refusal.status == PAYLOAD_TOO_LARGE && count == 1 =>
            {
                return Ok(BatchAnswer {
                    items: vec![Ok(ItemOutcome::Refused(refusal))],
                    ..BatchAnswer::default()
                });
            }
            answer => answer?,
        };
        let document: BatchDocument = self.read(call, &answer)?;
        if document.items.len() != count {
            return Err(self.not_the_api(call, answer.status));
        }
        let items: Option<Vec<_>> = document.items.into_iter().map(outcome).collect();
        Ok(BatchAnswer {
            items: items.ok_or_else(|| self.not_the_api(call, answer.status))?,
            credits_charged: document.credits_charged,
            credits_balance: document.credits_balance,
            token: answer.token().map(str::to_owned),
        })
    }
}

impl BatchOutcome {
    /// Adds the outcomes of the items that were sent. Returns a reason to send items again, if any.
    fn add(&mut self, answer: BatchAnswer, sent: &[usize]) -> Option<String> {
        self.credits_charged += answer.credits_charged;
        self.credits_balance = answer.credits_balance.or(self.credits_balance);
        self.token = answer.token.or(self.token.take());
        let mut retry_reason = None;
        for (index, item) in sent.iter().zip(answer.items) {
            match item {
                Ok(outcome) => self.items[*index] = Some(outcome),
                Err(reason) => retry_reason = Some(reason),
            }
        }
        retry_reason
    }
}

/// Reads an item; `None` if the item is not one of the API.
fn outcome(item: ItemDocument) -> Option<Result<ItemOutcome, String>> {
    let status = StatusCode::from_u16(item.status).ok()?;
    if let (StatusCode::CREATED, Some(link)) = (status, item.link) {
        let replayed = item.replayed;
        return Some(Ok(ItemOutcome::Created { link, replayed }));
    }
    let refusal = ApiRefusal::parse(status, item.problem?.to_string().as_bytes())?;
    Some(if is_retried(status, Some(&refusal.problem.code)) {
        Err(refusal.to_string())
    } else {
        Ok(ItemOutcome::Refused(Box::new(refusal)))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lengths(links: Vec<NewLink>) -> Vec<usize> {
        requests(links).map(|request| request.len()).collect()
    }

    #[test]
    fn requests_are_cut_by_items_and_bytes() {
        let of_length = |length: usize| NewLink::new(json!({ "x": "x".repeat(length) }));
        assert_eq!(lengths(Vec::new()), [0; 0]);
        let short: Vec<NewLink> = (0..201).map(|_| of_length(20)).collect();
        assert_eq!(lengths(short), [100, 100, 1]);
        let long: Vec<NewLink> = (0..30).map(|_| of_length(20_000)).collect();
        assert_eq!(lengths(long), [13, 13, 4]);
        // A link that is too large alone does not take others along.
        let mixed = vec![of_length(20), of_length(300_000), of_length(20)];
        assert_eq!(lengths(mixed), [1, 1, 1]);
    }

    #[test]
    fn item_is_created_refused_or_sent_again() {
        let item = |status: u16, code: &str| {
            let problem = json!({ "code": code, "detail": "Do this.", "status": status });
            outcome(ItemDocument {
                status,
                replayed: false,
                link: None,
                problem: Some(problem),
            })
        };
        let created = outcome(ItemDocument {
            status: 201,
            replayed: true,
            link: Some(json!({})),
            problem: None,
        });
        let is_created = matches!(
            created,
            Some(Ok(ItemOutcome::Created { replayed: true, .. }))
        );
        assert!(is_created);
        for (status, code) in [
            (402, "insufficient_credits"),
            (409, "slug_taken"),
            (422, "x"),
        ] {
            let refused = item(status, code);
            assert!(
                matches!(refused, Some(Ok(ItemOutcome::Refused(_)))),
                "{code}"
            );
        }
        for (status, code) in [
            (409, "idempotency_key_in_use"),
            (503, "overloaded"),
            (504, "x"),
        ] {
            assert!(matches!(item(status, code), Some(Err(_))), "{code}");
        }
    }
}
