//! Stored events; the input is the name of the type, the version and, on further lines, the
//! payload.

use linkledger_core::event::Event;

/// An event that is read can be written, and is then read as the same event.
pub(crate) fn property(input: &[u8]) -> bool {
    let stored = std::str::from_utf8(input).ok().and_then(|text| {
        let (head, payload) = text.split_once('\n')?;
        let (event_type, schema_version) = head.split_once(' ')?;
        Some((event_type, schema_version.parse().ok()?, payload))
    });
    let Some((event_type, schema_version, payload)) = stored else {
        return false;
    };
    let Ok(event) = Event::from_stored(event_type, schema_version, payload) else {
        return false;
    };
    assert_eq!(event.event_type(), event_type);
    assert!(schema_version <= event.schema_version());
    let written = event.to_payload();
    let again = Event::from_stored(event_type, event.schema_version(), &written).unwrap();
    assert_eq!(again, event);
    assert_eq!(again.to_payload(), written);
    true
}

#[test]
fn stored_event_round_trips() {
    super::seeds::explore("event", property);
}
