//! Whether a topic is as it should be, setting by setting. Pure.

use linkledger_core::shard::SHARD_COUNT;
use serde::Serialize;

use super::{MAX_MESSAGE_BYTES_MIN, Topic};

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;
/// What Kafka calls no limit.
const UNLIMITED: i64 = -1;

/// What an operator wants of the topic, beside what the relay needs.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// For how many days events are kept at least; 0 for ever.
    pub retention_days: u16,
    /// How many brokers keep each record.
    pub replication_factor: i32,
    /// How many of them must have a record before it counts as published.
    pub min_insync_replicas: i32,
}

/// One setting of the topic: what it is and what it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// As Kafka calls it.
    pub setting: &'static str,
    /// Its value.
    pub is: String,
    /// The value that was wanted, or what it has to fulfil.
    pub should_be: String,
    /// What follows.
    pub verdict: Verdict,
    /// The value to set, where setting a value mends it.
    #[serde(skip)]
    pub remedy: Option<String>,
}

/// What follows from a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is as it should be.
    Ok,
    /// It should be changed; events are published meanwhile.
    Wrong,
    /// Nothing is published until it is changed.
    Refused,
    /// The broker does not tell it.
    Unknown,
}

impl Verdict {
    /// For a table.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Wrong => "wrong",
            Self::Refused => "wrong: the relay publishes nothing",
            Self::Unknown => "not known",
        }
    }

    /// Whether somebody has to change something.
    pub const fn is_bad(self) -> bool {
        matches!(self, Self::Wrong | Self::Refused)
    }
}

impl Wanted {
    /// `retention.ms`.
    pub fn retention_ms(&self) -> i64 {
        match self.retention_days {
            0 => UNLIMITED,
            days => i64::from(days) * DAY_MS,
        }
    }
}

/// Everything that matters about the topic, what the relay insists on first.
pub fn judge(topic: &Topic, wanted: &Wanted) -> Vec<Finding> {
    let max_message_bytes = i64::from(MAX_MESSAGE_BYTES_MIN);
    let retention_ms = wanted.retention_ms();
    let insync = wanted.min_insync_replicas.to_string();
    vec![
        partitions(topic),
        finding(topic, "cleanup.policy", "delete", |is| match is {
            "delete" => Verdict::Ok,
            is if is.contains("compact") => Verdict::Refused,
            _ => Verdict::Wrong,
        }),
        at_least(
            topic,
            "max.message.bytes",
            max_message_bytes,
            Verdict::Refused,
        ),
        at_least(topic, "retention.ms", retention_ms, Verdict::Wrong),
        at_least(topic, "retention.bytes", UNLIMITED, Verdict::Wrong),
        replication_factor(topic, wanted),
        finding(topic, "min.insync.replicas", &insync, equals(&insync)),
        finding(
            topic,
            "message.timestamp.type",
            "CreateTime",
            equals("CreateTime"),
        ),
    ]
}

fn partitions(topic: &Topic) -> Finding {
    let (is, should_be) = (topic.replicas.len(), usize::from(SHARD_COUNT));
    Finding {
        setting: "partitions",
        is: is.to_string(),
        should_be: should_be.to_string(),
        verdict: if is == should_be {
            Verdict::Ok
        } else {
            Verdict::Refused
        },
        remedy: None,
    }
}

fn replication_factor(topic: &Topic, wanted: &Wanted) -> Finding {
    let least = topic.replicas.iter().min().copied().unwrap_or_default();
    Finding {
        setting: "replication factor",
        is: least.to_string(),
        should_be: format!("{} or more", wanted.replication_factor),
        verdict: match i32::try_from(least) {
            Ok(least) if least < wanted.replication_factor => Verdict::Wrong,
            Ok(_) | Err(_) => Verdict::Ok,
        },
        remedy: None,
    }
}

fn finding(
    topic: &Topic,
    setting: &'static str,
    should_be: &str,
    verdict: impl FnOnce(&str) -> Verdict,
) -> Finding {
    let is = topic.setting(setting);
    let verdict = is.map_or(Verdict::Unknown, verdict);
    Finding {
        setting,
        is: is.unwrap_or("-").to_owned(),
        should_be: should_be.to_owned(),
        verdict,
        remedy: verdict.is_bad().then(|| format!("{setting}={should_be}")),
    }
}

fn equals(should_be: &str) -> impl FnOnce(&str) -> Verdict {
    move |is| {
        if is == should_be {
            Verdict::Ok
        } else {
            Verdict::Wrong
        }
    }
}

