//! Many creates in few requests. Items that fail for a while are sent again, with the same keys.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use linkledger_core::clock::random_bytes;
use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

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
    pub(crate) fn new(key: Uuid, destination_url: &str) -> Self {
        let item = json!({
            "idempotency_key": key.hyphenated().to_string(),
            "destination_url": destination_url,
        });
        let bytes = item.to_string().len();
        Self { item, bytes }
    }
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
}

#[derive(Deserialize)]
struct ItemDocument {
    status: u16,
    replayed: bool,
    link: Option<Value>,
    problem: Option<Value>,
}

/// Divides the links into requests, in their order.
pub(crate) fn requests(links: &[NewLink]) -> Vec<Range<usize>> {
    let mut requests = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, link) in links.iter().enumerate() {
        // A comma follows each item.
        let added = link.bytes + 1;
        if index > start && (index - start == ITEMS_MAX || bytes + added > BYTES_MAX) {
            requests.push(start..index);
            (start, bytes) = (index, 0);
        }
        bytes += added;
    }
    if start < links.len() {
        requests.push(start..links.len());
    }
    requests
}

impl ApiClient {
    /// Creates the links of one request. Returns the outcome of each link, in order.
    ///
    /// # Errors
    /// Returns a failure that concerns more than single links, also if links still fail for a while
    /// when the retry policy ends.
    pub(crate) async fn create_links(
        &self,
        links: &[NewLink],
    ) -> Result<Vec<ItemOutcome>, CallFailure> {
        let begun = Instant::now();
        let mut outcomes: Vec<Option<ItemOutcome>> = links.iter().map(|_| None).collect();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let open = outcomes.iter().enumerate();
            let open: Vec<usize> = open
                .filter_map(|(index, outcome)| outcome.is_none().then_some(index))
                .collect();
            if open.is_empty() {
                return Ok(outcomes.into_iter().flatten().collect());
            }
            let items: Vec<&Value> = open.iter().map(|index| &links[*index].item).collect();
            let call = ApiCall::create_links(&items);
            let mut retry_reason = String::new();
            for (index, outcome) in open
                .iter()
                .zip(self.attempt_batch(&call, open.len()).await?)
            {
                match outcome {
                    Ok(outcome) => outcomes[*index] = Some(outcome),
                    Err(reason) => retry_reason = reason,
                }
            }
            if retry_reason.is_empty() {
                continue;
            }
            let [chance] = random_bytes();
            let wait = self
                .patience
                .wait(attempts, begun.elapsed(), Duration::ZERO, chance);
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(self.no_answer(&call, &retry_reason)),
            }
        }
    }

    /// Sends a batch. Returns the outcome of each item, or the reason why the item must be sent again.
    async fn attempt_batch(
        &self,
        call: &ApiCall,
        count: usize,
    ) -> Result<Vec<Result<ItemOutcome, String>>, CallFailure> {
        let answer = match self.send(call).await {
            // One item that is too large for a request.
            Err(CallFailure::Refused(refusal))
                if refusal.status == PAYLOAD_TOO_LARGE && count == 1 =>
            {
                return Ok(vec![Ok(ItemOutcome::Refused(refusal))]);
            }
            answer => answer?,
        };
        let document: BatchDocument = self.read(call, &answer)?;
        if document.items.len() != count {
            return Err(self.not_the_api(call, answer.status));
        }
        let outcomes = document.items.into_iter().map(outcome);
        let outcomes: Option<Vec<_>> = outcomes.collect();
        outcomes.ok_or_else(|| self.not_the_api(call, answer.status))
    }
}

/// Reads an item; `None` if the item is not one of the API.
fn outcome(item: ItemDocument) -> Option<Result<ItemOutcome, String>> {
    if let (StatusCode::CREATED, Some(link)) = (StatusCode::from_u16(item.status).ok()?, item.link)
    {
        let replayed = item.replayed;
        return Some(Ok(ItemOutcome::Created { link, replayed }));
    }
    let status = StatusCode::from_u16(item.status).ok()?;
    let refusal = ApiRefusal::parse(status, item.problem?.to_string().as_bytes())?;
    Some(if is_retried(status, Some(&refusal.problem.code)) {
        Err(refusal.to_string())
    } else {
        Ok(ItemOutcome::Refused(Box::new(refusal)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(links: &[NewLink]) -> Vec<usize> {
        requests(links)
            .into_iter()
            .map(|range| range.len())
            .collect()
    }

    #[test]
    fn requests_are_cut_by_items_and_bytes() {
        let of_length = |length: usize| NewLink::new(Uuid::nil(), &"x".repeat(length));
        assert_eq!(lengths(&[]), [0; 0]);
        let short: Vec<NewLink> = (0..201).map(|_| of_length(20)).collect();
        assert_eq!(lengths(&short), [100, 100, 1]);
        let long: Vec<NewLink> = (0..30).map(|_| of_length(20_000)).collect();
        assert_eq!(lengths(&long), [13, 13, 4]);
        // A link that is too large alone does not take others along.
        let mixed = [of_length(20), of_length(300_000), of_length(20)];
        assert_eq!(lengths(&mixed), [1, 1, 1]);
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
