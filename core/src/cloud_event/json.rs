//! An event as one JSON object: the JSON event format of `CloudEvents` 1.0.
//!
//! The attributes equal the record's headers, named without the prefix; the payload is the same.

use serde::{Serializer as _, ser::SerializeMap as _};
use serde_json::value::RawValue;

use super::{CONTENT_TYPE, PREFIX, PublishedEvent};

/// Attribute: media type of the payload. In a record, the header `content-type`.
const DATA_CONTENT_TYPE: &str = "datacontenttype";

/// Returns the event in the JSON event format, on one line.
///
/// Every attribute is a string, as in a record's headers; `data` is the payload.
///
/// # Errors
/// Returns an error if the payload is not JSON.
pub(super) fn to_json(event: &PublishedEvent) -> serde_json::Result<String> {
    let headers = event.headers();
    let payload = on_one_line(&event.event.payload);
    let data: &RawValue = serde_json::from_str(&payload)?;
    let mut json = Vec::new();
    let mut writer = serde_json::Serializer::new(&mut json);
    let mut object = writer.serialize_map(None)?;
    for (header, value) in &headers {
        let name = match *header {
            CONTENT_TYPE => DATA_CONTENT_TYPE,
            header => header
                .strip_prefix(PREFIX)
                .expect("every other header is an attribute"),
        };
        object.serialize_entry(name, value)?;
    }
    object.serialize_entry("data", data)?;
    object.end()?;
    Ok(String::from_utf8(json).expect("serde_json writes UTF-8"))
}

/// Replaces line breaks by spaces. JSON has line breaks only between tokens, never in a string.
fn on_one_line(payload: &str) -> std::borrow::Cow<'_, str> {
    if payload.contains(['\r', '\n']) {
        payload.replace(['\r', '\n'], " ").into()
    } else {
        payload.into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::published;

    #[test]
    fn json_format_has_attributes_and_data() {
        let mut event = published(2);
        event.event.payload = r#"{"amount":1,"reason":"\u00fc \n"}"#.to_owned();
        let expected = r#"{"datacontenttype":"application/json","specversion":"1.0","id":"evt_00000000000000000000000009","source":"/linkledger/shards/3","type":"linkledger.CreditsCharged.v1","subject":"acc_00000000000000000000000002","time":"2026-11-20T09:51:00.123Z","dataschema":"urn:linkledger:schema:CreditsCharged:v1","partitionkey":"acc_00000000000000000000000002","sequence":"00000000000000000042","logepoch":"1","streamversion":"7","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","data":{"amount":1,"reason":"\u00fc \n"}}"#;
        assert_eq!(event.to_json().unwrap(), expected);
    }

    #[test]
    fn multiline_payload_becomes_one_line() {
        let mut event = published(5);
        event.event.payload = "\n{\r\n  \"amount\": 1\n}\n".to_owned();
        let json = event.to_json().unwrap();
        assert!(!json.contains(['\r', '\n']), "{json}");
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["data"]["amount"], 1);
    }

    #[test]
    fn payload_that_is_not_json_is_refused() {
        for payload in ["", "{", "{} {}", "{\"a\":\n"] {
            let mut event = published(2);
            event.event.payload = payload.to_owned();
            assert!(event.to_json().is_err(), "{payload}");
        }
    }
}
