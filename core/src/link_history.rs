//! History of a link, as its owner sees it: the members that each event changed.

use serde_json::{Map, Value, json};

use crate::link::{
    LinkDetails, LinkState,
    members::{
        DESTINATION_URL, DISABLED, DISABLED_BY, EXPIRED_URL, EXPIRES_AT, EXTERNAL_ID, TAGS, TITLE,
    },
};

/// Returns each member that an event changed, with its values before and after. Without a state
/// before, the event created the link: each member that is set changed from null.
pub fn changes(before: Option<&LinkState>, after: &LinkState) -> Map<String, Value> {
    let Some(before) = before else {
        let set = members(after)
            .into_iter()
            .filter(|(_, value)| is_set(value));
        return set
            .map(|(name, to)| change(name, &Value::Null, &to))
            .collect();
    };
    let pairs = members(before).into_iter().zip(members(after));
    pairs
        .filter(|((_, from), (_, to))| from != to)
        .map(|((name, from), (_, to))| change(name, &from, &to))
        .collect()
}

/// Returns the members that can change, by the names of the API. A member that has no value is null.
fn members(link: &LinkState) -> [(&'static str, Value); 9] {
    let disabled_by = link.disabled_by();
    // Without `..`: the compiler names a member that the history lacks.
    let LinkState {
        slug: _,
        created_at: _,
        destination_url,
        disabled_by_operator: _,
        disabled_by_owner: _,
        deleted,
        details,
    } = link;
    let LinkDetails {
        title,
        external_id,
        tags,
        expires_at,
        expired_url,
    } = details;
    [
        (DESTINATION_URL, destination_url.as_str().into()),
        (TITLE, json!(title)),
        (EXTERNAL_ID, json!(external_id)),
        (TAGS, json!(tags)),
        (EXPIRES_AT, json!(expires_at)),
        (EXPIRED_URL, json!(expired_url)),
        (DISABLED, disabled_by.is_some().into()),
        (DISABLED_BY, json!(disabled_by)),
        ("deleted", (*deleted).into()),
    ]
}

/// Returns false for a value that a new link has if its create does not name the member.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::String(_) | Value::Object(_) => true,
    }
}

fn change(name: &str, from: &Value, to: &Value) -> (String, Value) {
    (name.to_owned(), json!({ "from": from, "to": to }))
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::*;
    use crate::link::Destination;

    fn after(destination_url: &str, is_disabled: bool, deleted: bool) -> LinkState {
        LinkState {
            slug: "spring".to_owned(),
            created_at: OffsetDateTime::UNIX_EPOCH,
            destination_url: Destination::stored(destination_url),
            disabled_by_operator: is_disabled,
            disabled_by_owner: false,
            deleted,
            details: LinkDetails::NONE,
        }
    }

    #[test]
    fn changed_details_have_values_before_and_after() {
        let with_title = |title: Option<&str>| {
            let mut link = after("https://a.example/", false, false);
            link.details.title = title.map(str::to_owned);
            link
        };
        let (titled, renamed) = (with_title(Some("A")), with_title(Some("B")));
        let without = with_title(None);
        for (before, link, expected) in [
            (
                &titled,
                &renamed,
                json!({ "title": { "from": "A", "to": "B" } }),
            ),
            (
                &titled,
                &without,
                json!({ "title": { "from": "A", "to": null } }),
            ),
        ] {
            assert_eq!(Value::Object(changes(Some(before), link)), expected);
        }
    }

    #[test]
    fn changes_have_only_members_that_differ() {
        const A: &str = "https://a.example/";
        const B: &str = "https://b.example/";
        let first = after(A, false, false);
        let disabled = after(A, true, false);
        let moved = after(B, true, false);
        let deleted = after(B, true, true);
        for (before, link, expected) in [
            (
                None,
                &first,
                json!({ "destination_url": { "from": null, "to": A } }),
            ),
            (Some(&first), &first, json!({})),
            (
                Some(&first),
                &disabled,
                json!({
                    "disabled": { "from": false, "to": true },
                    "disabled_by": { "from": null, "to": "operator" },
                }),
            ),
            (
                Some(&disabled),
                &first,
                json!({
                    "disabled": { "from": true, "to": false },
                    "disabled_by": { "from": "operator", "to": null },
                }),
            ),
            (
                Some(&disabled),
                &moved,
                json!({ "destination_url": { "from": A, "to": B } }),
            ),
            (
                Some(&moved),
                &deleted,
                json!({ "deleted": { "from": false, "to": true } }),
            ),
            (
                Some(&first),
                &moved,
                json!({
                    "destination_url": { "from": A, "to": B },
                    "disabled": { "from": false, "to": true },
                    "disabled_by": { "from": null, "to": "operator" },
                }),
            ),
        ] {
            assert_eq!(Value::Object(changes(before, link)), expected);
        }
    }
}
