//! Sends the links of a file in batches, several at a time, and collects the outcome of each link.

use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    sync::atomic::{AtomicBool, Ordering},
};

use futures::{StreamExt as _, future::join_all, stream};
use indicatif::ProgressBar;
use linkledger_core::link::DestinationSchemes;
use serde::Deserialize;
use uuid::Uuid;

use super::{
    lines::ImportLine,
    link::ImportedLink,
    reached_links,
    record::{Change, Refusal, shown},
};
use crate::client::{
    ApiClient, ApiRefusal, CallFailure,
    batch::{BatchMode, BatchOutcome, ItemOutcome, requests},
};

/// Error code of a link that the balance does not cover.
pub(super) const INSUFFICIENT_CREDITS: &str = "insufficient_credits";

/// Error code of an external id that another link has.
const EXTERNAL_ID_TAKEN: &str = "external_id_taken";

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

/// Error code of a slug that another link has.
pub(super) const SLUG_TAKEN: &str = "slug_taken";

/// Sends the links that are not refused already, and waits until lists contain the created ones. Of links with one slug
/// the first one gets the slug; if it is refused, the later ones are sent in order.
pub(super) async fn send_all(
    client: &ApiClient,
    lines: &mut [ImportLine],
    mode: BatchMode,
    concurrency: NonZeroUsize,
    bar: &ProgressBar,
) -> ImportOutcome {
    let mut all = ImportOutcome::of_refusals(lines);
    let sending = Sending {
        client,
        mode,
        concurrency,
        bar,
    };
    let open: Vec<usize> = (0..lines.len())
        .filter(|index| all.lines[*index].is_none())
        .collect();
    bar.inc((lines.len() - open.len()) as u64);
    let (repeats, firsts) = open
        .into_iter()
        .partition(|index| lines[*index].source.repeat.is_some());
    sending.send_with_labels(lines, firsts, &mut all).await;
    if all.failure.is_none() {
        let sent = all.refuse_repeats(lines, repeats);
        let in_order = Sending {
            concurrency: NonZeroUsize::MIN,
            ..sending
        };
        in_order.send_with_labels(lines, sent, &mut all).await;
    }
    if all.failure.is_none() {
        reached_links::name(client, lines, &mut all, bar).await;
    }
    all
}

/// Takes away the external ids for which sent links were refused, or may have been in an earlier run. Returns the
/// indices of these links, whose outcomes are open again, and the refusals.
fn without_external_ids(
    lines: &mut [ImportLine],
    sent: &[usize],
    all: &mut ImportOutcome,
) -> Vec<(usize, LineOutcome)> {
    let mut again = Vec::new();
    for index in sent.iter().copied() {
        let (ImportLine { key, source }, outcome) = (&mut lines[index], &mut all.lines[index]);
        let is_taken = outcome.as_ref().is_some_and(|it| {
            it.is_refused_for(EXTERNAL_ID_TAKEN) || it.is_refused_for(SLUG_TAKEN)
        });
        if !is_taken {
            continue;
        }
        let Some(id) = source.link.details.external_id.take() else {
            continue;
        };
        let why = "another link of the account has the same one";
        source
            .changes
            .push(Change::dropped("external id", &id, why));
        *key = Uuid::new_v5(key, EXTERNAL_ID_TAKEN.as_bytes());
        again.extend(outcome.take().map(|refusal| (index, refusal)));
    }
    again
}

/// Puts the refusal of a taken slug back, unless an earlier run has created the link.
fn keep_refusal(line: &mut ImportLine, outcome: &mut Option<LineOutcome>, earlier: LineOutcome) {
    let is_found = matches!(
        outcome,
        Some(LineOutcome::Existing { .. } | LineOutcome::Created { .. })
    );
    if earlier.is_refused_for(SLUG_TAKEN) && !is_found {
        line.source.changes.pop();
        *outcome = Some(earlier);
    }
}

/// Way to send the links of a file.
struct Sending<'a> {
    client: &'a ApiClient,
    mode: BatchMode,
    concurrency: NonZeroUsize,
    bar: &'a ProgressBar,
}

impl Sending<'_> {
    /// Sends the links with these indices. A link whose external id another link has is sent again without the id: a
    /// label never refuses a link. An earlier run may have done so, and then the link itself has the slug: so a link
    /// with an external id whose slug is taken is sent in that way too.
    async fn send_with_labels(
        &self,
        lines: &mut [ImportLine],
        sent: Vec<usize>,
        all: &mut ImportOutcome,
    ) {
        self.send(lines, &sent, all).await;
        if all.failure.is_some() {
            return;
        }
        let again = without_external_ids(lines, &sent, all);
        let indices: Vec<usize> = again.iter().map(|(index, _)| *index).collect();
        self.send(lines, &indices, all).await;
        for (index, earlier) in again {
            keep_refusal(&mut lines[index], &mut all.lines[index], earlier);
        }
    }

    /// Sends the links with these indices. After a failure no further batch is sent; batches on their way end, so that
    /// their outcomes are known.
    async fn send(&self, lines: &[ImportLine], sent: &[usize], all: &mut ImportOutcome) {
        let Self {
            client,
            mode,
            concurrency,
            bar,
        } = *self;
        let items = sent.iter().map(|index| {
            let line = &lines[*index];
            line.source.link.item(line.key)
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
                all.add(lines, &sent[at..], outcome, mode);
            }
        }
        join_all(tokens.iter().map(|token| client.settle(Some(token)))).await;
    }
}

