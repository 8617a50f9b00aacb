//! YOURLS: the answer of the API action `stats` as JSON, whose links are numbered members.

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use std::collections::BTreeMap;

use super::{
    RawRecord, SourceError, SourceFormat, SourceLinks,
    json_record::{JsonMembers, JsonRecord, MemberFault, documents, number},
};

const MEMBERS: JsonMembers = JsonMembers {
    texts: ["shorturl", "url"],
    not_imported: &[("ip", "address of the creator"), ("clicks", "clicks")],
    known: &["timestamp", "title"],
};

#[derive(Deserialize)]
struct Document<'t> {
    #[serde(borrow)]
    links: Option<&'t RawValue>,
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

pub(super) fn parse(text: &str, links: &mut SourceLinks) -> Result<(), SourceError> {
    let format = SourceFormat::Yourls;
    let mut total = 0;
    for document in documents::<Document<'_>>(text, format)? {
        let Some(stats) = document.stats else {
            let message = document.message;
            let message = message.map(|message| format!("YOURLS answered \"{message}\""));
            return Err(format.unexpected(
                message.as_deref().unwrap_or("this JSON has other members"),
                text,
            ));
        };
        total = number(stats.get("total_links")).unwrap_or(total);
        for raw in listed(document.links)
            .ok_or_else(|| format.unexpected("the member links is no list of links", text))?
        {
            links.add_json(raw, &MEMBERS, record);
        }
    }
    links.announce(total);
    Ok(())
}

/// Returns the links by the numbers of their names; PHP writes a list for no links.
fn listed(links: Option<&RawValue>) -> Option<Vec<&RawValue>> {
    let Some(links) = links else {
        return Some(Vec::new());
    };
    if links.get().starts_with('[') {
        return serde_json::from_str(links.get()).ok();
    }
    let named: BTreeMap<LinkName, &RawValue> = serde_json::from_str(links.get()).ok()?;
    Some(named.into_values().collect())
}

fn record(json: &JsonRecord) -> Result<RawRecord, MemberFault> {
    let mut changes = Vec::new();
    let destination_url = json.required_text("url")?;
    let short_url = json.required_text("shorturl")?;
    // YOURLS takes the address for the title where a page has none.
    let title = json.label("title", "title", &mut changes);
    Ok(RawRecord {
        short_url: Some(short_url),
        needs_slug: true,
        title: title.filter(|title| *title != destination_url),
        destination_url,
        created_at: json.label("timestamp", "creation date", &mut changes),
        is_html: true,
        changes,
        ..RawRecord::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::formats::tests::{change_lines, parsed};

    const FIXTURE: &str = include_str!("../../../tests/data/import/yourls.json");

    #[test]
    fn yourls_links_are_sorted_by_number_of_their_member() {
        let parsed = parsed(SourceFormat::Yourls, FIXTURE);
        let slugs: Vec<_> = parsed
            .links
            .iter()
            .map(|link| link.link.slug.as_deref())
            .collect();
        assert_eq!(slugs, [Some("ozh"), Some("1f"), None]);
        let [first, second, third] = &parsed.links[..] else {
            panic!("{parsed:?}")
        };
        assert_eq!(first.link.destination_url, "https://ozh.org/?a=1&b=2");
        assert_eq!(first.link.details.title.as_deref(), Some("Ozh & friends"));
        assert_eq!(second.link.details.title, None);
        assert_eq!(
            third.old_address.as_deref(),
            Some("https://sho.rt/sub/spring")
        );
        assert_eq!(
            third.refusal.as_ref().unwrap().code,
            "slug_invalid_character"
        );
        assert_eq!(parsed.announced, Some(1_523));
        let lines = change_lines(second);
        assert!(
            lines.contains(&"not carried over: clicks 1".to_owned()),
            "{lines:?}"
        );
    }

    #[test]
    fn every_link_of_a_default_yourls_is_kept() {
        // A default YOURLS counts in base 36.
        let slug = |n: u32| match n {
            0..36 => char::from_digit(n, 36).unwrap().to_string(),
            _ => format!(
                "{}{}",
                char::from_digit(n / 36, 36).unwrap(),
                char::from_digit(n % 36, 36).unwrap()
            ),
        };
        let link = |n| {
            format!(
                "\"link_{n}\":{{\"shorturl\":\"https://sho.rt/{}\",\"url\":\"https://e.com/{n}\"}}",
                slug(n)
            )
        };
        let links: Vec<String> = (1..1_296).map(link).collect();
        let text = format!(
            "{{\"links\":{{{}}},\"stats\":{{\"total_links\":\"1295\"}}}}",
            links.join(",")
        );
        let parsed = parsed(SourceFormat::Yourls, &text);
        let refused: Vec<_> = parsed
            .links
            .iter()
            .filter_map(|link| link.refusal.as_ref())
            .collect();
        // One of them has a name that this service keeps for itself.
        assert_eq!(
            refused
                .iter()
                .map(|refusal| refusal.code)
                .collect::<Vec<_>>(),
            ["slug_reserved"]
        );
        assert_eq!(parsed.links.len(), 1_295);
    }

    #[test]
    fn yourls_error_of_the_api_is_shown() {
        let error = |text: &str| {
            SourceFormat::Yourls
                .parse(text, false)
                .unwrap_err()
                .to_string()
        };
        let refused = error("{\"message\":\"Please log in\",\"errorCode\":403}");
        assert!(
            refused.starts_with("YOURLS answered \"Please log in\"; --from yourls expects "),
            "{refused}"
        );
        let other = error("{\"links\":7,\"stats\":{}}");
        assert!(
            other.starts_with("the member links is no list of links"),
            "{other}"
        );
        assert!(
            parsed(SourceFormat::Yourls, "{\"links\":[],\"stats\":{}}")
                .links
                .is_empty()
        );
    }
}
