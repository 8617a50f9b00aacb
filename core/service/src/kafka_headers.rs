//! Headers of a record, as a producer wants them.

use rdkafka::message::{Header, OwnedHeaders};

/// Returns the headers with these names and values, in their order.
pub fn kafka_headers<'a>(
    headers: impl IntoIterator<Item = (&'a str, impl AsRef<str>)>,
) -> OwnedHeaders {
    let empty = OwnedHeaders::new();
    headers.into_iter().fold(empty, |headers, (key, value)| {
        let value = Some(value.as_ref());
        headers.insert(Header { key, value })
    })
}