impl ImportOutcome {
    /// Returns the credits that the balance lacks for the links of a dry run; 0 if the balance is unknown.
    pub(super) fn missing_credits(&self) -> i64 {
        let balance = self.credits_before.unwrap_or(self.credits_charged);
        (self.credits_charged - balance).max(0)
    }

    /// Begins with the links that are refused without asking the service.
    fn of_refusals(lines: &[ImportLine]) -> Self {
        let refused = |line: &ImportLine| line.source.refusal.as_ref().map(LineOutcome::refused);
        Self {
            lines: lines.iter().map(refused).collect(),
            credits_charged: 0,
            credits_before: None,
            failure: None,
        }
    }

    /// Refuses the links whose slug an earlier link of the file has got. Returns the indices of the others.
    fn refuse_repeats(&mut self, lines: &[ImportLine], repeats: Vec<usize>) -> Vec<usize> {
        let (sent, refused): (Vec<usize>, Vec<usize>) = repeats.into_iter().partition(|index| {
            let repeat = lines[*index].source.repeat.as_ref();
            let earlier = repeat.and_then(|it| self.lines[it.earlier].as_ref());
            matches!(earlier, Some(LineOutcome::Refused { .. }))
        });
        for index in refused {
            let repeat = lines[index].source.repeat.as_ref();
            self.lines[index] = repeat.map(|it| LineOutcome::refused(&it.refusal));
        }
        sent
    }

    /// Adds the outcome of a batch, whose links have the first of these indices. A dry run decides each
    /// batch as if it were alone with the whole balance, so a link that the balance did not cover counts
    /// at its price: the sum shows what is missing.
    fn add(
        &mut self,
        lines: &[ImportLine],
        indices: &[usize],
        batch: BatchOutcome,
        mode: BatchMode,
    ) {
        for (index, item) in indices.iter().zip(batch.items) {
            let price = match (&item, mode) {
                (Some(ItemOutcome::Refused(refusal)), BatchMode::DryRun) => unpaid_price(refusal),
                _ => None,
            };
            self.credits_charged += price.unwrap_or_default();
            self.lines[*index] = match price {
                Some(_) => Some(LineOutcome::Created { short_url: None }),
                None => item.map(|item| LineOutcome::of(item, &lines[*index].source.link)),
            };
        }
        self.credits_charged += batch.credits_charged;
        if let Some(balance) = batch.credits_balance {
            self.credits_before
                .get_or_insert(balance + batch.credits_charged);
        }
        self.failure = self.failure.take().or(batch.failure);
    }
}

/// Returns the price of a link that is refused only for missing credits.
fn unpaid_price(refusal: &ApiRefusal) -> Option<i64> {
    let problem = &refusal.problem;
    problem
        .required
        .filter(|_| problem.code == INSUFFICIENT_CREDITS)
}

impl LineOutcome {
    fn refused(refusal: &Refusal) -> Self {
        Self::Refused {
            code: refusal.code.to_owned(),
            detail: refusal.detail.clone(),
        }
    }

    fn is_refused_for(&self, expected: &str) -> bool {
        matches!(self, Self::Refused { code, .. } if code == expected)
    }

    fn of(item: ItemOutcome, link: &ImportedLink) -> Self {
        let short_url = |created| {
            let created: Option<CreatedLink> = serde_json::from_value(created).ok();
            created.and_then(|created| created.short_url)
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
                    detail: detail_of(code, link).unwrap_or_else(|| detail.to_owned()),
                }
            }
        }
    }
}

/// Returns the reason to refuse the scheme of an address: no setting accepts some of them.
fn scheme_detail(address: &str) -> &'static str {
    let (scheme, _) = address.split_once(':').unwrap_or_default();
    let schemes: Result<DestinationSchemes, _> = format!("https,{scheme}").parse();
    match schemes {
        Ok(_) => {
            "The service accepts this kind of address (mailto:, tel:, an app's) only if its operator names it in \
             DESTINATION_SCHEMES."
        }
        Err(_) => "The service never accepts this kind of address; give another destination.",
    }
}

/// Returns the reason of a refusal in words of a file, whose slugs and expiries were chosen long ago.
fn detail_of(code: &str, link: &ImportedLink) -> Option<String> {
    match code {
        SLUG_TAKEN => {
            let slug = shown(link.slug.as_deref()?);
            Some(format!(
                "The slug \"{slug}\" belongs to a link that exists or existed; neither letter case nor domain tells \
                 slugs apart."
            ))
        }
        "url_scheme_not_allowed" => Some(scheme_detail(&link.destination_url).to_owned()),
        "url_ip_not_allowed" => Some(
            "The service accepts IP addresses only if its operator sets DESTINATION_HOSTS=any."
                .to_owned(),
        ),
        "expires_at_in_the_past" => {
            let expires_at = shown(link.details.expires_at.as_deref()?);
            Some(format!(
                "The link expired at {expires_at}, and an import creates only links that redirect."
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedy_for_a_scheme_is_one_that_helps() {
        for address in ["mailto:a@e.com", "ftp://e.com/", "myapp://open"] {
            assert!(scheme_detail(address).contains("DESTINATION_SCHEMES"));
        }
        for address in [
            "javascript:alert(1)",
            "JavaScript:x",
            "data:text/html,x",
            "file:///etc",
        ] {
            assert!(scheme_detail(address).contains("never"), "{address}");
        }
    }
}
