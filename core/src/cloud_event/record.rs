//! Reads an event from a Kafka record.

use super::{HEADERS_MAX, LINK_STATE, LOG_EPOCH, MAC, PublishedEvent, SEQUENCE, TYPE_PREFIX};
use crate::{
    envelope::{Metadata, RecordedEvent},
    event::Subject,
    id::{AccountId, EventId},
    shard::{Position, Shard},
    timestamp,
};

/// Refusal of a record that linkledger did not write, or that is damaged; names the header.
#[derive(Debug, thiserror::Error)]
#[error("the record's header `{0}` is missing or malformed")]
pub struct RecordError(&'static str);

/// Headers of a record. A linear search: for a dozen headers, hashing costs more than comparing.
#[derive(Debug, Clone)]
pub struct Headers<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Headers<'a> {
    /// Returns the value of the header with this name. If several have the name, the last counts.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        let found = self.0.iter().rfind(|(key, _)| *key == name);
        found.map(|(_, value)| *value)
    }

    /// Returns names and values in the order of the record.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().copied()
    }

    /// Returns true if the record has a message authentication code.
    pub fn has_mac(&self) -> bool {
        self.get(MAC).is_some()
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Headers<'a> {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(headers: I) -> Self {
        let mut all = Vec::with_capacity(HEADERS_MAX);
        all.extend(headers);
        Self(all)
    }
}

impl PublishedEvent {
    /// Reads the event of a record from `shard`'s partition.
    ///
    /// # Errors
    /// Returns [`RecordError`] for the first header that is missing or malformed.
    pub fn from_record(
        shard: Shard,
        headers: &Headers<'_>,
        payload: String,
    ) -> Result<Self, RecordError> {
        let get = |name| headers.get(name).ok_or(RecordError(name));
        let account_id: AccountId = parsed("ce_partitionkey", get("ce_partitionkey")?)?;
        let (event_type, schema_version) = get("ce_type")?
            .strip_prefix(TYPE_PREFIX)
            .and_then(|name| name.rsplit_once(".v"))
            .ok_or(RecordError("ce_type"))?;
        let recorded_at = timestamp::parse(get("ce_time")?).ok_or(RecordError("ce_time"))?;
        let link = headers.get(LINK_STATE).map(serde_json::from_str);
        let link = link.transpose();
        let link = link.map_err(|_| RecordError(LINK_STATE))?;
        let event = RecordedEvent {
            shard,
            position: counted::<Position>(SEQUENCE, get(SEQUENCE)?)?,
            stream_id: parsed::<Subject>("ce_subject", get("ce_subject")?)?.stream_id(),
            version: counted("ce_streamversion", get("ce_streamversion")?)?,
            account_id,
            event_id: parsed::<EventId>("ce_id", get("ce_id")?)?,
            event_type: event_type.to_owned(),
            schema_version: counted("ce_type", schema_version)?,
            payload,
            metadata: Metadata {
                traceparent: headers.get("ce_traceparent").map(str::to_owned),
                link,
                ..Metadata::default()
            },
            recorded_at,
        };
        let mac = headers.get(MAC).map(|mac| parsed(MAC, mac)).transpose()?;
        Ok(Self {
            event,
            log_epoch: counted(LOG_EPOCH, get(LOG_EPOCH)?)?,
            mac,
        })
    }
}

fn parsed<T: std::str::FromStr>(name: &'static str, text: &str) -> Result<T, RecordError> {
    text.parse().map_err(|_| RecordError(name))
}

/// Parses a number that is at least 1.
fn counted<T>(name: &'static str, text: &str) -> Result<T, RecordError>
where
    T: std::str::FromStr + PartialOrd + From<u8>,
{
    let number = text.parse().ok().filter(|number| *number >= T::from(1));
    number.ok_or(RecordError(name))
}
