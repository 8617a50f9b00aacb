//! Sends the links of a file in batches, several at a time, and collects the outcome of each link.

use std::{
    collections::{HashSet, VecDeque},
    num::NonZeroUsize,
    sync::atomic::{AtomicBool, Ordering},
};

use futures::{StreamExt as _, future::join_all, stream};
use indicatif::ProgressBar;
use serde::Deserialize;

use super::lines::ImportLine;
use crate::client::{
    ApiClient, ApiRefusal, CallFailure,
    batch::{BatchMode, BatchOutcome, ItemOutcome, requests},
};

/// Error code of a link that the balance does not cover.
pub(super) const INSUFFICIENT_CREDITS: &str = "insufficient_credits";

/// Outcome of one link of a file.
#[derive(Debug)]
pub(super) enum LineOutcome {
    Created {
        short_url: Option<String>,
    },
    /// An earlier run created the link.
    Existing {
        short_url: Option<String>,
    },
    Refused {
        code: String,
        detail: String,
    },
}

/// Outcomes of all links of a file.
#[derive(Debug)]
pub(super) struct ImportOutcome {
    /// Outcome of each link, in order; `None` if the outcome is unknown.
    pub(super) lines: Vec<Option<LineOutcome>>,
    /// Credits that the links cost, or would cost.
    pub(super) credits_charged: i64,
    /// Balance of the account without the charges of this import; `None` if the API named none.
    pub(super) credits_before: Option<i64>,
    /// First failure that left outcomes unknown.
    pub(super) failure: Option<CallFailure>,
}

#[derive(Deserialize)]
struct CreatedLink {
    short_url: Option<String>,
}

/// Sends the links that are not refused already, and waits until lists contain the created ones. After a
/// failure no further batch is sent; batches on their way end, so that their outcomes are known.
pub(super) async fn send_all(
    client: &ApiClient,
    lines: &[ImportLine],
    mode: BatchMode,
    concurrency: NonZeroUsize,
    bar: &ProgressBar,
) -> ImportOutcome {
    let mut all = ImportOutcome::of_refusals(lines);
    let sent: Vec<usize> = (0..lines.len())
        .filter(|index| all.lines[*index].is_none())
        .collect();
    bar.inc((lines.len() - sent.len()) as u64);
    let items = sent.iter().map(|index| {
        let line = &lines[*index];
        line.link.item(line.key)
    });
    let has_failed = &AtomicBool::new(false);
    let mut begin = 0;
    let batches = requests(items).map(|request| {
        let at = begin;
        begin += request.len();
        async move {
            if has_failed.load(Ordering::Relaxed) {
                return None;
            }
            let outcome = client.create_links(&request, mode).await;
            has_failed.fetch_or(outcome.failure.is_some(), Ordering::Relaxed);
            Some((at, outcome))
        }
    });
    // The last write is one of the batches that were on their way together with the last answer.
    let mut tokens = VecDeque::new();
    let mut outcomes = stream::iter(batches).buffer_unordered(concurrency.get());
    while let Some(outcome) = outcomes.next().await {
        if let Some((at, mut outcome)) = outcome {
            bar.inc(outcome.items.iter().flatten().count() as u64);
            tokens.extend(outcome.token.take());
            if tokens.len() > concurrency.get() {
                tokens.pop_front();
            }
            all.add(&sent[at..], outcome, mode);
        }
    }
    join_all(tokens.iter().map(|token| client.settle(Some(token)))).await;
    all
}

impl ImportOutcome {
    /// Returns the credits that the balance lacks for the links of a dry run; 0 if the balance is unknown.
    pub(super) fn missing_credits(&self) -> i64 {
        let balance = self.credits_before.unwrap_or(self.credits_charged);
        (self.credits_charged - balance).max(0)
    }

