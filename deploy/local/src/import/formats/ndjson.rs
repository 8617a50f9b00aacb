//! Lines of JSON, one object for each link: the form of an export.

use serde_json::value::RawValue;

use super::{
    ID_PREFIX, RawRecord, Refusal, SourceError, SourceFormat, SourceLinks,
    json_record::{JsonRecord, MemberFault},
};
use crate::import::{blank::trimmed, link::LINK_MEMBERS};

/// Members of an export that an import does not store.
const IGNORED: [&str; 5] = ["id", "created_at", "clicks", "disabled", "disabled_by"];

pub(super) fn parse(text: &str, links: &mut SourceLinks) -> Result<(), SourceError> {
    let numbered = text.lines().zip(1..);
    let mut has_json = false;
    for (line, number) in numbered.filter(|(line, _)| !trimmed(line).is_empty()) {
        let raw: Result<&RawValue, _> = serde_json::from_str(line);
        has_json |= raw.is_ok();
        links.add(raw.map_or_else(
            |_| RawRecord::broken(number, "The line is no JSON object."),
            |raw| record_of_line(raw, number),
        ));
    }
    if !has_json && !links.links.is_empty() {
        return Err(SourceFormat::Ndjson.unexpected("no line is JSON", text));
    }
    Ok(())
}

fn record_of_line(raw: &RawValue, number: usize) -> RawRecord {
    let json = match JsonRecord::parse(raw) {
        Ok(json) => json,
        Err(fault) => return fault.into_record(number),
    };
    let mut record = record(&json)
        .unwrap_or_else(|fault| json.broken(number, fault, ["short_url", "destination_url"]));
    record.number = number;
    let known = |name: &&str| LINK_MEMBERS.contains(name) || IGNORED.contains(name);
    for name in json.names().filter(|name| !known(name)) {
        if let Some(value) = json.shown(name) {
            record.leave_behind(name.to_owned(), &value);
        }
    }
    record
}

fn record(json: &JsonRecord) -> Result<RawRecord, MemberFault> {
    let mut changes = Vec::new();
    let short_url = json.text("short_url")?;
    let is_own = json.text("id")?.is_some_and(|id| id.starts_with(ID_PREFIX));
    let is_disabled = json.is_set("disabled") || json.is_set("disabled_by");
    Ok(RawRecord {
        slug: json.text("slug")?,
        needs_slug: short_url.is_some(),
        short_url,
        destination_url: json.required_text("destination_url")?,
        title: json.label("title", "title", &mut changes),
        tags: json.labels("tags", &mut changes),
        is_own,
        external_id: json.label("external_id", "external id", &mut changes),
        expires_at: json.text("expires_at")?,
        expired_url: json.text("expired_url")?,
        changes,
        refusal: is_disabled.then(Refusal::disabled),
        ..RawRecord::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::formats::tests::{change_lines, parsed};

    fn codes(text: &str) -> Vec<Option<&'static str>> {
        let links = parsed(SourceFormat::Ndjson, text).links;
        let codes = links
            .into_iter()
            .map(|link| link.refusal.map(|refusal| refusal.code));
        codes.collect()
    }

    #[test]
    fn exported_line_becomes_the_same_link() {
        let text = "{\"id\":\"lnk_1\",\"short_url\":\"http://s.test/to/Spring\",\
                    \"destination_url\":\"https://example.com/\",\"created_at\":\"x\",\
                    \"tags\":[\"a\"],\"title\":\"T\",\"colour\":1}\n\n";
        let parsed = parsed(SourceFormat::Ndjson, text);
        let link = &parsed.links[0].link;
        assert_eq!(link.slug.as_deref(), Some("Spring"));
        assert_eq!(link.details.tags, ["a"]);
        assert_eq!(link.details.title.as_deref(), Some("T"));
        assert_eq!(
            change_lines(&parsed.links[0]),
            [
                "not carried over: colour 1",
                "not carried over: domain s.test"
            ]
        );
    }

    #[test]
    fn line_that_is_no_link_is_refused_alone() {
        let good = "{\"destination_url\":\"https://example.com/\"}";
        let text = format!("{good}\n{{\"a\":\n{{}}\n[]\n{good}\n");
        let broken = Some("record_invalid");
        assert_eq!(codes(&text), [None, broken, broken, broken, None]);
        let pretty = "{\n  \"destination_url\":\n  \"https://example.com/\n}\n";
        let error = SourceFormat::Ndjson
            .parse(pretty, false)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("no line is JSON; --from ndjson expects "),
            "{error}"
        );
    }

    #[test]
    fn address_of_a_host_or_of_a_folder_is_refused() {
        let line = |address: &str| {
            format!("{{\"destination_url\":\"https://example.com/\",\"short_url\":\"{address}\"}}")
        };
        assert_eq!(codes(&line("https://s.test")), [Some("slug_missing")]);
        assert_eq!(
            codes(&line("https://s.test/a/b")),
            [Some("slug_invalid_character")]
        );
    }

    #[test]
    fn disabled_link_is_refused() {
        let text = "{\"destination_url\":\"https://example.com/\",\"disabled_by\":\"operator\"}";
        assert_eq!(codes(text), [Some("link_disabled")]);
    }
}
