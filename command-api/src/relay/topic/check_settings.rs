//! Check of a topic's settings. Pure.

use serde::Serialize;

use super::{
    DAY_MS, MAX_MESSAGE_BYTES_MIN, PARTITIONS, Stream, TIMESTAMP_LIMITS, TIMESTAMP_UNLIMITED,
    Topic, TopicSettings,
};

/// Kafka's value for no limit.
const UNLIMITED: i64 = -1;

/// Settings that an operator wants, in addition to those that a stream needs.
#[derive(Debug, Clone, Copy)]
pub struct WantedSettings {
    /// Lowest retention in days; 0 for unlimited.
    pub retention_days: u16,
    /// Number of brokers that keep each record.
    pub replication_factor: i32,
    /// Number of brokers that must have a record before the record counts as published.
    pub min_insync_replicas: i32,
}

/// Actual and wanted value of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckedSetting {
    /// Kafka's name of the setting.
    pub setting: &'static str,
    /// Actual value.
    pub is: String,
    /// Wanted value or condition.
    pub should_be: String,
    /// Result of the comparison.
    pub verdict: SettingVerdict,
    /// Value to set, if setting a value is enough.
    #[serde(skip)]
    pub remedy: Option<String>,
}

/// Result of the check of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingVerdict {
    /// The value is right.
    Ok,
    /// The value should be changed; the stream continues meanwhile.
    Wrong,
    /// The stream continues, but one process with a wrong clock can stop it.
    Fragile,
    /// No event is published, or clicks are lost, until the value is changed.
    Refused,
    /// The broker does not report the value.
    Unknown,
}

impl SettingVerdict {
    const fn of(is_right: bool, otherwise: Self) -> Self {
        if is_right { Self::Ok } else { otherwise }
    }

    /// Returns the text for a table of the stream's topic.
    pub const fn text(self, stream: Stream) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Wrong => "wrong",
            Self::Fragile => "wrong: a wrong clock can stop the stream",
            Self::Refused => match stream {
                Stream::Events => "wrong: the relay publishes nothing",
                Stream::Clicks => "wrong: clicks are lost",
            },
            Self::Unknown => "not known",
        }
    }

    /// Returns true if an operator should change the setting.
    pub const fn is_bad(self) -> bool {
        matches!(self, Self::Wrong | Self::Fragile | Self::Refused)
    }
}

impl WantedSettings {
    /// Returns the value of `retention.ms`.
    pub fn retention_ms(&self) -> i64 {
        match self.retention_days {
            0 => UNLIMITED,
            days => i64::from(days) * DAY_MS,
        }
    }
}

/// Checks every relevant setting of the topic, those that the stream needs first.
pub fn check_settings(topic: &Topic, wanted: &WantedSettings) -> Vec<CheckedSetting> {
    use SettingVerdict::{Ok, Refused, Wrong};
    let limit = |setting, least, otherwise| at_least(topic, setting, least, otherwise);
    let insync = wanted.min_insync_replicas.to_string();
    let mut settings = vec![
        partitions(topic),
        checked(topic, "cleanup.policy", "delete", |is| match is {
            "delete" => Ok,
            is if is.contains("compact") => Refused,
            _ => Wrong,
        }),
        limit("max.message.bytes", MAX_MESSAGE_BYTES_MIN.into(), Refused),
        limit("retention.ms", wanted.retention_ms(), Wrong),
        limit("retention.bytes", UNLIMITED, Wrong),
        replication_factor(topic, wanted),
        equal(topic, "min.insync.replicas", &insync),
        equal(topic, "message.timestamp.type", "CreateTime"),
    ];
    settings.extend(timestamp_limits(topic));
    settings
}

/// Checks the limits on the time of a record that the broker has. Brokers before Kafka 3.6 have one limit for both
/// directions.
fn timestamp_limits(topic: &Topic) -> Vec<CheckedSetting> {
    let names: &[&'static str] = match &topic.settings {
        TopicSettings::Known(known) if !known.contains_key(TIMESTAMP_LIMITS[0]) => {
            &["message.timestamp.difference.max.ms"]
        }
        TopicSettings::Known(_) | TopicSettings::Unsupported | TopicSettings::Denied => {
            &TIMESTAMP_LIMITS
        }
    };
    let check = |name: &&'static str| {
        checked(topic, name, TIMESTAMP_UNLIMITED, |is| {
            SettingVerdict::of(is == TIMESTAMP_UNLIMITED, SettingVerdict::Fragile)
        })
    };
    names.iter().map(check).collect()
}

fn partitions(topic: &Topic) -> CheckedSetting {
    let (is, should_be) = (topic.replicas.len(), usize::from(PARTITIONS));
    CheckedSetting {
        setting: "partitions",
        is: is.to_string(),
        should_be: should_be.to_string(),
        verdict: SettingVerdict::of(is == should_be, SettingVerdict::Refused),
        remedy: None,
    }
}

fn replication_factor(topic: &Topic, wanted: &WantedSettings) -> CheckedSetting {
    let least = topic.replicas.iter().min().copied().unwrap_or_default();
    let wanted = wanted.replication_factor;
    let is_enough = i32::try_from(least).is_ok_and(|least| least >= wanted);
    CheckedSetting {
        setting: "replication factor",
        is: least.to_string(),
        should_be: format!("{wanted} or more"),
        verdict: SettingVerdict::of(is_enough, SettingVerdict::Wrong),
        remedy: None,
    }
}

