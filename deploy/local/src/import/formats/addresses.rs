//! A list of addresses, one on each line; empty lines are skipped.

use super::{SourceLink, SourceLinks, SourceReport};
use crate::import::link::ImportedLink;

pub(super) fn parse(text: &str) -> SourceLinks {
    let links = text
        .lines()
        .zip(1..)
        .filter(|(line, _)| !line.trim().is_empty())
        .map(|(line, number)| SourceLink {
            number,
            link: ImportedLink {
                destination_url: line.to_owned(),
                ..ImportedLink::default()
            },
            refusal: None,
        });
    SourceLinks {
        links: links.collect(),
        report: SourceReport::default(),
    }
}
