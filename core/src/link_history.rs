//! History of a link, as its owner sees it: the members that each event changed.

use serde_json::{Map, Value, json};

use crate::{
    envelope::RecordedEvent,
    event::{DecodeError, Event},
    link::{
        ExistingLink, LinkCreated, LinkDetails, LinkEvent, LinkState,
        members::{
            DESTINATION_URL, DISABLED, DISABLED_BY, EXPIRED_URL, EXPIRES_AT, EXTERNAL_ID, TAGS,
            TITLE,
        },
    },
};

/// Reason why an event has no place in the history of a link.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// This release cannot read the event.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The event is not of a link, or lacks the state of the link after the event.
    #[error("version {version} of the stream lacks the state of a link")]
    NoState {
        /// Version of the event.
        version: i64,
    },
}

/// Returns the creation of a link from its first event.
///
/// # Errors
/// Returns [`HistoryError`] if a later release wrote the event, or the event creates no link.
pub fn creation(event: &RecordedEvent) -> Result<LinkCreated, HistoryError> {
    match event.decode()? {
        Event::Link(LinkEvent::Created(created)) => Ok(created),
        Event::Link(_) | Event::Account(_) | Event::Credits(_) => Err(HistoryError::NoState {
            version: event.version,
        }),
    }
}

/// Link right after one of its events, without the members that never change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkAfter {
    state: LinkState,
}

impl LinkAfter {
    /// Returns the link after an event, which keeps the state in its metadata or is the creation; `created`
    /// is the creation of the link.
    ///
    /// # Errors
    /// Returns [`HistoryError`] if a later release wrote the event, or the event is not of a link.
    pub fn of(event: &RecordedEvent, created: &LinkCreated) -> Result<Self, HistoryError> {
        let state = match event.decode()? {
            Event::Link(LinkEvent::Created(_)) => Some(LinkState::new(created)),
            Event::Link(_) => event.metadata.link.clone(),
            Event::Account(_) | Event::Credits(_) => None,
        };
        state
            .map(|state| Self { state })
            .ok_or(HistoryError::NoState {
                version: event.version,
            })
    }

    /// Returns the whole link, given its first event.
    pub fn with_beginning(self, created: LinkCreated, version: i64) -> ExistingLink {
        ExistingLink {
            created,
            version,
            state: self.state,
        }
    }

    /// Returns true if the link is deleted.
    pub fn is_deleted(&self) -> bool {
        self.state.deleted
    }

    /// Returns each member that the event changed, with its values before and after. Without a state
    /// before, the event created the link: each member that is set changed from null.
    pub fn changes_since(&self, before: Option<&Self>) -> Map<String, Value> {
        let Some(before) = before else {
            let set = self
                .members()
                .into_iter()
                .filter(|(_, value)| is_set(value));
            return set
                .map(|(name, to)| change(name, &Value::Null, &to))
                .collect();
        };
        let pairs = before.members().into_iter().zip(self.members());
        pairs
            .filter(|((_, from), (_, to))| from != to)
            .map(|((name, from), (_, to))| change(name, &from, &to))
            .collect()
    }

    /// Returns the members that can change, by the names of the API. A member that has no value is null.
    fn members(&self) -> [(&'static str, Value); 9] {
        // Without `..`: the compiler names a member that the history lacks.
        let LinkState {
            destination_url,
            disabled: _,
            disabled_by_owner: _,
            deleted,
            details,
        } = &self.state;
        let disabled_by = self.state.disabled_by();
        let LinkDetails {
            title,
            external_id,
            tags,
            expires_at,
            expired_url,
        } = details.as_ref().unwrap_or(&LinkDetails::NONE);
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
    use super::*;

    fn after(destination_url: &str, disabled: bool, deleted: bool) -> LinkAfter {
        let state = LinkState {
            destination_url: destination_url.to_owned(),
            disabled,
            disabled_by_owner: false,
            deleted,
            details: None,
        };
        LinkAfter { state }
    }

    #[test]
    fn changed_details_have_values_before_and_after() {
        let with_title = |title: Option<&str>| {
            let mut link = after("https://a.example/", false, false);
            link.state.details = Some(LinkDetails {
                title: title.map(str::to_owned),
                ..LinkDetails::NONE
            });
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
            assert_eq!(Value::Object(link.changes_since(Some(before))), expected);
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
            assert_eq!(Value::Object(link.changes_since(before)), expected);
        }
    }
}