fn checked(
    topic: &Topic,
    setting: &'static str,
    should_be: &str,
    verdict: impl FnOnce(&str) -> SettingVerdict,
) -> CheckedSetting {
    let is = topic.setting(setting);
    let verdict = is.map_or(SettingVerdict::Unknown, verdict);
    CheckedSetting {
        setting,
        is: is.unwrap_or("-").to_owned(),
        should_be: should_be.to_owned(),
        verdict,
        remedy: verdict.is_bad().then(|| format!("{setting}={should_be}")),
    }
}

fn equal(topic: &Topic, setting: &'static str, should_be: &str) -> CheckedSetting {
    checked(topic, setting, should_be, |is| {
        SettingVerdict::of(is == should_be, SettingVerdict::Wrong)
    })
}

/// Checks a limit, of which Kafka's -1 is the highest.
fn at_least(
    topic: &Topic,
    setting: &'static str,
    least: i64,
    otherwise: SettingVerdict,
) -> CheckedSetting {
    let is_enough = |is: i64| is == UNLIMITED || (least != UNLIMITED && is >= least);
    let checked = checked(topic, setting, &least.to_string(), |is| {
        SettingVerdict::of(is.parse().is_ok_and(is_enough), otherwise)
    });
    let or_more = if least == UNLIMITED {
        " (no limit)"
    } else {
        " or more"
    };
    CheckedSetting {
        should_be: format!("{least}{or_more}"),
        ..checked
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{super::TopicSettings, *};

    const WANTED: WantedSettings = WantedSettings {
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
            ("message.timestamp.before.max.ms", TIMESTAMP_UNLIMITED),
            ("message.timestamp.after.max.ms", TIMESTAMP_UNLIMITED),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        for (name, value) in changed {
            settings.insert((*name).to_owned(), (*value).to_owned());
        }
        Topic {
            name: "t".to_owned(),
            cluster_id: None,
            replicas: vec![3; 16],
            settings: TopicSettings::Known(settings),
            watermarks: Vec::new(),
        }
    }

    fn bad(topic: &Topic) -> Vec<(&'static str, SettingVerdict)> {
        let findings = check_settings(topic, &WANTED);
        let bad = findings.iter().filter(|finding| finding.verdict.is_bad());
        bad.map(|finding| (finding.setting, finding.verdict))
            .collect()
    }

    #[test]
    fn wrong_values_are_found_for_each_setting() {
        use SettingVerdict::{Fragile, Refused, Wrong};
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
            ("message.timestamp.after.max.ms", "3600000", Some(Fragile)),
            ("message.timestamp.before.max.ms", "0", Some(Fragile)),
        ] {
            let topic = topic(&[(setting, value)]);
            let expected: Vec<_> = verdict
                .map(|verdict| (setting, verdict))
                .into_iter()
                .collect();
            assert_eq!(bad(&topic), expected, "{setting}={value}");
            // The verdict `Refused` and the refusal of the relay agree.
            let is_refused = verdict == Some(Refused);
            assert_eq!(topic.refusal().is_some(), is_refused, "{setting}={value}");
        }
    }

    #[test]
    fn wrong_partitions_and_missing_replicas_are_found() {
        for replicas in [vec![3; 15], vec![3; 17]] {
            let topic = Topic {
                replicas,
                ..topic(&[])
            };
            assert_eq!(bad(&topic), [("partitions", SettingVerdict::Refused)]);
            assert!(topic.refusal().is_some());
        }
        let mut replicas = vec![3; 16];
        replicas[7] = 2;
        let topic = Topic {
            replicas,
            ..topic(&[])
        };
        assert_eq!(bad(&topic), [("replication factor", SettingVerdict::Wrong)]);
        assert_eq!(topic.refusal(), None);
    }

    #[test]
    fn unknown_settings_are_neither_good_nor_bad() {
        for settings in [TopicSettings::Unsupported, TopicSettings::Denied] {
            let topic = Topic {
                settings,
                ..topic(&[])
            };
            assert_eq!(bad(&topic), []);
            assert_eq!(topic.refusal(), None);
            let unknown = check_settings(&topic, &WANTED);
            let unknown = unknown
                .iter()
                .filter(|checked| checked.verdict == SettingVerdict::Unknown);
            assert_eq!(unknown.count(), 8);
        }
    }

    #[test]
    fn one_limit_of_an_older_broker_is_checked() {
        let mut topic = topic(&[("message.timestamp.difference.max.ms", "60000")]);
        let TopicSettings::Known(settings) = &mut topic.settings else {
            unreachable!("the settings are known");
        };
        for name in TIMESTAMP_LIMITS {
            settings.remove(name);
        }
        let limit = "message.timestamp.difference.max.ms";
        assert_eq!(bad(&topic), [(limit, SettingVerdict::Fragile)]);
    }

    #[test]
    fn remedy_is_the_wanted_value() {
        let topic = topic(&[("retention.ms", "1000")]);
        let findings = check_settings(&topic, &WANTED);
        let remedies: Vec<_> = findings
            .iter()
            .filter_map(|checked| checked.remedy.as_ref())
            .collect();
        assert_eq!(remedies, ["retention.ms=2592000000"]);
    }
}