    /// Begins with the links that are refused without asking the service.
    fn of_refusals(lines: &[ImportLine]) -> Self {
        let refused = |line: &ImportLine| {
            let refusal = line.refusal.as_ref()?;
            Some(LineOutcome::Refused {
                code: refusal.code.to_owned(),
                detail: refusal.detail.clone(),
            })
        };
        Self {
            lines: lines.iter().map(refused).collect(),
            credits_charged: 0,
            credits_before: None,
            failure: None,
        }
    }

    /// Adds the outcome of a batch, whose links have the first of these indices. A dry run decides each
    /// batch as if it were alone with the whole balance, so a link that the balance did not cover counts
    /// at its price: the sum shows what is missing.
    fn add(&mut self, indices: &[usize], batch: BatchOutcome, mode: BatchMode) {
        for (index, item) in indices.iter().zip(batch.items) {
            let price = match (&item, mode) {
                (Some(ItemOutcome::Refused(refusal)), BatchMode::DryRun) => unpaid_price(refusal),
                _ => None,
            };
            self.credits_charged += price.unwrap_or_default();
            self.lines[*index] = match price {
                Some(_) => Some(LineOutcome::Created { short_url: None }),
                None => item.map(LineOutcome::from),
            };
        }
        self.credits_charged += batch.credits_charged;
        if let Some(balance) = batch.credits_balance {
            self.credits_before
                .get_or_insert(balance + batch.credits_charged);
        }
        self.failure = self.failure.take().or(batch.failure);
    }

    /// Returns the price of a link, which is the same for all links.
    fn link_price(&self) -> i64 {
        let is_created = |line: &&LineOutcome| matches!(line, LineOutcome::Created { .. });
        let created = self.lines.iter().flatten().filter(is_created).count();
        let created = i64::try_from(created).unwrap_or(i64::MAX);
        self.credits_charged.checked_div(created).unwrap_or(0)
    }

    /// Refuses links whose slug or external id an earlier link of the file takes. A dry run decides each
    /// batch as if it were alone, so the service finds a repeated one only within a batch.
    pub(super) fn refuse_repeated_slugs_and_external_ids(&mut self, lines: &[ImportLine]) {
        let link_price = self.link_price();
        let (mut slugs, mut external_ids) = (HashSet::new(), HashSet::new());
        for (line, outcome) in lines.iter().zip(&mut self.lines) {
            let Some(LineOutcome::Created { .. }) = outcome else {
                continue;
            };
            let slug = line.link.slug.as_deref().map(str::to_ascii_lowercase);
            let external_id = line.link.details.external_id.as_deref();
            let (code, detail) = if slug.as_ref().is_some_and(|slug| slugs.contains(slug)) {
                ("slug_taken", "An earlier link of the file takes the slug.")
            } else if external_id.is_some_and(|id| external_ids.contains(id)) {
                (
                    "external_id_taken",
                    "An earlier link of the file takes the external id.",
                )
            } else {
                slugs.extend(slug);
                external_ids.extend(external_id);
                continue;
            };
            self.credits_charged -= link_price;
            *outcome = Some(LineOutcome::Refused {
                code: code.to_owned(),
                detail: detail.to_owned(),
            });
        }
    }
}

/// Returns the price of a link that is refused only for missing credits.
fn unpaid_price(refusal: &ApiRefusal) -> Option<i64> {
    let problem = &refusal.problem;
    problem
        .required
        .filter(|_| problem.code == INSUFFICIENT_CREDITS)
}

impl From<ItemOutcome> for LineOutcome {
    fn from(item: ItemOutcome) -> Self {
        let short_url = |link| {
            let link: Option<CreatedLink> = serde_json::from_value(link).ok();
            link.and_then(|link| link.short_url)
        };
        match item {
            ItemOutcome::Created { link, replayed } => match (short_url(link), replayed) {
                (short_url, true) => Self::Existing { short_url },
                (short_url, false) => Self::Created { short_url },
            },
            ItemOutcome::Refused(refusal) => {
                let (code, detail) = refusal.code_and_detail();
                Self::Refused {
                    code: code.to_owned(),
                    detail: detail.to_owned(),
                }
            }
        }
    }
}
