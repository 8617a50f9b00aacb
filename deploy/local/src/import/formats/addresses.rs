//! A list of addresses, one on each line; empty lines are skipped.

use super::{SourceLink, SourceLinks, SourceRefusal, SourceReport};
use crate::import::link::ImportedLink;

/// Refuses an address with a space inside: the console takes the text after the space for a slug.
fn refusal(line: &str) -> Option<SourceRefusal> {
    line.trim().contains(' ').then(|| SourceRefusal {
        code: "url_invalid",
        detail: "An address has no spaces: write %20; a slug needs a CSV file, with the columns destination_url and slug."
            .to_owned(),
    })
}

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
            refusal: refusal(line),
        });
    SourceLinks {
        links: links.collect(),
        report: SourceReport::default(),
    }
}
