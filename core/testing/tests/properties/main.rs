//! Properties that hold for every external input: one property for each parser. `cargo test` tries
//! the seeds in `core/fuzz/corpus` and mutated copies of them; `core/fuzz` searches for inputs that
//! take other paths through the code.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod api_key;
mod consistency_token;
mod cursor;
mod destination;
mod entity_tag;
mod event;
mod idempotency_key;
mod json;
mod merge_patch;
mod published_event;
mod query;
mod slug;

#[cfg(test)]
mod seeds;

/// Returns true if the input was accepted. Panics if the property is violated.
pub(crate) type Property = fn(&[u8]) -> bool;

/// All properties, by the name of their corpus, sorted by name.
pub(crate) const PROPERTIES: [(&str, Property); 12] = [
    ("api_key", api_key::property),
    ("consistency_token", consistency_token::property),
    ("cursor", cursor::property),
    ("destination", destination::property),
    ("entity_tag", entity_tag::property),
    ("event", event::property),
    ("idempotency_key", idempotency_key::property),
    ("json", json::property),
    ("merge_patch", merge_patch::property),
    ("published_event", published_event::property),
    ("query", query::property),
    ("slug", slug::property),
];
