//! Entity tags, and whether a caller has the current one (RFC 9110, 8.8.3 and 13.1.2).

use axum::http::{HeaderMap, header::IF_NONE_MATCH};

/// The strong entity tag of that version of a resource.
pub(crate) fn of_version(version: i64) -> String {
    format!("\"{version}\"")
}

/// Whether `If-None-Match` names this tag, compared weakly. What is malformed names nothing: the
/// caller then gets the whole answer.
pub(crate) fn none_match_fails(headers: &HeaderMap, current: &str) -> bool {
    headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|list| names(list, current))
}

fn names(list: &str, current: &str) -> bool {
    if list.trim_matches(is_space) == "*" {
        return true;
    }
    let mut rest = list;
    loop {
        rest = rest.trim_start_matches(|c| is_space(c) || c == ',');
        // Weak comparison: whether a tag calls itself weak doesn't matter.
        let opaque = rest.strip_prefix("W/").unwrap_or(rest);
        let Some(length) = opaque
            .strip_prefix('"')
            .and_then(|opaque| opaque.find('"'))
            .map(|length| length + 2)
        else {
            return false;
        };
        let (tag, after) = opaque.split_at(length);
        if tag == current {
            return true;
        }
        rest = after;
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn fails(values: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IF_NONE_MATCH, HeaderValue::from_str(value).unwrap());
        }
        none_match_fails(&headers, &of_version(7))
    }

    #[test]
    fn the_current_tag_is_found_wherever_it_stands() {
        for value in [
            "\"7\"",
            "W/\"7\"",
            "*",
            " * ",
            "\"6\", \"7\"",
            "\"6\",W/\"7\" ,\"8\"",
            ",, \"7\"",
            "\"a,b\", \"7\"",
            "\"\", \"7\"",
        ] {
            assert!(fails(&[value]), "{value}");
        }
        assert!(fails(&["\"6\"", "\"7\""]));
    }

    #[test]
    fn any_other_tag_and_malformed_ones_are_not_the_current_one() {
        for value in [
            "",
            "7",
            "\"7",
            "\"77\"",
            "\"6\"",
            "\" 7\"",
            "w/\"7\"",
            "W/ \"7\"",
            "\"6\", *",
            "'7'",
            "\"6,\"7\"\"",
            "x, \"7\"",
        ] {
            assert!(!fails(&[value]), "{value}");
        }
        assert!(!fails(&[]));
    }
}
