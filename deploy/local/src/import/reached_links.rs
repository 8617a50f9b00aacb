//! The links that visitors of refused old addresses reach here. A refusal frees the slug for another link, the short
//! host passes over what is added to a slug, and domains share one set of slugs: so an old address can move to another
//! destination, and its refusal says so.

use std::collections::{BTreeMap, HashMap};

use linkledger_core::link::Slug;
use uuid::Uuid;

use super::{
    lines::ImportLine,
    link::ImportedLink,
    record::shown,
    sending::{INSUFFICIENT_CREDITS, ImportOutcome, LineOutcome, SLUG_TAKEN},
};
use crate::client::{
    ApiClient,
    batch::{BatchMode, ItemOutcome, requests},
};

/// Destination of links that are asked for, and never created.
const NO_DESTINATION: &str = "https://example.com/";

/// Adds to the reasons of refused lines the link that visitors of their old address reach, unless that has the same
/// destination: a link of the file, or one that exists already.
pub(super) async fn name(client: &ApiClient, lines: &[ImportLine], all: &mut ImportOutcome) {
    let of_file = links_of_file(lines, all);
    let mut asked: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, (line, outcome)) in lines.iter().zip(&mut all.lines).enumerate() {
        let (source, Some(LineOutcome::Refused { code, detail })) = (&line.source, outcome) else {
            continue;
        };
        let Some(slug) = source.reached_slug.as_ref().map(Slug::folded) else {
            continue;
        };
        let is_own = source
            .link
            .slug
            .as_deref()
            .is_some_and(|own| own.eq_ignore_ascii_case(&slug));
        if let Some(link) = of_file.get(&slug) {
            if link.destination_url != source.link.destination_url {
                let destination = shown(&link.destination_url);
                detail.push_str(&sentence(&slug, &format!("to {destination}")));
            }
        } else if is_own && code == SLUG_TAKEN {
            detail.push_str(&existing(&slug));
        } else if code != INSUFFICIENT_CREDITS {
            asked.entry(slug).or_default().push(index);
        }
    }
    for slug in taken(client, asked.keys(), all).await {
        for index in &asked[&slug] {
            if let Some(LineOutcome::Refused { detail, .. }) = &mut all.lines[*index] {
                detail.push_str(&existing(&slug));
            }
        }
    }
}

/// Returns the links of the file that exist now, by their slug.
fn links_of_file<'l>(
    lines: &'l [ImportLine],
    all: &ImportOutcome,
) -> HashMap<String, &'l ImportedLink> {
    let with_slug = |(line, outcome): (&'l ImportLine, &Option<LineOutcome>)| match outcome {
        Some(LineOutcome::Created { .. } | LineOutcome::Existing { .. }) => {
            let link = &line.source.link;
            Some((link.slug.as_ref()?.to_ascii_lowercase(), link))
        }
        _ => None,
    };
    lines.iter().zip(&all.lines).filter_map(with_slug).collect()
}

/// Returns those of the slugs that links have, by a dry run of links with them. A failure is noted.
async fn taken<'s>(
    client: &ApiClient,
    slugs: impl Iterator<Item = &'s String>,
    all: &mut ImportOutcome,
) -> Vec<String> {
    let slugs: Vec<&String> = slugs.collect();
    let items = slugs.iter().map(|slug| {
        let link = ImportedLink {
            destination_url: NO_DESTINATION.to_owned(),
            slug: Some((*slug).clone()),
            ..ImportedLink::default()
        };
        link.item(Uuid::new_v5(&Uuid::NAMESPACE_URL, slug.as_bytes()))
    });
    let (mut taken, mut slugs) = (Vec::new(), slugs.iter());
    for request in requests(items) {
        let outcome = client.create_links(&request, BatchMode::DryRun).await;
        for (item, slug) in outcome.items.into_iter().zip(&mut slugs) {
            let is_taken = |item: &ItemOutcome| match item {
                ItemOutcome::Refused(refusal) => refusal.code_and_detail().0 == SLUG_TAKEN,
                ItemOutcome::Created { .. } => false,
            };
            taken.extend(item.filter(is_taken).map(|_| (*slug).clone()));
        }
        if outcome.failure.is_some() {
            all.failure = outcome.failure;
            break;
        }
    }
    taken
}

fn existing(slug: &str) -> String {
    sentence(slug, "which exists already")
}

fn sentence(slug: &str, which: &str) -> String {
    format!(" Here, visitors of the old address come to the link \"{slug}\", {which}.")
}
