//! The links that have the slugs of refused old addresses. A refusal frees the slug for another link, the short host
//! passes over what is added to a slug, and domains share one set of slugs: so an old address can move to another
//! destination, and its refusal says so.

use std::collections::{BTreeMap, HashMap};

use indicatif::ProgressBar;
use linkledger_core::link::Slug;
use uuid::Uuid;

use super::{
    lines::ImportLine,
    link::ImportedLink,
    record::shown,
    sending::{INSUFFICIENT_CREDITS, ImportOutcome, LineOutcome, SLUG_TAKEN},
};
use crate::{
    client::{
        ApiClient,
        batch::{BatchMode, ItemOutcome, requests},
    },
    output::note,
};

/// Destination of links that are asked for, and never created.
const NO_DESTINATION: &str = "https://example.com/";

/// Adds to the reasons of refused lines the link that has the slug of their old address, unless it is one of the file
/// with the same destination. The destination is named only if this run created the link: others can be changed,
/// disabled or deleted.
pub(super) async fn name(
    client: &ApiClient,
    lines: &[ImportLine],
    all: &mut ImportOutcome,
    bar: &ProgressBar,
) {
    let of_file = links_of_file(lines, all);
    let mut asked: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, (line, outcome)) in lines.iter().zip(&mut all.lines).enumerate() {
        let (source, Some(LineOutcome::Refused { code, detail })) = (&line.source, outcome) else {
            continue;
        };
        let Some(slug) = source.reached_slug.as_ref().map(Slug::key) else {
            continue;
        };
        let is_own = source
            .link
            .slug
            .as_deref()
            .is_some_and(|own| own.eq_ignore_ascii_case(&slug));
        if let Some((link, is_new)) = of_file.get(&slug) {
            let destination = &link.destination_url;
            if *destination != source.link.destination_url {
                detail.push_str(&if *is_new {
                    created(&slug, destination)
                } else {
                    existing(&slug)
                });
            }
        } else if code != INSUFFICIENT_CREDITS && !(is_own && code == SLUG_TAKEN) {
            asked.entry(slug).or_default().push(index);
        }
    }
    for slug in taken(client, asked.keys(), bar).await {
        for index in &asked[&slug] {
            if let Some(LineOutcome::Refused { detail, .. }) = &mut all.lines[*index] {
                detail.push_str(&existing(&slug));
            }
        }
    }
}

/// Returns the links of the file that exist now, by their slug, each with true if this run created it.
fn links_of_file<'l>(
    lines: &'l [ImportLine],
    all: &ImportOutcome,
) -> HashMap<String, (&'l ImportedLink, bool)> {
    let with_slug = |(line, outcome): (&'l ImportLine, &Option<LineOutcome>)| match outcome {
        Some(LineOutcome::Created { .. } | LineOutcome::Existing { .. }) => {
            let link = &line.source.link;
            let is_new = matches!(outcome, Some(LineOutcome::Created { .. }));
            Some((link.slug.as_ref()?.to_ascii_lowercase(), (link, is_new)))
        }
        _ => None,
    };
    lines.iter().zip(&all.lines).filter_map(with_slug).collect()
}

/// Returns the slugs that links have already: a dry run of links with these slugs tells. A failure is only noted, since
/// the outcomes of the lines are known.
async fn taken<'s>(
    client: &ApiClient,
    slugs: impl Iterator<Item = &'s String>,
    bar: &ProgressBar,
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
        if let Some(failure) = outcome.failure {
            let reason = format!(
                "which links have the slugs of refused old addresses is unknown: {failure}"
            );
            bar.suspend(|| note(&reason));
            break;
        }
    }
    taken
}

fn created(slug: &str, destination: &str) -> String {
    let destination = shown(destination);
    format!(" Here, visitors of the old address come to the link \"{slug}\", to {destination}.")
}

fn existing(slug: &str) -> String {
    format!(" The slug \"{slug}\" belongs to a link that exists or existed.")
}
