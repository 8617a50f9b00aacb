//! Kutt: the answer of `GET /api/v2/links`. Pages can follow each other in one file.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    RawRecord, Refusal, SourceError, SourceFormat, SourceLinks,
    json_record::{JsonMembers, JsonRecord, MemberFault, documents, number},
};

const MEMBERS: JsonMembers = JsonMembers {
    texts: ["link", "target"],
    not_imported: &[("visit_count", "visits")],
    known: &[
        "address",
        "banned",
        "created_at",
        "description",
        "domain",
        "expire_in",
        "id",
        "password",
        "updated_at",
    ],
};

#[derive(Deserialize)]
struct Document<'t> {
    #[serde(borrow)]
    data: Vec<&'t RawValue>,
    total: Option<Value>,
}

pub(super) fn parse(text: &str, links: &mut SourceLinks) -> Result<(), SourceError> {
    let mut total = 0;
    for document in documents::<Document<'_>>(text, SourceFormat::Kutt)? {
        total = number(document.total.as_ref()).unwrap_or(total);
        for raw in document.data {
            links.add_json(raw, &MEMBERS, record);
        }
    }
    links.announce(total);
    Ok(())
}

fn record(json: &JsonRecord) -> Result<RawRecord, MemberFault> {
    let mut changes = Vec::new();
    let slug = json.required_text("address")?;
    Ok(RawRecord {
        slug: Some(slug),
        short_url: json.text("link")?,
        needs_slug: true,
        destination_url: json.required_text("target")?,
        title: json.label("description", "title", &mut changes),
        expires_at: json.text("expire_in")?,
        created_at: json.label("created_at", "creation date", &mut changes),
        changes,
        refusal: refusal(json),
        ..RawRecord::default()
    })
}

/// Returns the reason for which a link would be more public here than it was there.
fn refusal(json: &JsonRecord) -> Option<Refusal> {
    if json.is_set("password") {
        return Some(Refusal::password());
    }
    json.is_set("banned")
        .then(|| Refusal::new("link_banned", "The link is banned at its source."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::formats::tests::{change_lines, parsed};

    const FIXTURE: &str = include_str!("../../../tests/data/import/kutt.json");

    #[test]
    fn kutt_links_carry_slug_description_and_expiry() {
        let parsed = parsed(SourceFormat::Kutt, FIXTURE);
        let [first, second, third] = &parsed.links[..] else {
            panic!("{parsed:?}")
        };
        assert_eq!(first.link.slug.as_deref(), Some("spring"));
        assert_eq!(
            first.old_address.as_deref(),
            Some("https://kutt.test/spring")
        );
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
        let lines = change_lines(first);
        for line in [
            "not carried over: domain kutt.test",
            "not carried over: visits 12",
        ] {
            assert!(lines.contains(&line.to_owned()), "{lines:?}");
        }
    }

    #[test]
    fn record_of_another_form_is_refused_alone() {
        let text = "{\"data\":[{\"target\":\"https://a.example\",\"link\":\"https://k.test/a\"},null,\
                    {\"target\":[],\"address\":\"b\"},{\"target\":\"https://a.example\",\"address\":\"c\",\"description\":{}}]}";
        let parsed = parsed(SourceFormat::Kutt, text);
        let details: Vec<_> = parsed
            .links
            .iter()
            .map(|link| link.refusal.as_ref().map(|refusal| refusal.detail.as_str()))
            .collect();
        assert_eq!(
            details,
            [
                Some("The member address is missing or empty."),
                Some("The record is no JSON object."),
                Some("The member target is not a text."),
                None,
            ]
        );
        assert_eq!(
            parsed.links[0].old_address.as_deref(),
            Some("https://k.test/a")
        );
        assert_eq!(
            change_lines(&parsed.links[3]),
            ["title \"{}\" was dropped: not a text"]
        );
    }
}
