//! All headers of answers. Responses refer to these definitions by name.

use std::collections::BTreeMap;

use serde_json::json;
use utoipa::openapi::{
    Header, HeaderBuilder, Object, ObjectBuilder, RefOr, Type, extensions::Extensions,
};

/// Returns all headers, by name.
pub(super) fn all() -> BTreeMap<String, RefOr<Header>> {
    always_there()
        .into_iter()
        .chain(sometimes_there())
        .collect()
}

/// Headers that are present whenever the document lists them.
fn always_there() -> [(String, RefOr<Header>); 4] {
    [
        required(
            "X-Request-Id",
            "Id of the request, also in the service's log.",
            text("^req_[0-9a-hjkmnp-tv-z]{20}$", "req_9hqs7mz1e0vxk3b5c8d2"),
        ),
        required(
            "ETag",
            "Version of the link, for `If-Match` and `If-None-Match`.",
            text("^\"[1-9][0-9]*\"$", "\"1\""),
        ),
        required(
            "Location",
            "Path of the link.",
            text(
                "^/v1/links/lnk_[0-7][0-9a-hjkmnp-tv-z]{25}$",
                "/v1/links/lnk_01h455vb4pex5vsknk084sn02q",
            ),
        ),
        required(
            "Consistency-Token",
            "Token for reads: a read or list that is sent with this token reflects this write.",
            text("^[A-Za-z0-9_-]+$", "AQAAAAEAAAAAAAAAAtYX9kJ0bQ8x"),
        ),
    ]
}

/// Headers that may be absent although the document lists them.
fn sometimes_there() -> [(String, RefOr<Header>); 6] {
    [
        optional(
            "WWW-Authenticate",
            "Authentication scheme, and the reason of the refusal (RFC 6750).",
            text(
                "^Bearer ",
                "Bearer realm=\"linkledger\", error=\"invalid_token\"",
            ),
        ),
        optional(
            "Idempotent-Replayed",
            "`true` if this is the stored answer to an earlier request with the same key.",
            ObjectBuilder::new()
                .schema_type(Type::String)
                .enum_values(Some(["true"]))
                .build(),
        ),
        optional(
            "Link",
            "Address of the next page (RFC 8288); missing on the last page.",
            text(
                "^<.+>; rel=\"next\"$",
                "<https://api.example.com/v1/links?limit=50&cursor=…>; rel=\"next\"",
            ),
        ),
        optional(
            "RateLimit",
            "Rest of the account's limit: `r` requests remain now; the full limit is available again in `t` seconds.",
            text(
                "^\"(read|write)\";r=[0-9]+;t=[0-9]+$",
                "\"write\";r=199;t=1",
            ),
        ),
        optional(
            "RateLimit-Policy",
            "Limit of the account: `q` requests in `w` seconds. Absent if the account has no limit.",
            text(
                "^\"(read|write)\";q=[0-9]+;w=[0-9]+$",
                "\"write\";q=200;w=2",
            ),
        ),
        optional(
            "Retry-After",
            "Seconds to wait before retrying the same request.",
            ObjectBuilder::new()
                .schema_type(Type::Integer)
                .minimum(Some(1))
                .examples([json!(1)])
                .build(),
        ),
    ]
}

fn required(name: &str, description: &str, schema: Object) -> (String, RefOr<Header>) {
    let mut header = header(description, schema);
    // The type `Header` has no field `required`.
    header.extensions = Some(Extensions::from_iter([("required", true)]));
    (name.to_owned(), header.into())
}

fn optional(name: &str, description: &str, schema: Object) -> (String, RefOr<Header>) {
    (name.to_owned(), header(description, schema).into())
}

fn header(description: &str, schema: Object) -> Header {
    HeaderBuilder::new()
        .description(Some(description))
        .schema(Some(schema))
        .build()
}

fn text(pattern: &str, example: &str) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(pattern))
        .examples([json!(example)])
        .build()
}
