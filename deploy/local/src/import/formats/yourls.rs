//! YOURLS: the answer of the API action `stats` as JSON, whose links are numbered members.

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use std::collections::BTreeMap;

use super::{
    SourceError, SourceLinks, SourceRefusal,
    json_record::{JsonRecord, documents},
};
use crate::import::adapt::{ForeignLink, last_segment_of};

/// Members without a counterpart, and their names in the report.
const NOT_IMPORTED: [(&str, &str); 2] = [("ip", "address of the creator"), ("clicks", "clicks")];

#[derive(Deserialize)]
struct Document<'t> {
    #[serde(borrow, default)]
    links: BTreeMap<LinkName, &'t RawValue>,
    stats: Option<Map<String, Value>>,
    message: Option<String>,
}

/// Name of a link, ordered by its number.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(from = "String")]
struct LinkName(u64, String);

impl From<String> for LinkName {
    fn from(name: String) -> Self {
        let number = name
            .strip_prefix("link_")
            .and_then(|number| number.parse().ok());
        Self(number.unwrap_or(u64::MAX), name)
    }
}

pub(super) fn parse(text: &str) -> Result<SourceLinks, SourceError> {
    let mut parsed = SourceLinks::default();
    let mut total = 0;
    for document in documents::<Document<'_>>(text)? {
        let Some(stats) = document.stats else {
            let message = document.message.unwrap_or_else(|| "missing".to_owned());
            return Err(SourceError::new("stats", message));
        };
        total = number(stats.get("total_links")).unwrap_or(total);
        for (LinkName(_, name), raw) in document.links {
            let record = JsonRecord::parse(raw, format!("links.{name}"))?;
            add(&record, &mut parsed)?;
        }
    }
    parsed.report.announce(total, parsed.links.len());
    Ok(parsed)
}

/// Reads a number, which PHP writes as a text.
fn number(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn add(record: &JsonRecord, parsed: &mut SourceLinks) -> Result<(), SourceError> {
    let destination_url = record.required_text("url")?;
    let short_url = record.required_text("shorturl")?;
    // YOURLS takes the address for the title where a page has none.
    let title = record
        .text("title")?
        .filter(|title| *title != destination_url);
    let slug = last_segment_of(short_url);
    let foreign = ForeignLink {
        destination_url,
        slug,
        title,
        created_at: record.text("timestamp")?,
        refusal: slug.is_none().then(SourceRefusal::no_slug),
        ..ForeignLink::default()
    };
    parsed.add_record(record, &NOT_IMPORTED, foreign);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: &str = include_str!("../../../tests/data/import/yourls.json");

    #[test]
    fn yourls_links_are_sorted_by_number_of_their_member() {
        let parsed = parse(FIXTURE).unwrap();
        let slugs: Vec<_> = parsed
            .links
            .iter()
            .map(|link| link.link.slug.as_deref())
            .collect();
        assert_eq!(slugs, [Some("ozh"), Some("1f"), Some("spring")]);
        let first = &parsed.links[0].link;
        assert_eq!(first.destination_url, "https://ozh.org/");
        assert_eq!(first.details.title.as_deref(), Some("Ozh & friends"));
        assert_eq!(parsed.links[1].link.details.title, None);
    }

    #[test]
    fn yourls_report_counts_clicks_and_missing_links() {
        let parsed = parse(FIXTURE).unwrap();
        let report = parsed.report.text();
        assert!(report.contains("2  clicks"), "{report}");
        assert!(
            report.contains("3 links, 2009-08-19 20:35:04 to 2024-02-29"),
            "{report}"
        );
        assert!(
            parsed
                .report
                .missing_links_warning(3)
                .unwrap()
                .contains("3 of 1,523 links")
        );
    }

    #[test]
    fn yourls_error_of_the_api_is_shown() {
        let refused = "{\"message\":\"Please log in\",\"errorCode\":403}";
        assert_eq!(
            parse(refused).unwrap_err().to_string(),
            "stats: Please log in"
        );
        let text = "{\"stats\":{},\"links\":{\"link_1\":{\"url\":\"a\"}}}";
        let error = parse(text).unwrap_err().to_string();
        assert_eq!(error, "links.link_1.shorturl: missing or empty");
    }
}
