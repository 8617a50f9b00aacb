//! What must hold for every input from outside, whatever it is: one property for each of its
//! readers. `cargo test` tries the seeds in `core/fuzz/corpus` and changed copies of them;
//! `core/fuzz` looks for inputs that take other ways through the code.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

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

/// Whether the input was accepted; panics if that breaks a promise.
pub(crate) type Property = fn(&[u8]) -> bool;

/// By the name of their corpus, in its order.
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
