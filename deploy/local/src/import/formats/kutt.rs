//! Kutt: the answer of `GET /api/v2/links`. Pages can follow each other in one file.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    SourceError, SourceLinks, SourceRefusal,
    json_record::{JsonRecord, documents},
};
use crate::import::adapt::ForeignLink;

/// Members without a counterpart, and their names in the report.
const NOT_IMPORTED: [(&str, &str); 2] = [("domain", "domain"), ("visit_count", "visits")];

#[derive(Deserialize)]
struct Document<'t> {
    #[serde(borrow)]
    data: Vec<&'t RawValue>,
    total: Option<u64>,
}

pub(super) fn parse(text: &str) -> Result<SourceLinks, SourceError> {
    let mut parsed = SourceLinks::default();
    let mut total = 0;
    for document in documents::<Document<'_>>(text)? {
        total = document.total.unwrap_or(total);
        for (raw, index) in document.data.into_iter().zip(0..) {
            let record = JsonRecord::parse(raw, format!("data[{index}]"))?;
            add(&record, &mut parsed)?;
        }
    }
    parsed.report.announce(total, parsed.links.len());
    Ok(parsed)
}

fn add(record: &JsonRecord, parsed: &mut SourceLinks) -> Result<(), SourceError> {
    let foreign = ForeignLink {
        destination_url: record.required_text("target")?,
        slug: Some(record.required_text("address")?),
        title: record.text("description")?,
        tags: Vec::new(),
        expires_at: record.text("expire_in")?,
        created_at: record.text("created_at")?,
        refusal: refusal(record),
    };
    parsed.add_record(record, &NOT_IMPORTED, foreign);
    Ok(())
}

/// Returns the reason for which a link would be more public here than it was there.
fn refusal(record: &JsonRecord) -> Option<SourceRefusal> {
    if record.is_set("password") {
        return Some(SourceRefusal {
            code: "password_not_supported",
            detail: "The link has a password, which this service cannot ask for.".to_owned(),
        });
    }
    record.is_set("banned").then(|| SourceRefusal {
        code: "link_banned",
        detail: "The link is banned at its source.".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: &str = include_str!("../../../tests/data/import/kutt.json");

    #[test]
    fn kutt_links_carry_slug_description_and_expiry() {
        let parsed = parse(FIXTURE).unwrap();
        let [first, second, third] = &parsed.links[..] else {
            panic!("{parsed:?}")
        };
        assert_eq!(first.link.slug.as_deref(), Some("spring"));
        assert_eq!(
            first.link.destination_url,
            "https://example.com/spring?utm=1"
        );
        assert_eq!(
            first.link.details.title.as_deref(),
            Some("Spring sale, second line")
        );
        assert_eq!(first.refusal, None);
        assert_eq!(
            second.link.details.expires_at.as_deref(),
            Some("2030-02-01T00:00:00.000Z")
        );
        let code = third.refusal.as_ref().map(|refusal| refusal.code);
        assert_eq!(code, Some("password_not_supported"));
        let report = parsed.report.text();
        assert!(
            report.contains("1  domain") && report.contains("1  visits"),
            "{report}"
        );
    }

    #[test]
    fn kutt_error_names_the_member() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(
            error("{\"data\":[{\"target\":\"a\"}]}"),
            "data[0].address: missing or empty"
        );
        assert_eq!(error("{\"data\":[null]}"), "data[0]: not a JSON object");
        assert!(error("{\"data\":7}").starts_with("line 1, column 9: invalid type"));
    }
}
