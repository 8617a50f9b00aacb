//! Bots by their user agents: crawlers, monitors, link previews and HTTP libraries.
//!
//! The rules are few and general, and a person can read them: `bots.txt`, whose head explains them.

mod phone_names;

use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Match};

use self::phone_names::phone_names;
use super::cut;

/// Built-in list.
const BUILT_IN: &str = include_str!("bots.txt");
/// Begins of the user agents of browsers.
const BROWSER_BEGINS: [&[u8]; 2] = [b"Mozilla/", b"Opera/"];
/// Begin of the comment in which every browser names its system.
const SYSTEM_BEGIN: u8 = b'(';
/// Mark of a comment.
const COMMENT: char = '#';
/// Mark of an exception.
const EXCEPTION: char = '!';
/// Mark of a device or an app of people.
const DEVICE: char = '~';
/// Mark of an end that may be inside a word.
const INSIDE_WORD: char = '*';
/// Shortest text of a list, in bytes: shorter texts match most browsers.
const TEXT_LENGTH_MIN: usize = 3;
/// Shortest last label of the host of a mail address.
const LAST_LABEL_LENGTH_MIN: usize = 2;

/// List of texts in the user agents of bots, and of people.
#[derive(Debug, Clone)]
pub struct BotPatterns {
    automaton: AhoCorasick,
    /// By number of the text.
    rules: Vec<Rule>,
}

/// Meaning of a text of the list, and its limits at words.
#[derive(Debug, Clone, Copy)]
struct Rule {
    meaning: Meaning,
    begins_word: bool,
    ends_word: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Bot,
    Exception,
    Device,
}

/// List that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BotPatternsError {
    /// The list has no text of bots.
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
    /// Returns an error if the list has no text of bots, or a text is too short.
    pub fn parse(list: &str) -> Result<Self, BotPatternsError> {
        let (mut texts, mut rules) = (Vec::new(), Vec::new());
        for (number, line) in (1..).zip(list.lines()) {
            let line = line.split(COMMENT).next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (text, rule) = Rule::parse(line);
            if text.len() < TEXT_LENGTH_MIN {
                return Err(BotPatternsError::Short(number));
            }
            texts.push(text);
            rules.push(rule);
        }
        if !rules.iter().any(|rule| rule.meaning == Meaning::Bot) {
            return Err(BotPatternsError::Empty);
        }
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(texts)?;
        Ok(Self { automaton, rules })
    }

    /// Returns true if the user agent is empty or of a bot.
    pub fn matches(&self, user_agent: &[u8]) -> bool {
        let user_agent = cut(user_agent).trim_ascii();
        let mut is_of_people = has_form_of_browsers(user_agent);
        let (mut of_bots, mut excused) = (Vec::new(), Vec::new());
        for (range, meaning) in self.found(user_agent) {
            match meaning {
                Meaning::Bot => of_bots.push(range),
                Meaning::Exception => excused.push(range),
                Meaning::Device => is_of_people = true,
            }
        }
        if !is_of_people || has_mail_address(user_agent) {
            return true;
        }
        if of_bots.is_empty() {
            return false;
        }
        excused.extend(phone_names(user_agent));
        let is_excused = |text: &Range<usize>| {
            let mut excused = excused.iter();
            excused.any(|it| it.start <= text.start && text.end <= it.end)
        };
        !of_bots.iter().all(is_excused)
    }

    /// Returns the texts in the user agent, as their rules want them: whole words, or parts of words.
    fn found<'a>(
        &'a self,
        user_agent: &'a [u8],
    ) -> impl Iterator<Item = (Range<usize>, Meaning)> + 'a {
        let found = self.automaton.find_overlapping_iter(user_agent);
        found.filter_map(move |found: Match| {
            let rule = self.rules[found.pattern().as_usize()];
            let range = found.range();
            let word_goes_on = |at: Option<usize>| {
                at.and_then(|at| user_agent.get(at))
                    .is_some_and(u8::is_ascii_alphanumeric)
            };
            let is_inside = rule.begins_word && word_goes_on(range.start.checked_sub(1))
                || rule.ends_word && word_goes_on(Some(range.end));
            (!is_inside).then_some((range, rule.meaning))
        })
    }
}

impl Rule {
    /// Returns the text of a line, and how it counts.
    fn parse(line: &str) -> (&str, Self) {
        let (text, meaning) = match line.split_at_checked(1) {
            Some((mark, text)) if mark.starts_with(EXCEPTION) => (text, Meaning::Exception),
            Some((mark, text)) if mark.starts_with(DEVICE) => (text, Meaning::Device),
            _ => (line, Meaning::Bot),
        };
        let after = text.strip_prefix(INSIDE_WORD);
        let before = after.unwrap_or(text).strip_suffix(INSIDE_WORD);
        let bare = before.unwrap_or(after.unwrap_or(text));
        let is_of_word = |end: Option<char>| end.is_some_and(|it| it.is_ascii_alphanumeric());
        let rule = Self {
            meaning,
            begins_word: after.is_none() && is_of_word(bare.chars().next()),
            ends_word: before.is_none() && is_of_word(bare.chars().next_back()),
        };
        (bare, rule)
    }
}

/// Returns true for `Mozilla/5.0 (system)`, whatever follows.
fn has_form_of_browsers(user_agent: &[u8]) -> bool {
    let mut begins = BROWSER_BEGINS.iter();
    begins.any(|it| user_agent.starts_with(it)) && user_agent.contains(&SYSTEM_BEGIN)
}

/// Returns true if the text has a mail address, by which owners of sites reach the owner of a crawler: `@` between a
/// name and a host such as `example.com`. Browsers write `@` otherwise, as in `android@111.0` or
/// `en_US@calendar=gregorian`.
fn has_mail_address(text: &[u8]) -> bool {
    let mut ats = text.iter().enumerate().filter(|(_, byte)| **byte == b'@');
    ats.any(|(at, _)| {
        let name = text[..at].last();
        name.is_some_and(|it| is_of_label(*it)) && begins_with_host(&text[at + 1..])
    })
}

fn begins_with_host(text: &[u8]) -> bool {
    let is_of_host = |byte: &u8| is_of_label(*byte) || *byte == b'.';
    let length = text.iter().position(|byte| !is_of_host(byte));
    let host = &text[..length.unwrap_or(text.len())];
    let mut labels = host.split(|byte| *byte == b'.').filter(|it| !it.is_empty());
    let has_begin = labels.next().is_some();
    let last = labels.next_back().unwrap_or_default();
    has_begin && last.len() >= LAST_LABEL_LENGTH_MIN && last.iter().all(u8::is_ascii_alphabetic)
}

fn is_of_label(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

#[cfg(test)]
mod tests;
