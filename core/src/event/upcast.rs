//! Upcasters: pure functions that convert a payload from one schema version to the next.
//!
//! Upcasters run when an event is read. The stored and published payloads stay as written.

use std::borrow::Cow;

/// One conversion step, for events of one type.
pub(super) struct Upcaster {
    pub(super) event_type: &'static str,
    /// Schema version that the step reads; the step writes the next higher version.
    pub(super) from: i16,
    /// Converts the payload.
    pub(super) upcast: fn(&str) -> serde_json::Result<String>,
}

/// No upcasters exist yet: every event has its first schema version.
pub(super) const UPCASTERS: &[Upcaster] = &[];

/// Applies all upcasters. Returns the resulting payload and its version.
pub(super) fn apply_all<'a>(
    upcasters: &[Upcaster],
    event_type: &str,
    stored_version: i16,
    stored_payload: &'a str,
) -> serde_json::Result<(i16, Cow<'a, str>)> {
    let mut version = stored_version;
    let mut payload = Cow::Borrowed(stored_payload);
    let next = |version| {
        upcasters
            .iter()
            .find(|step| step.event_type == event_type && step.from == version)
    };
    // Ends, since each step leads to a higher version.
    while let Some(step) = next(version) {
        payload = (step.upcast)(&payload)?.into();
        version += 1;
    }
    Ok((version, payload))
}
