//! Tags of links: free words in any script, compared in one normal form (`docs/api.md#details`).
//!
//! A tag is only ever stored, shown and looked up in its normal form, so two spellings of a word are one tag.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory as _};

use crate::field::FieldCode;

/// Maximal number of tags of a link.
pub const TAGS_MAX: usize = 20;
/// Maximal length of a tag in its normal form, in characters.
pub const TAG_LENGTH_MAX: usize = 64;
/// Regular expression that all tags in their normal form match. Looser than [`parse_tag`]: many dialects of regular
/// expressions lack classes of letters of all scripts.
pub const TAG_PATTERN: &str =
    r"^[^\u0000-\u002f\u007f-\u009fA-Z][^\u0000-\u001f\u007f-\u009fA-Z,]*$";
/// Signs inside of tags, besides letters, marks and digits.
const SIGNS: [char; 10] = [' ', '.', '_', ':', '-', '+', '#', '&', '/', '\''];

/// Parses a tag, and returns its normal form.
///
/// # Errors
/// Returns [`FieldCode::TagInvalid`] if the text is no tag.
pub fn parse_tag(text: &str) -> Result<String, FieldCode> {
    let tag = normal_form(text);
    let begins_word = |first: char| {
        is_word(first) && first.general_category_group() != GeneralCategoryGroup::Mark
    };
    let is_allowed = |character| is_word(character) || SIGNS.contains(&character);
    let is_tag = tag.starts_with(begins_word)
        && tag.chars().all(is_allowed)
        && tag.chars().count() <= TAG_LENGTH_MAX;
    is_tag.then_some(tag).ok_or(FieldCode::TagInvalid)
}

/// Returns the text in lower case, composed (NFC), with one space for each run of white space inside and none outside.
fn normal_form(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let composed: String = words.join(" ").nfc().collect();
    // Lower case can separate what NFC would compose.
    composed.to_lowercase().nfc().collect()
}

/// Returns true for letters, marks and decimal digits of all scripts.
fn is_word(character: char) -> bool {
    let group = character.general_category_group();
    matches!(
        group,
        GeneralCategoryGroup::Letter | GeneralCategoryGroup::Mark
    ) || character.general_category() == GeneralCategory::DecimalNumber
}

/// Tags of a link: at least one, sorted, without duplicates.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tags(Vec<String>);

impl Tags {
    /// Returns the sorted tags, each once; `None` if there are none.
    pub fn of(mut tags: Vec<String>) -> Option<Self> {
        tags.sort_unstable();
        tags.dedup();
        (!tags.is_empty()).then_some(Self(tags))
    }

    /// Returns the tags.
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }
}

impl JsonSchema for Tags {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Tags".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "array",
            "items": {
                "type": "string",
                "maxLength": TAG_LENGTH_MAX,
                "pattern": TAG_PATTERN,
            },
            "minItems": 1,
            "maxItems": TAGS_MAX,
            "uniqueItems": true,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tag_is_kept_in_its_normal_form() {
        for (text, tag) in [
            ("Sommer", "sommer"),
            ("  Late \u{a0}\t Night  ", "late night"),
            ("GRO\u{308}SSE", "gr\u{f6}sse"),
            ("\u{130}zmir", "i\u{307}zmir"),
            (
                "\u{39f}\u{394}\u{39f}\u{3a3}",
                "\u{3bf}\u{3b4}\u{3bf}\u{3c2}",
            ),
            ("\u{212a}elvin", "kelvin"),
            (
                "\u{41e}\u{442}\u{434}\u{435}\u{43b}",
                "\u{43e}\u{442}\u{434}\u{435}\u{43b}",
            ),
            (
                "\u{939}\u{93f}\u{928}\u{94d}\u{926}\u{940}",
                "\u{939}\u{93f}\u{928}\u{94d}\u{926}\u{940}",
            ),
            ("\u{664}\u{662}", "\u{664}\u{662}"),
            ("F#", "f#"),
            ("R&D/2026:q1_a.b-c+d's", "r&d/2026:q1_a.b-c+d's"),
        ] {
            assert_eq!(parse_tag(text).as_deref(), Ok(tag), "{text:?}");
        }
        let longest = "\u{e4}".repeat(TAG_LENGTH_MAX);
        assert_eq!(parse_tag(&longest), Ok(longest.clone()));
    }

    #[test]
    fn text_that_is_no_tag_is_refused() {
        for text in [
            "",
            " \u{3000}\n",
            "-a",
            "\u{308}a",
            "a,b",
            "a\0",
            "a\u{200b}",
            "\u{1f680}",
            "x\u{b2}",
            &"\u{e4}".repeat(TAG_LENGTH_MAX + 1),
        ] {
            assert_eq!(parse_tag(text), Err(FieldCode::TagInvalid), "{text:?}");
        }
    }

    /// Each character that a step changes, alone, and before and after marks that compose.
    #[test]
    fn normal_form_of_each_character_is_final() {
        let is_changed = |character: &char| {
            character.to_lowercase().ne([*character])
                || [*character].into_iter().nfd().ne([*character])
        };
        let characters = (0..=u32::from(char::MAX)).filter_map(char::from_u32);
        let is_hangul = |character: &char| ('\u{ac00}'..='\u{d7a3}').contains(character);
        for character in characters.filter(|it| !is_hangul(it) && is_changed(it)) {
            for text in [
                format!("a{character}"),
                format!("{character}\u{307}\u{345}"),
                format!("i{character}\u{323} {character}"),
            ] {
                let once = normal_form(&text);
                assert_eq!(normal_form(&once), once, "{text:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn tag_of_a_tag_is_the_same(text in any::<String>()) {
            let once = normal_form(&text);
            prop_assert_eq!(normal_form(&once), once.clone());
            if let Ok(tag) = parse_tag(&text) {
                prop_assert_eq!(parse_tag(&once), Ok(tag.clone()));
            }
        }
    }
}
