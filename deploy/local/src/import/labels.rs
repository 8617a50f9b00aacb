//! Title, tags and external id of a record, fitted to the rules of the API. Visitors never see a label, so a label
//! never decides about an address: what cannot be kept is dropped, and the report says so.

use std::collections::HashSet;

use linkledger_core::link::{
    details::{TITLE_LENGTH_MAX, parse_external_id},
    parse_tag,
    tag::{TAG_LENGTH_MAX, TAGS_MAX},
};

use super::{blank::trimmed, html::decoded, record::Change};

/// Returns the title on one line, of allowed length; `None` if nothing is left.
pub(super) fn title(given: &str, is_html: bool, changes: &mut Vec<Change>) -> Option<String> {
    let text = if is_html {
        decoded(given)
    } else {
        given.into()
    };
    let mut title = String::with_capacity(text.len());
    for character in trimmed(&text).chars() {
        if !character.is_control() {
            title.push(character);
        } else if character.is_whitespace() && !title.ends_with(' ') {
            title.push(' ');
        }
    }
    if let Some((end, _)) = title.char_indices().nth(TITLE_LENGTH_MAX) {
        title.truncate(end);
    }
    let title = trimmed(&title).to_owned();
    if title.is_empty() {
        if !without_spaces(given).is_empty() {
            changes.push(Change::dropped("title", given, "no character is left"));
        }
        return None;
    }
    if title != without_spaces(given) {
        changes.push(Change::became("title", given, &title));
    }
    Some(title)
}

/// Returns the text without the blanks at its ends that people see.
fn without_spaces(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}

/// Returns the first tags that the API allows, each once, in their normalised form.
pub(super) fn tags(given: &[String], changes: &mut Vec<Change>) -> Vec<String> {
    let mut tags: Vec<String> = Vec::new();
    for text in given
        .iter()
        .map(|text| trimmed(text))
        .filter(|text| !text.is_empty())
    {
        let Some(tag) = tag(text) else {
            changes.push(Change::dropped(
                "tag",
                text,
                "no letter and no digit is in the tag",
            ));
            continue;
        };
        if tag != text {
            changes.push(Change::became("tag", text, &tag));
        }
        if tags.contains(&tag) {
            continue;
        }
        if tags.len() == TAGS_MAX {
            changes.push(Change::dropped("tag", text, "a link has at most 20 tags"));
            continue;
        }
        tags.push(tag);
    }
    tags
}

/// Returns the tag in its normalised form. Of a text that is none, runs of characters that no tag has become a
/// space, signs at the begin go, and the rest is cut.
fn tag(given: &str) -> Option<String> {
    if let Ok(tag) = parse_tag(given) {
        return Some(tag);
    }
    let is_allowed = |character: char| {
        let is_part = |text: &str| parse_tag(text).is_ok();
        is_part(&format!("a{character}b"))
    };
    let kept: String = given
        .chars()
        .map(|c| if is_allowed(c) { c } else { ' ' })
        .collect();
    let words: Vec<&str> = kept.split_whitespace().collect();
    let words = words.join(" ");
    let text = words.trim_start_matches(|c: char| parse_tag(&c.to_string()).is_err());
    // The normalised form can be longer than the text.
    (1..=TAG_LENGTH_MAX).rev().find_map(|length| {
        let cut: String = text.chars().take(length).collect();
        parse_tag(cut.trim_end()).ok()
    })
}

