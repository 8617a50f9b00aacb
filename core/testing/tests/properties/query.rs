//! Query parameters.

use axum::http::Uri;
use linkledger_http::request::query_parameters;
use url::form_urlencoded;

/// An accepted query means the same to a lenient parser; a refused query was repaired by the
/// lenient parser.
pub(crate) fn property(input: &[u8]) -> bool {
    let text = std::str::from_utf8(input).ok();
    let Some(uri) = text.and_then(|text| format!("/v1/links?{text}").parse::<Uri>().ok()) else {
        return false;
    };
    let query = uri.query().unwrap_or_default();
    let lenient: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    let parameters: Vec<_> = query_parameters(&uri).collect();
    assert_eq!(parameters.len(), lenient.len(), "{query}");
    let sent = query.split('&').filter(|parameter| !parameter.is_empty());
    let mut is_accepted = true;
    for ((parameter, lenient), sent) in parameters.into_iter().zip(lenient).zip(sent) {
        match parameter {
            Ok(parameter) => {
                assert_eq!(parameter, lenient, "{query}");
                // The character that a repair leaves may be intended.
                let is_meant =
                    sent.contains('\u{fffd}') || sent.to_ascii_lowercase().contains("%ef%bf%bd");
                assert!(is_meant || !is_repaired(sent, &parameter), "{query}");
            }
            Err(refused) => {
                assert!(is_repaired(sent, &lenient), "{query}");
                assert!(sent.starts_with(&refused.name) && refused.name.chars().count() <= 64);
                is_accepted = false;
            }
        }
    }
    is_accepted
}

/// Returns true if decoding repaired an invalid encoding, or met U+0000.
fn is_repaired(sent: &str, (name, value): &(String, String)) -> bool {
    let is_cut = |rest: &str| {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        digits < 2
    };
    sent.split('%').skip(1).any(is_cut)
        || [name, value]
            .iter()
            .any(|text| text.contains(['\0', '\u{fffd}']))
}

#[test]
fn accepted_text_equals_lenient_parse() {
    super::seeds::explore("query", property);
}
