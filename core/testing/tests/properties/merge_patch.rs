//! Merge patches of links (RFC 7396).

use std::collections::BTreeSet;

use linkledger_core::{
    json::JsonObject,
    link::{
        Destination, DestinationRules,
        members::{
            DESTINATION_URL, EXPIRED_URL, EXPIRES_AT, EXTERNAL_ID, TAGS, TITLE, parse_patch,
        },
    },
};

const ERRORS_MAX: usize = 100;

/// Details, each valid or invalid by rules of its own.
const DETAILS: &[&str] = &[TITLE, EXTERNAL_ID, TAGS, EXPIRES_AT, EXPIRED_URL];

/// A patch is accepted as a whole or refused with one error for each invalid member, or each invalid
/// tag, ordered by pointer; each pointer leads to its member.
pub(crate) fn property(input: &[u8]) -> bool {
    let Ok(object) = JsonObject::parse(input) else {
        return false;
    };
    let rules = DestinationRules::default();
    let members = object.members();
    let parsed = members.get(DESTINATION_URL).map(|value| {
        let text = value.as_str()?;
        Destination::parse(text, &rules).ok()
    });
    let is_detail = |name: &str| DETAILS.contains(&name);
    let is_wrong =
        |name: &&String| !is_detail(name) && (*name != DESTINATION_URL || parsed == Some(None));
    let wrong: BTreeSet<&String> = members.keys().filter(is_wrong).collect();
    let errors = match parse_patch(&object, &rules) {
        Ok(patch) => {
            assert!(wrong.is_empty());
            assert_eq!(patch.destination, parsed.flatten());
            return true;
        }
        Err(errors) => errors,
    };
    let pointers: Vec<&str> = errors.iter().map(|error| &*error.pointer).collect();
    assert!(pointers.is_sorted_by(|a, b| a < b), "{pointers:?}");
    assert!(pointers.len() <= ERRORS_MAX);
    let named: BTreeSet<String> = pointers.into_iter().map(member_of).collect();
    let (of_details, named): (BTreeSet<_>, BTreeSet<_>) = named.into_iter().partition(|name| {
        let (name, _) = name.split_once('/').unwrap_or((name, ""));
        is_detail(name) && members.contains_key(name)
    });
    assert!(named.iter().all(|name| wrong.contains(name)), "{named:?}");
    let room = ERRORS_MAX - of_details.len();
    assert_eq!(named.len(), wrong.len().min(room));
    let errors_again = parse_patch(&object, &rules).unwrap_err();
    assert_eq!(errors_again, errors);
    false
}

/// Returns the member's name in a pointer that is a fragment of an address (RFC 6901, 6).
fn member_of(pointer: &str) -> String {
    let escaped = pointer.strip_prefix("#/").unwrap();
    let mut parts = escaped.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    let name = String::from_utf8(bytes).unwrap();
    name.replace("~1", "/").replace("~0", "~")
}

#[test]
fn patch_errors_point_to_their_members() {
    super::seeds::explore("merge_patch", property);
}