/// Returns the external id, unless the API or an earlier line refuses it. `taken` has the ids of earlier lines.
pub(super) fn external_id(
    given: &str,
    taken: &mut HashSet<String>,
    changes: &mut Vec<Change>,
) -> Option<String> {
    let text = trimmed(given);
    if text.is_empty() {
        return None;
    }
    let Ok(id) = parse_external_id(text) else {
        let why =
            "an external id has 1 to 128 of A-Z, a-z, 0-9, \".\", \"_\", \":\", \"/\" and \"-\"";
        changes.push(Change::dropped("external id", text, why));
        return None;
    };
    if !taken.insert(id.clone()) {
        changes.push(Change::dropped(
            "external id",
            text,
            "an earlier line has the same one",
        ));
        return None;
    }
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed<T>(run: impl FnOnce(&mut Vec<Change>) -> T) -> (T, Vec<String>) {
        let mut changes = Vec::new();
        let result = run(&mut changes);
        (result, changes.iter().map(ToString::to_string).collect())
    }

    fn fitted_tags(given: &[&str]) -> (Vec<String>, Vec<String>) {
        let given: Vec<String> = given.iter().map(|tag| (*tag).to_owned()).collect();
        changed(|changes| tags(&given, changes))
    }

    #[test]
    fn tags_of_all_scripts_are_kept() {
        let given = [
            "größe",
            "grüße",
            "日本語",
            "реклама",
            "émission",
            "c++",
            "a.b_c:d-e",
        ];
        assert_eq!(
            fitted_tags(&given),
            (given.map(str::to_owned).to_vec(), vec![])
        );
    }

    #[test]
    fn changed_tags_are_reported_old_to_new() {
        let (tags, changes) = fitted_tags(&[
            "VIP",
            "Отдел  продаж",
            "🎉",
            "🎉 party",
            "a, b",
            "--x",
            "",
            " vip ",
            "@home!",
        ]);
        assert_eq!(tags, ["vip", "отдел продаж", "party", "a b", "x", "home"]);
        assert_eq!(
            changes,
            [
                "tag \"VIP\" became \"vip\"",
                "tag \"Отдел  продаж\" became \"отдел продаж\"",
                "tag \"🎉\" was dropped: no letter and no digit is in the tag",
                "tag \"🎉 party\" became \"party\"",
                "tag \"a, b\" became \"a b\"",
                "tag \"--x\" became \"x\"",
                "tag \"@home!\" became \"home\"",
            ]
        );
    }

    #[test]
    fn long_tag_is_cut_and_the_first_20_are_kept() {
        let (tags, _) = fitted_tags(&["é ".repeat(50).as_str()]);
        assert_eq!(tags[0].chars().count(), 63);
        let many: Vec<String> = (0..23).map(|n| format!("t{n}")).collect();
        let (kept, changes) = changed(|changes| super::tags(&many, changes));
        assert_eq!(kept, many[..20]);
        assert_eq!(changes.len(), 3);
        assert_eq!(
            changes[0],
            "tag \"t20\" was dropped: a link has at most 20 tags"
        );
    }

    #[test]
    fn title_is_one_line_of_allowed_length() {
        let fit = |given: &str| changed(|changes| title(given, false, changes));
        let (title, changes) = fit(" a\tb\r\n c\u{7}d ");
        assert_eq!(title.as_deref(), Some("a b  cd"));
        assert_eq!(
            changes,
            ["title \" a\\tb\\r\\n c\\u{7}d \" became \"a b  cd\""]
        );
        assert_eq!(fit(" \n"), (None, vec![]));
        assert_eq!(fit("\u{200b}").1.len(), 1);
        assert_eq!(fit(" x "), (Some("x".to_owned()), vec![]));
        let (title, changes) = fit(&"é".repeat(500));
        assert_eq!((title.unwrap().chars().count(), changes.len()), (200, 1));
    }

    #[test]
    fn external_id_that_cannot_be_kept_is_dropped() {
        let mut taken = HashSet::new();
        let mut fit = |given: &str| changed(|changes| external_id(given, &mut taken, changes));
        assert_eq!(fit(" order-1 ").0.as_deref(), Some("order-1"));
        for given in ["order-1", "größe", "a b"] {
            let (id, changes) = fit(given);
            assert_eq!((id, changes.len()), (None, 1), "{given}");
        }
        assert_eq!(fit(" "), (None, vec![]));
    }
}
