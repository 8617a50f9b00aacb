//! Who a request is: its id and its trace, without a block of memory for either.

use std::ops::Range;

use axum::http::{HeaderMap, HeaderName};

use super::single;
use crate::clock::random_bytes;

/// The header under which a trace comes in (W3C Trace Context).
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Where the ids stand in a `traceparent`.
const TRACE_ID: Range<usize> = 3..35;
const SPAN_ID: Range<usize> = 36..52;
const FLAGS: Range<usize> = 53..55;
const TRACEPARENT_LENGTH: usize = 55;
const HEX: &[u8; 16] = b"0123456789abcdef";
/// Crockford's base32 in lower case.
const ID_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const ID_PREFIX: &[u8; 4] = b"req_";
const ID_LENGTH: usize = 24;
/// As many as an id needs, and a trace with its first span.
const RANDOM_LENGTH: usize = ID_LENGTH - ID_PREFIX.len() + 24;

/// Identity of one request, made by us whatever the caller sends.
#[derive(Debug, Clone, Copy)]
pub struct RequestContext {
    request_id: [u8; ID_LENGTH],
    traceparent: [u8; TRACEPARENT_LENGTH],
    /// Whether it is the caller's.
    pub(in crate::http) continues_trace: bool,
}

impl RequestContext {
    /// The identity of a request with these headers.
    pub fn of(headers: &HeaderMap) -> Self {
        let random: [u8; RANDOM_LENGTH] = random_bytes();
        let (for_id, for_trace) = random.split_at(ID_LENGTH - ID_PREFIX.len());
        let given = single(headers, &TRACEPARENT).and_then(well_formed);
        let mut request_id = [0; ID_LENGTH];
        let (prefix, characters) = request_id.split_at_mut(ID_PREFIX.len());
        prefix.copy_from_slice(ID_PREFIX);
        for (character, byte) in characters.iter_mut().zip(for_id) {
            // 256 is a multiple of the alphabet's size: each is as likely.
            *character = ID_ALPHABET[usize::from(byte % 32)];
        }
        Self {
            request_id,
            traceparent: given.unwrap_or_else(|| new_traceparent(for_trace)),
            continues_trace: given.is_some(),
        }
    }

    /// Sent back as `X-Request-Id`.
    pub fn request_id(&self) -> &str {
        text(&self.request_id)
    }

    /// The caller's trace context if it is well-formed, else one of our own.
    pub fn traceparent(&self) -> &str {
        text(&self.traceparent)
    }

    /// The trace that the request belongs to, for logs.
    pub fn trace_id(&self) -> &str {
        text(&self.traceparent[TRACE_ID])
    }

    /// What the request causes is caused by this span.
    pub(in crate::http) fn continue_from(&mut self, trace_id: &str, span_id: &str, flags: &str) {
        for (place, part) in [(TRACE_ID, trace_id), (SPAN_ID, span_id), (FLAGS, flags)] {
            self.traceparent[place].copy_from_slice(part.as_bytes());
        }
    }
}

fn text(ascii: &[u8]) -> &str {
    std::str::from_utf8(ascii).expect("letters, digits and signs")
}

fn new_traceparent(random: &[u8]) -> [u8; TRACEPARENT_LENGTH] {
    let mut traceparent = *b"00-00000000000000000000000000000000-0000000000000000-01";
    let places = TRACE_ID.chain(SPAN_ID).step_by(2);
    for (place, byte) in places.zip(random) {
        traceparent[place] = HEX[usize::from(byte >> 4)];
        traceparent[place + 1] = HEX[usize::from(byte & 15)];
    }
    traceparent
}

/// Version 00 only, lower case, no zero ids.
fn well_formed(value: &str) -> Option<[u8; TRACEPARENT_LENGTH]> {
    let value: [u8; TRACEPARENT_LENGTH] = value.as_bytes().try_into().ok()?;
    let is_hex = |place: Range<usize>| value[place].iter().all(|byte| HEX.contains(byte));
    let is_id = |place: Range<usize>| {
        is_hex(place.clone()) && value[place].iter().any(|byte| *byte != b'0')
    };
    let has_signs = value.starts_with(b"00-") && value[35] == b'-' && value[52] == b'-';
    (has_signs && is_id(TRACE_ID) && is_id(SPAN_ID) && is_hex(FLAGS)).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::tests::headers;

    #[test]
    fn a_well_formed_trace_is_continued_and_any_other_replaced() {
        let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = RequestContext::of(&headers(&[(TRACEPARENT, given)]));
        assert_eq!(context.traceparent(), given);
        for bad in [
            "",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-0af7651916cd43dd8448eb211c80319c0b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
        ] {
            let context = RequestContext::of(&headers(&[(TRACEPARENT, bad)]));
            assert_ne!(context.traceparent(), bad);
            assert!(well_formed(context.traceparent()).is_some(), "{context:?}");
        }
    }

    #[test]
    fn ids_are_of_their_alphabet_and_no_two_are_the_same() {
        let [one, other] = [(); 2].map(|()| RequestContext::of(&HeaderMap::new()));
        assert_ne!(one.request_id(), other.request_id());
        assert_ne!(one.trace_id(), other.trace_id());
        let characters = one.request_id().strip_prefix("req_").unwrap();
        assert_eq!(characters.len(), 20);
        assert!(characters.bytes().all(|it| ID_ALPHABET.contains(&it)));
    }

    #[test]
    fn a_span_takes_the_place_of_the_caller() {
        let mut context = RequestContext::of(&HeaderMap::new());
        context.continue_from("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00");
        let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        assert_eq!(context.traceparent(), traceparent);
    }
}
