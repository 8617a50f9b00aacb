//! An event of the feed, and the line that people read. No I/O.

use std::collections::BTreeMap;

use linkledger_core::printable::printable;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{
    links::Change,
    table::{short_time, value_text},
};

/// Width of the column of types: the length of `LinkDestinationChanged`.
const TYPE_WIDTH: usize = 22;
/// Width of the column of ids.
const ID_WIDTH: usize = 30;

/// An event as the API returns it.
#[derive(Debug, Deserialize)]
pub(super) struct FeedEvent<'a> {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) event_type: String,
    pub(super) time: String,
    #[serde(borrow)]
    pub(super) data: &'a RawValue,
}

impl FeedEvent<'_> {
    /// Returns the event as one line: time, type, id of the link, API key or webhook, and the other members of the
    /// payload except the account, which all events share.
    ///
    /// # Errors
    /// Returns an error if the payload is no JSON object, or has changes that are no objects.
    pub(super) fn line(&self) -> serde_json::Result<String> {
        let mut data: BTreeMap<String, Value> = serde_json::from_str(self.data.get())?;
        data.remove("account_id");
        let id = data.remove("link_id").or_else(|| data.remove("key_id"));
        let id = id.or_else(|| data.remove("webhook_id"));
        let id = id.as_ref().map_or_else(|| "-".to_owned(), value_text);
        let mut details = Vec::new();
        for (name, value) in data {
            if name == "changes" {
                let changes: BTreeMap<String, Change> = serde_json::from_value(value)?;
                details.extend(changes.iter().map(|(name, change)| change.text(name)));
            } else {
                details.push(format!("{name}: {}", value_text(&value)));
            }
        }
        let (time, details) = (short_time(&self.time), details.join("; "));
        let line = format!(
            "{time}  {:TYPE_WIDTH$}  {id:ID_WIDTH$}  {details}",
            self.event_type
        );
        Ok(printable(line.trim_end()).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use linkledger_core::event::CATALOGUE;
    use serde_json::json;

    use super::*;

    fn line(event_type: &str, data: &Value) -> String {
        let event = json!({
            "id": "evt_1", "type": event_type, "time": "2026-11-20T09:51:00.123Z", "sequence": 7,
            "data": data,
        });
        let event = event.to_string();
        let event: FeedEvent<'_> = serde_json::from_str(&event).unwrap();
        event.line().unwrap()
    }

    #[test]
    fn line_has_time_type_id_and_other_members() {
        let link_id = "lnk_01jd3k5x7zexrbfmv2pcg9h4ta";
        let data =
            json!({ "account_id": "acc_1", "link_id": link_id, "amount": 1, "key_id": "key_1" });
        assert_eq!(
            line("CreditsCharged", &data),
            "2026-11-20T09:51:00Z  CreditsCharged          lnk_01jd3k5x7zexrbfmv2pcg9h4ta  \
             amount: 1; key_id: key_1"
        );
        let data = json!({ "account_id": "acc_1", "name": "a\nb", "scopes": ["x"] });
        assert_eq!(
            line("AccountCreated", &data),
            "2026-11-20T09:51:00Z  AccountCreated          -                               \
             name: a\\nb; scopes: [\"x\"]"
        );
    }

    #[test]
    fn changes_show_values_before_and_after() {
        let changes =
            json!({ "title": { "from": "A", "to": "B" }, "expires_at": { "to": "2099" } });
        let data = json!({ "link_id": "lnk_1", "changes": changes });
        let line = line("LinkDetailsChanged", &data);
        assert!(
            line.ends_with("  expires_at: - -> 2099; title: A -> B"),
            "{line}"
        );
    }

    #[test]
    fn column_of_types_fits_the_longest_type() {
        let longest = CATALOGUE.iter().map(|(name, _)| name.len()).max();
        assert_eq!(longest, Some(TYPE_WIDTH));
    }
}
