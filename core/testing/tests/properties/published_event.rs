//! Records of the topic; the input has a header on each line, an empty line and the payload.

use linkledger_core::{
    cloud_event::{Headers, PublishedEvent, RecordError},
    envelope::RecordedEvent,
    shard::Shard,
};

/// An event that is read has a valid position, can be published again, and is then read as the same
/// event, with millisecond precision.
pub(crate) fn property(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else {
        return false;
    };
    let (head, payload) = text.split_once("\n\n").unwrap_or((text, ""));
    let headers = head.lines().filter_map(|line| line.split_once(": "));
    let Ok(published) = read(&headers.collect(), payload) else {
        return false;
    };
    let event = &published.event;
    assert!(event.position >= 1 && event.version >= 1 && published.log_epoch >= 1);
    assert_eq!(event.payload, payload);
    let written = published.headers();
    let headers = written.iter().map(|(name, value)| (*name, value.as_str()));
    let again = read(&headers.collect(), payload).unwrap();
    assert_eq!(again.headers(), written);
    let recorded_at = again.event.recorded_at;
    assert!((event.recorded_at - recorded_at).abs().whole_milliseconds() == 0);
    let event = RecordedEvent {
        recorded_at,
        ..published.event
    };
    assert_eq!(again.event, event);
    true
}

fn read(headers: &Headers<'_>, payload: &str) -> Result<PublishedEvent, RecordError> {
    let shard = Shard::new(3).unwrap();
    PublishedEvent::from_record(shard, headers, payload.to_owned())
}

#[test]
fn published_event_round_trips() {
    super::seeds::explore("published_event", property);
}
