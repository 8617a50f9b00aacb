//! Names of Kafka topics.

use std::{fmt, str::FromStr};

use crate::{click::CLICKS_TOPIC, cloud_event::TOPIC};

/// Maximal length of a topic name, in characters.
const LENGTH_MAX: usize = 249;

/// A valid name of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicName(String);

/// Kafka does not allow this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a topic's name has 1 to {LENGTH_MAX} characters of a-z, A-Z, 0-9, `.`, `_`, `-`, and is neither `.` nor `..`"
)]
pub struct InvalidTopicName;

impl TopicName {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the default topic of clicks.
    pub fn of_clicks() -> Self {
        Self(CLICKS_TOPIC.to_owned())
    }
}

impl Default for TopicName {
    /// Returns the topic of the public event stream.
    fn default() -> Self {
        Self(TOPIC.to_owned())
    }
}

impl FromStr for TopicName {
    type Err = InvalidTopicName;

    fn from_str(text: &str) -> Result<Self, InvalidTopicName> {
        let is_valid = (1..=LENGTH_MAX).contains(&text.len())
            && !matches!(text, "." | "..")
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        is_valid
            .then(|| Self(text.to_owned()))
            .ok_or(InvalidTopicName)
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_named_as_kafka_allows() {
        let (longest, too_long) = ("t".repeat(249), "t".repeat(250));
        for (text, is_valid) in [
            (TOPIC, true),
            ("Events_2-a.b", true),
            ("...", true),
            (longest.as_str(), true),
            (too_long.as_str(), false),
            ("", false),
            (".", false),
            ("..", false),
            ("a b", false),
            ("a/b", false),
            ("ä", false),
        ] {
            assert_eq!(text.parse::<TopicName>().is_ok(), is_valid, "{text}");
        }
        assert_eq!(TOPIC.parse(), Ok(TopicName::default()));
        assert_eq!(CLICKS_TOPIC.parse(), Ok(TopicName::of_clicks()));
    }
}
