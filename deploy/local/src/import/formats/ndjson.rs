//! Lines of JSON, one object for each link: the form of an export.

use serde_json::value::RawValue;

use super::{SourceError, SourceLink, SourceLinks, SourceRefusal, json_record::JsonRecord};
use crate::import::{
    adapt::last_segment_of,
    link::{ImportedLink, LINK_MEMBERS, LinkDetails},
};

/// Members of an export that an import does not store.
const IGNORED: [&str; 5] = ["id", "created_at", "clicks", "disabled", "disabled_by"];

pub(super) fn parse(text: &str) -> Result<SourceLinks, SourceError> {
    let mut parsed = SourceLinks::default();
    let lines = text.lines().zip(1..);
    for (line, number) in lines.filter(|(line, _)| !line.trim().is_empty()) {
        let raw: &RawValue = serde_json::from_str(line).map_err(|_| {
            let advice = "not JSON; --from names the format of a file of another product";
            SourceError::line(number, advice)
        })?;
        let record = JsonRecord::parse(raw, format!("line {number}"))?;
        parsed.links.push(link(&record, number)?);
        let known = |name: &&str| LINK_MEMBERS.contains(name) || IGNORED.contains(name);
        for name in record.names().filter(|name| !known(name)) {
            parsed.report.count_not_imported(name);
        }
    }
    Ok(parsed)
}

fn link(record: &JsonRecord, number: usize) -> Result<SourceLink, SourceError> {
    let owned = |path: &str| record.text(path).map(|text| text.map(ToOwned::to_owned));
    let slug = record.text("slug")?;
    let short_url = record.text("short_url")?;
    let slug = slug.or_else(|| short_url.and_then(last_segment_of));
    let short_url_lacks_slug = short_url.is_some() && slug.is_none();
    let tags = record.texts("tags")?;
    let is_disabled = record.is_set("disabled") || record.is_set("disabled_by");
    Ok(SourceLink {
        number,
        link: ImportedLink {
            destination_url: record.required_text("destination_url")?.to_owned(),
            slug: slug.map(ToOwned::to_owned),
            details: LinkDetails {
                title: owned("title")?,
                tags: tags.into_iter().map(ToOwned::to_owned).collect(),
                external_id: owned("external_id")?,
                expires_at: owned("expires_at")?,
                expired_url: owned("expired_url")?,
            },
        },
        refusal: is_disabled
            .then(SourceRefusal::disabled)
            .or_else(|| short_url_lacks_slug.then(SourceRefusal::no_slug)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exported_line_becomes_the_same_link() {
        let text = "{\"id\":\"lnk_1\",\"short_url\":\"http://s.test/Spring\",\
                    \"destination_url\":\"https://example.com/\",\"created_at\":\"x\",\
                    \"tags\":[\"a\"],\"title\":\"T\",\"colour\":1}\n\n";
        let parsed = parse(text).unwrap();
        let link = &parsed.links[0].link;
        assert_eq!(link.slug.as_deref(), Some("Spring"));
        assert_eq!(link.details.tags, ["a"]);
        assert_eq!(link.details.title.as_deref(), Some("T"));
        assert!(parsed.report.text().contains("1  colour"));
    }

    #[test]
    fn ndjson_error_names_the_line() {
        let good = "{\"destination_url\":\"https://example.com/\"}";
        let error = |line: &str| parse(&format!("{good}\n{line}")).unwrap_err().to_string();
        assert!(error("{\"a\":").starts_with("line 2: not JSON"));
        assert_eq!(error("{}"), "line 2.destination_url: missing or empty");
        assert_eq!(error("[]"), "line 2: not a JSON object");
    }

    #[test]
    fn short_url_of_a_host_is_refused() {
        let text =
            "{\"destination_url\":\"https://example.com/\",\"short_url\":\"https://s.test\"}";
        let refusal = parse(text).unwrap().links.remove(0).refusal;
        assert_eq!(refusal.unwrap().code, "slug_missing");
    }

    #[test]
    fn disabled_link_is_refused() {
        let text = "{\"destination_url\":\"https://example.com/\",\"disabled_by\":\"operator\"}";
        let refusal = parse(text).unwrap().links.remove(0).refusal;
        assert_eq!(refusal.unwrap().code, "link_disabled");
    }
}