/// For limits, of which Kafka's -1 is the highest.
fn at_least(topic: &Topic, setting: &'static str, least: i64, otherwise: Verdict) -> Finding {
    let is_enough = |is: i64| is == UNLIMITED || (least != UNLIMITED && is >= least);
    let finding = finding(topic, setting, &least.to_string(), |is| {
        if is.parse().is_ok_and(is_enough) {
            Verdict::Ok
        } else {
            otherwise
        }
    });
    let or_more = if least == UNLIMITED {
        " (no limit)"
    } else {
        " or more"
    };
    Finding {
        should_be: format!("{least}{or_more}"),
        ..finding
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{super::Settings, *};

    const WANTED: Wanted = Wanted {
        retention_days: 30,
        replication_factor: 3,
        min_insync_replicas: 2,
    };

    fn topic(changed: &[(&str, &str)]) -> Topic {
        let mut settings: HashMap<String, String> = [
            ("cleanup.policy", "delete"),
            ("max.message.bytes", "1048588"),
            ("retention.ms", "2592000000"),
            ("retention.bytes", "-1"),
            ("min.insync.replicas", "2"),
            ("message.timestamp.type", "CreateTime"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        for (name, value) in changed {
            settings.insert((*name).to_owned(), (*value).to_owned());
        }
        Topic {
            name: "t".to_owned(),
            replicas: vec![3; 16],
            settings: Settings::Known(settings),
            watermarks: Vec::new(),
        }
    }

    fn bad(topic: &Topic) -> Vec<(&'static str, Verdict)> {
        let findings = judge(topic, &WANTED);
        let bad = findings.iter().filter(|finding| finding.verdict.is_bad());
        bad.map(|finding| (finding.setting, finding.verdict))
            .collect()
    }

    #[test]
    fn of_each_setting_the_values_that_are_wrong_are_told() {
        use Verdict::{Refused, Wrong};
        for (setting, value, verdict) in [
            ("cleanup.policy", "delete", None),
            ("cleanup.policy", "compact", Some(Refused)),
            ("cleanup.policy", "compact,delete", Some(Refused)),
            ("cleanup.policy", "", Some(Wrong)),
            ("max.message.bytes", "1048576", None),
            ("max.message.bytes", "1048575", Some(Refused)),
            ("retention.ms", "2592000000", None),
            ("retention.ms", "-1", None),
            ("retention.ms", "2591999999", Some(Wrong)),
            ("retention.bytes", "1073741824", Some(Wrong)),
            ("min.insync.replicas", "1", Some(Wrong)),
            ("min.insync.replicas", "3", Some(Wrong)),
            ("message.timestamp.type", "LogAppendTime", Some(Wrong)),
        ] {
            let topic = topic(&[(setting, value)]);
            let expected: Vec<_> = verdict.map(|it| (setting, it)).into_iter().collect();
            assert_eq!(bad(&topic), expected, "{setting}={value}");
            // What is called refused is what the relay refuses, and nothing else.
            let is_refused = verdict == Some(Refused);
            assert_eq!(topic.refusal().is_some(), is_refused, "{setting}={value}");
        }
    }

    #[test]
    fn a_topic_with_another_count_of_partitions_or_too_few_replicas_is_told() {
        for replicas in [vec![3; 15], vec![3; 17]] {
            let topic = Topic {
                replicas,
                ..topic(&[])
            };
            assert_eq!(bad(&topic), [("partitions", Verdict::Refused)]);
            assert!(topic.refusal().is_some());
        }
        let mut replicas = vec![3; 16];
        replicas[7] = 2;
        let topic = Topic {
            replicas,
            ..topic(&[])
        };
        assert_eq!(bad(&topic), [("replication factor", Verdict::Wrong)]);
        assert_eq!(topic.refusal(), None);
    }

    #[test]
    fn settings_that_are_not_told_are_neither_good_nor_bad() {
        for settings in [Settings::Unsupported, Settings::Denied] {
            let topic = Topic {
                settings,
                ..topic(&[])
            };
            assert_eq!(bad(&topic), []);
            assert_eq!(topic.refusal(), None);
            let unknown = judge(&topic, &WANTED);
            let unknown = unknown.iter().filter(|it| it.verdict == Verdict::Unknown);
            assert_eq!(unknown.count(), 6);
        }
    }

    #[test]
    fn what_mends_a_setting_is_a_value_that_is_right() {
        let topic = topic(&[("retention.ms", "1000")]);
        let findings = judge(&topic, &WANTED);
        let remedies: Vec<_> = findings
            .iter()
            .filter_map(|it| it.remedy.as_ref())
            .collect();
        assert_eq!(remedies, ["retention.ms=2592000000"]);
    }
}
