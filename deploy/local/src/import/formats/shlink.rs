//! Shlink: the answer of `GET /rest/v3/short-urls`. Pages can follow each other in one file.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    SourceError, SourceLinks,
    json_record::{JsonRecord, documents},
};
use crate::import::adapt::ForeignLink;

/// Members without a counterpart, and their names in the report.
const NOT_IMPORTED: [(&str, &str); 7] = [
    ("meta.validSince", "begin of validity"),
    ("meta.maxVisits", "maximum of visits"),
    ("domain", "domain"),
    ("crawlable", "permission for crawlers"),
    ("forwardQuery", "forwarding of the query"),
    ("hasRedirectRules", "redirect rules"),
    ("visitsCount", "visits"),
];

#[derive(Deserialize)]
struct Document<'t> {
    #[serde(borrow, rename = "shortUrls")]
    short_urls: Page<'t>,
}

#[derive(Deserialize)]
struct Page<'t> {
    #[serde(borrow)]
    data: Vec<&'t RawValue>,
    pagination: Option<Pagination>,
}

#[derive(Deserialize)]
struct Pagination {
    #[serde(rename = "totalItems")]
    total_items: Option<u64>,
}

pub(super) fn parse(text: &str) -> Result<SourceLinks, SourceError> {
    let mut parsed = SourceLinks::default();
    let mut total = 0;
    for Document { short_urls: page } in documents(text)? {
        total = page
            .pagination
            .and_then(|pages| pages.total_items)
            .unwrap_or(total);
        for (raw, index) in page.data.into_iter().zip(0..) {
            let record = JsonRecord::parse(raw, format!("shortUrls.data[{index}]"))?;
            add(&record, &mut parsed)?;
        }
    }
    parsed.report.announce(total, parsed.links.len());
    Ok(parsed)
}

fn add(record: &JsonRecord, parsed: &mut SourceLinks) -> Result<(), SourceError> {
    let foreign = ForeignLink {
        destination_url: record.required_text("longUrl")?,
        slug: Some(record.required_text("shortCode")?),
        title: record.text("title")?,
        tags: record.texts("tags")?,
        expires_at: record.text("meta.validUntil")?,
        created_at: record.text("dateCreated")?,
        refusal: None,
    };
    parsed.add_record(record, &NOT_IMPORTED, foreign);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: &str = include_str!("../../../tests/data/import/shlink.json");

    #[test]
    fn shlink_links_carry_slug_title_tags_and_expiry() {
        let parsed = parse(FIXTURE).unwrap();
        let [first, second, ..] = &parsed.links[..] else {
            panic!("{parsed:?}")
        };
        assert_eq!(first.link.slug.as_deref(), Some("12C18"));
        assert_eq!(first.link.destination_url, "https://store.steampowered.com");
        assert_eq!(first.link.details.tags, ["games", "tech"]);
        assert_eq!(first.link.details.expires_at, None);
        assert_eq!(second.link.details.title.as_deref(), Some("Spring sale"));
        assert_eq!(
            second.link.details.expires_at.as_deref(),
            Some("2030-01-21T00:00:00+02:00")
        );
        let report = parsed.report.text();
        for line in [
            "1  begin of validity",
            "1  maximum of visits",
            "1  domain",
            "2  visits",
        ] {
            assert!(report.contains(line), "{report}");
        }
        assert!(
            parsed
                .report
                .missing_links_warning(parsed.links.len())
                .unwrap()
                .contains("of 12 links")
        );
    }

    #[test]
    fn shlink_pages_follow_each_other() {
        let pages = format!("{FIXTURE}\n{FIXTURE}");
        let parsed = parse(&pages).unwrap();
        assert_eq!(parsed.links.len(), 2 * parse(FIXTURE).unwrap().links.len());
        assert_eq!(parsed.links.last().unwrap().number, parsed.links.len());
    }

    #[test]
    fn shlink_error_names_the_member() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        for (record, expected) in [
            (
                "{\"shortCode\":\"a\"}",
                "shortUrls.data[1].longUrl: missing or empty",
            ),
            ("{\"longUrl\":1}", "shortUrls.data[1].longUrl: not a text"),
            ("7", "shortUrls.data[1]: not a JSON object"),
            (
                "{\"longUrl\":\"a\",\"shortCode\":\"b\",\"tags\":[1]}",
                "shortUrls.data[1].tags: not a list of texts",
            ),
        ] {
            let good = "{\"longUrl\":\"a\",\"shortCode\":\"b\"}";
            let text = format!("{{\"shortUrls\":{{\"data\":[{good},{record}]}}}}");
            assert_eq!(error(&text), expected);
        }
        assert_eq!(error("{}"), "line 1, column 2: missing field `shortUrls`");
        assert!(error("{\"shortUrls\":{\"data\":[").starts_with("line 1, column 22: EOF"));
        assert_eq!(error(""), "line 1: the file has no JSON document");
    }
}
