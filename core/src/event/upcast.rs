//! Upcasters: pure functions from the stored form of one version to that of the next.
//!
//! Applied when an event is read; what is stored, and published, stays as it was written.

use std::borrow::Cow;

/// One step, for events of one type.
pub(super) struct Upcaster {
    pub(super) event_type: &'static str,
    /// The version that it reads; what it writes is one higher.
    pub(super) from: i16,
    /// From payload to payload.
    pub(super) upcast: fn(&str) -> serde_json::Result<String>,
}

/// None: every event is in its first version.
pub(super) const UPCASTERS: &[Upcaster] = &[];

/// The payload as far as the upcasters lead, and the version that it then has.
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
