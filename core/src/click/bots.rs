//! User agents of crawlers, monitors, link previews and HTTP libraries, by a list of texts.
//!
//! The list is `bots.txt`, one text for each line, compared without regard to case. A text after `!` is
//! an exception: where it matches, no shorter text inside it counts.

use aho_corasick::{AhoCorasick, MatchKind};

use super::cut;

/// Built-in list.
const BUILT_IN: &str = include_str!("bots.txt");
/// Mark of a comment.
const COMMENT: char = '#';
/// Mark of an exception.
const EXCEPTION: char = '!';
/// Shortest text of a list, in bytes: shorter texts match most browsers.
const TEXT_LENGTH_MIN: usize = 3;

/// List of texts in the user agents of bots.
#[derive(Debug, Clone)]
pub struct BotPatterns {
    automaton: AhoCorasick,
    /// By number of the text: true for an exception.
    is_exception: Vec<bool>,
}

/// List that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BotPatternsError {
    /// The list has no text.
    #[error("the list of bots is empty; give one text for each line")]
    Empty,
    /// A text is too short.
    #[error(
        "line {0} of the list of bots has fewer than {TEXT_LENGTH_MIN} bytes; it would match most browsers"
    )]
    Short(usize),
    /// The list is too large.
    #[error("the list of bots is too large: {0}")]
    TooLarge(#[from] aho_corasick::BuildError),
}

impl BotPatterns {
    /// Returns the built-in list.
    pub fn built_in() -> Self {
        Self::parse(BUILT_IN).expect("a test parses the built-in list")
    }

    /// Parses a list.
    ///
    /// # Errors
    /// Returns an error if the list is empty, or a text is too short.
    pub fn parse(list: &str) -> Result<Self, BotPatternsError> {
        let (mut texts, mut is_exception) = (Vec::new(), Vec::new());
        for (line, text) in (1..).zip(list.lines()) {
            let text = text.split(COMMENT).next().unwrap_or_default().trim();
            if text.is_empty() {
                continue;
            }
            let exception = text.strip_prefix(EXCEPTION);
            let pattern = exception.unwrap_or(text);
            if pattern.len() < TEXT_LENGTH_MIN {
                return Err(BotPatternsError::Short(line));
            }
            texts.push(pattern);
            is_exception.push(exception.is_some());
        }
        if is_exception.iter().all(|is_exception| *is_exception) {
            return Err(BotPatternsError::Empty);
        }
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostLongest)
            .build(texts)?;
        Ok(Self {
            automaton,
            is_exception,
        })
    }

    /// Returns true if the user agent is empty or of a bot.
    pub fn matches(&self, user_agent: &[u8]) -> bool {
        let user_agent = cut(user_agent).trim_ascii();
        let mut matches = self.automaton.find_iter(user_agent);
        user_agent.is_empty() || matches.any(|found| !self.is_exception[found.pattern().as_usize()])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_match_in_any_case() {
        let bots = BotPatterns::parse("# crawlers\nbot\n\ncurl/ # a library\n").unwrap();
        assert!(bots.matches(b"GoogleBOT/2.1"));
        assert!(bots.matches(b"CURL/8.5.0"));
        assert!(!bots.matches(b"curling"));
        assert!(bots.matches(b"") && bots.matches(b"  "));
    }

    #[test]
    fn exceptions_hide_shorter_texts() {
        let bots = BotPatterns::parse("bot\n!cubot").unwrap();
        assert!(!bots.matches(b"Android 10; CUBOT X20"));
        assert!(bots.matches(b"Android 10; CUBOT X20; bot"));
    }

    #[test]
    fn unusable_lists_are_refused() {
        for list in ["", "# nothing", "!cubot", "bot\nab"] {
            assert!(BotPatterns::parse(list).is_err(), "{list}");
        }
    }

    #[test]
    fn built_in_list_is_sorted_out() {
        let bots = BotPatterns::built_in();
        let mut texts: Vec<&str> = BUILT_IN.lines().collect();
        texts.retain(|line| !line.is_empty() && !line.starts_with(COMMENT));
        assert!(texts.iter().all(|text| text.to_lowercase() == **text));
        let count = texts.len();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), count, "a text is in the list twice");
        assert!(
            bots.matches(
                b"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
            )
        );
    }

    static BUILT_IN_PATTERNS: LazyLock<BotPatterns> = LazyLock::new(BotPatterns::built_in);

    proptest! {
        #[test]
        fn only_the_first_512_bytes_count(tail in prop::collection::vec(any::<u8>(), 0..8_192)) {
            let bots = &*BUILT_IN_PATTERNS;
            let mut user_agent = vec![b'x'; 512];
            user_agent.extend(tail);
            prop_assert!(!bots.matches(&user_agent));
        }
    }
}
