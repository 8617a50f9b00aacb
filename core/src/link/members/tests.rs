//! Bodies of creates and changes: values that are accepted, and the errors of the others.

use super::*;
use crate::{field::ERRORS_MAX, link::tag::TAGS_MAX};

fn errors(body: &str) -> Vec<(String, &'static str)> {
    let object = JsonObject::parse(body.as_bytes()).unwrap();
    let errors = parse_new_link(&object, &DestinationRules::default())
        .err()
        .unwrap_or_default();
    errors
        .into_iter()
        .map(|error| (error.pointer, error.code.as_str()))
        .collect()
}

#[test]
fn a_slug_is_optional_and_a_destination_is_not() {
    assert_eq!(errors(r#"{"destination_url":"https://example.com"}"#), []);
    assert_eq!(errors("{}"), [("#/destination_url".to_owned(), "required")]);
}

#[test]
fn all_member_errors_are_reported() {
    let body = r#"{"destination_url":"ftp://x","slug":"a b","Slug":"x","id":null}"#;
    let expected = [
        ("#/Slug", "unknown_field"),
        ("#/destination_url", "url_scheme_not_allowed"),
        ("#/id", "unknown_field"),
        ("#/slug", "slug_invalid_character"),
    ];
    assert_eq!(
        errors(body),
        expected.map(|(pointer, code)| (pointer.to_owned(), code))
    );
}

#[test]
fn errors_of_known_members_are_kept() {
    let object = |names: &dyn Fn(usize) -> String, rest: &str| {
        let many: Vec<String> = (0..1_500).map(|n| format!("\"{}\":1", names(n))).collect();
        JsonObject::parse(format!("{{{}{rest}}}", many.join(",")).as_bytes()).unwrap()
    };
    let rules = DestinationRules::default();
    let body = object(&|n| format!("a{n}"), r#","slug":"""#);
    let errors = parse_new_link(&body, &rules).unwrap_err();
    assert_eq!(errors.len(), ERRORS_MAX);
    let known = [
        FieldError::of_member(DESTINATION_URL, FieldCode::Required),
        FieldError::of_member(SLUG, FieldCode::SlugTooShort),
    ];
    assert_eq!(errors[ERRORS_MAX - 2..], known);

    let body = object(&|n| format!("credits_{n}"), r#","destination_url":null"#);
    let errors = parse_patch(&body, &rules).unwrap_err();
    assert_eq!(errors.len(), ERRORS_MAX);
    let last = FieldError::of_member(DESTINATION_URL, FieldCode::NullNotAllowed);
    assert_eq!(errors[ERRORS_MAX - 1], last);
}

#[test]
fn wrong_type_differs_from_null() {
    let body = r#"{"destination_url":["https://example.com"],"slug":null}"#;
    let expected = [
        ("#/destination_url", "wrong_type"),
        ("#/slug", "null_not_allowed"),
    ];
    assert_eq!(
        errors(body),
        expected.map(|(pointer, code)| (pointer.to_owned(), code))
    );
}

fn patch(body: &str) -> Result<Option<String>, Vec<(String, &'static str)>> {
    let object = JsonObject::parse(body.as_bytes()).unwrap();
    let shown = |error: FieldError| (error.pointer, error.code.as_str());
    parse_patch(&object, &DestinationRules::default())
        .map(|patch| patch.destination.map(|it| it.as_str().to_owned()))
        .map_err(|errors| errors.into_iter().map(shown).collect())
}

#[test]
fn an_empty_patch_changes_nothing() {
    assert_eq!(patch("{}"), Ok(None));
}

#[test]
fn a_destination_is_kept_in_its_serialised_form() {
    let patched = patch(r#"{"destination_url":"HTTPS://example.com"}"#);
    assert_eq!(patched, Ok(Some("https://example.com/".to_owned())));
}

#[test]
fn immutable_member_differs_from_unknown_member() {
    let body = r#"{"id":null,"slug":"x","short_url":1,"created_at":"","credits_charged":1,
        "credits_balance":1,"credits_":1,"Slug":"x","destination_url":null,"notes":"x"}"#;
    let expected = [
        ("#/Slug", "unknown_field"),
        ("#/created_at", "field_not_mutable"),
        ("#/credits_", "field_not_mutable"),
        ("#/credits_balance", "field_not_mutable"),
        ("#/credits_charged", "field_not_mutable"),
        ("#/destination_url", "null_not_allowed"),
        ("#/id", "field_not_mutable"),
        ("#/notes", "unknown_field"),
        ("#/short_url", "field_not_mutable"),
        ("#/slug", "field_not_mutable"),
    ];
    let expected = expected.map(|(pointer, code)| (pointer.to_owned(), code));
    assert_eq!(patch(body), Err(expected.to_vec()));
}

/// Values of a detail that a create refuses, with the pointer and the code of the error.
const REFUSED: &[(&str, &str, &str)] = &[
    (r#""title":"""#, "#/title", "title_invalid"),
    (r#""title":"a\u0000b""#, "#/title", "title_invalid"),
    (r#""title":"a\u0085b""#, "#/title", "title_invalid"),
    (r#""title":null"#, "#/title", "null_not_allowed"),
    (r#""title":["a"]"#, "#/title", "wrong_type"),
    (
        r#""external_id":"""#,
        "#/external_id",
        "external_id_invalid",
    ),
    (
        r#""external_id":"a b""#,
        "#/external_id",
        "external_id_invalid",
    ),
    (
        r#""external_id":"\u00e4""#,
        "#/external_id",
        "external_id_invalid",
    ),
    (r#""external_id":7"#, "#/external_id", "wrong_type"),
    (r#""tags":"a""#, "#/tags", "wrong_type"),
    (r#""tags":null"#, "#/tags", "null_not_allowed"),
    (r#""tags":["A,b"]"#, "#/tags/0", "tag_invalid"),
    (r#""tags":["a",""]"#, "#/tags/1", "tag_invalid"),
    (r#""tags":["-a"]"#, "#/tags/0", "tag_invalid"),
    (r#""tags":[1]"#, "#/tags/0", "wrong_type"),
    (
        r#""expires_at":"2099-01-01""#,
        "#/expires_at",
        "expires_at_invalid",
    ),
    (
        r#""expires_at":"2099-01-01T00:00:00""#,
        "#/expires_at",
        "expires_at_invalid",
    ),
    (r#""expires_at":4102444800"#, "#/expires_at", "wrong_type"),
];

fn with_detail(detail: &str) -> String {
    format!(r#"{{"destination_url":"https://example.com",{detail}}}"#)
}

#[test]
fn invalid_detail_is_reported_by_its_pointer() {
    for (detail, pointer, code) in REFUSED {
        let expected = [((*pointer).to_owned(), *code)];
        assert_eq!(errors(&with_detail(detail)), expected, "{detail}");
    }
    let many: Vec<String> = (0..=TAGS_MAX).map(|tag| format!("\"{tag}\"")).collect();
    let many = with_detail(&format!(r#""tags":[{}]"#, many.join(",")));
    assert_eq!(errors(&many), [("#/tags".to_owned(), "too_many_tags")]);
    let same: Vec<&str> = (0..=TAGS_MAX)
        .map(|tag| ["\"VIP\"", "\" vip \""][tag % 2])
        .collect();
    assert_eq!(
        errors(&with_detail(&format!(r#""tags":[{}]"#, same.join(",")))),
        []
    );
    let alone = with_detail(r#""expired_url":"https://example.com""#);
    let code = "expired_url_without_expires_at";
    assert_eq!(errors(&alone), [("#/expired_url".to_owned(), code)]);
}

#[test]
fn wrong_type_names_member_and_type() {
    for (detail, expected) in [
        (r#""title":["a"]"#, "The member title must be a string."),
        (
            r#""tags":"a""#,
            "The member tags must be an array of strings.",
        ),
        (r#""tags":["a",1]"#, "The member tags/1 must be a string."),
        (
            r#""disabled":"yes""#,
            "The member disabled must be true or false.",
        ),
    ] {
        let body = format!("{{{detail}}}");
        let object = JsonObject::parse(body.as_bytes()).unwrap();
        let errors = parse_patch(&object, &DestinationRules::default()).unwrap_err();
        assert_eq!(errors[0].detail(), expected);
    }
}

#[test]
fn longest_details_are_kept_byte_for_byte() {
    let title = "\u{1f600}".repeat(200);
    let body = with_detail(&format!(r#""title":"{title}","tags":[]"#));
    let object = JsonObject::parse(body.as_bytes()).unwrap();
    let details = parse_new_link(&object, &DestinationRules::default())
        .unwrap()
        .details;
    assert_eq!(details.title.as_deref(), Some(&*title));
    assert_eq!(details.tags, None);
    for (name, longest) in [("title", 200), ("external_id", 128)] {
        let of = |length: usize| with_detail(&format!(r#""{name}":"{}""#, "a".repeat(length)));
        assert_eq!(errors(&of(longest)), []);
        assert_eq!(errors(&of(longest + 1)).len(), 1);
    }
}
