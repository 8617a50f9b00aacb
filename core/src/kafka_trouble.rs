//! What clients of Kafka complain of, in words that say what to do.
//!
//! librdkafka repeats itself several times a second, and the vaguest complaint comes last. The most
//! telling one is kept until somebody asks, so that whoever is held up by it says it once.

use std::{
    error::Error,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::anyhow;
use rdkafka::{
    ClientContext,
    config::RDKafkaLogLevel,
    error::{KafkaError, RDKafkaErrorCode},
};

/// For how long a complaint that is not repeated is believed: librdkafka keeps silent about the
/// same one for 30 s.
const BELIEVED: Duration = Duration::from_mins(1);

/// What one client, or several in turn, have complained of. Clones share it.
#[derive(Debug, Clone)]
pub struct KafkaTrouble {
    rights: &'static str,
    heard: Arc<Mutex<Option<Complaint>>>,
}

#[derive(Debug, Clone)]
struct Complaint {
    code: RDKafkaErrorCode,
    reason: String,
    heard_at: Instant,
}

/// What a complaint is about, from the vaguest to the most telling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// Nothing gets through, whatever the reason.
    NoBroker,
    /// A broker can't be reached, or ends the connection.
    Connection,
    /// Something else, of which librdkafka's own words are all there is.
    Other,
    /// The topic does not exist.
    Topic,
    /// TLS: certificates, or a listener without it.
    Tls,
    /// The name or the password.
    Password,
    /// What the user may do.
    Rights,
}

impl KafkaTrouble {
    /// Nothing is heard yet of clients whose user needs these `rights`.
    pub fn new(rights: &'static str) -> Self {
        Self {
            rights,
            heard: Arc::default(),
        }
    }

    /// Notes an error, with what librdkafka says about it; an empty `reason` if it says nothing.
    pub fn hear(&self, error: &KafkaError, reason: &str) {
        let Some(complaint) = Complaint::of(error, reason) else {
            return;
        };
        let mut heard = self.heard();
        let known = heard.take().filter(Complaint::is_believed);
        *heard = Some(complaint.or_if_more_telling(known));
    }

    /// Something has worked: what was heard before is over.
    pub fn is_over(&self) {
        *self.heard() = None;
    }

    /// What the most telling complaint is about, and what to do, on one line.
    pub fn told(&self) -> Option<(About, String)> {
        let complaint = self.heard().clone().filter(Complaint::is_believed)?;
        Some((About::of(complaint.code), self.words(&complaint)))
    }

    /// The error, with the most telling complaint in place of what the client of Kafka says.
    #[must_use]
    pub fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let causes = error.chain();
        let is_of_kafka = |it: &(dyn Error + 'static)| it.is::<KafkaError>();
        let of_kafka = causes
            .clone()
            .find_map(|it| it.downcast_ref::<KafkaError>());
        let Some(complaint) = of_kafka.and_then(|it| Complaint::of(it, "")) else {
            return error;
        };
        let known = self.heard().clone().filter(Complaint::is_believed);
        let words = self.words(&complaint.or_if_more_telling(known));
        let contexts = causes.take_while(|it| !is_of_kafka(*it));
        let contexts = contexts.map(ToString::to_string);
        let texts: Vec<String> = contexts.filter(|it| !words.contains(it)).collect();
        anyhow!([texts, vec![words]].concat().join(": "))
    }

    fn words(&self, complaint: &Complaint) -> String {
        let advice = match About::of(complaint.code) {
            About::Other => return complaint.words(),
            About::NoBroker | About::Connection => {
                "no Kafka broker can be reached; are --kafka-brokers and --kafka-security-protocol \
                 right?"
            }
            About::Topic => "the topic does not exist; create it: `command-api topic create`",
            About::Tls => {
                "there is no TLS with the Kafka broker; is its certificate made for this address \
                 and signed by one in --kafka-ca-file, and does it want TLS on this port?"
            }
            About::Password => {
                "Kafka refuses the name or the password; mend --kafka-username, \
                 --kafka-sasl-mechanism or the file of --kafka-password-file, and restart"
            }
            About::Rights => {
                let (rights, words) = (self.rights, complaint.words());
                return format!("Kafka does not allow it; this user needs {rights} ({words})");
            }
        };
        format!("{advice} ({})", complaint.words())
    }

    fn heard(&self) -> MutexGuard<'_, Option<Complaint>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Complaint {
    fn of(error: &KafkaError, reason: &str) -> Option<Self> {
        Some(Self {
            code: error.rdkafka_error_code()?,
            reason: reason.to_owned(),
            heard_at: Instant::now(),
        })
    }

    fn is_believed(&self) -> bool {
        self.heard_at.elapsed() < BELIEVED
    }

    /// This one, or the one that was `known` before it.
    fn or_if_more_telling(self, known: Option<Self>) -> Self {
        match known {
            Some(known)
                if About::of(known.code) > About::of(self.code)
                    || (known.code == self.code && self.reason.is_empty()) =>
            {
                known
            }
            Some(_) | None => self,
        }
    }

    /// librdkafka's words, without how long it took.
    fn words(&self) -> String {
        let reason = self.reason.split(" (after ").next().unwrap_or_default();
        if reason.is_empty() {
            self.code.to_string()
        } else {
            reason.to_owned()
        }
    }
}

impl About {
    fn of(code: RDKafkaErrorCode) -> Self {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "a foreign enum; the rest is told in its own words"
        )]
        match code {
            RDKafkaErrorCode::AllBrokersDown
            | RDKafkaErrorCode::OperationTimedOut
            | RDKafkaErrorCode::MessageTimedOut
            | RDKafkaErrorCode::PurgeQueue
            | RDKafkaErrorCode::PurgeInflight => Self::NoBroker,
            RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::Resolve => {
                Self::Connection
            }
            RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownTopicOrPartition => {
                Self::Topic
            }
            RDKafkaErrorCode::SSL => Self::Tls,
            RDKafkaErrorCode::Authentication
            | RDKafkaErrorCode::SaslAuthenticationFailed
            | RDKafkaErrorCode::UnsupportedSASLMechanism
            | RDKafkaErrorCode::IllegalSASLState => Self::Password,
            RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::GroupAuthorizationFailed
            | RDKafkaErrorCode::ClusterAuthorizationFailed => Self::Rights,
            _ => Self::Other,
        }
    }
}

impl ClientContext for KafkaTrouble {
    /// What the client says to itself; a broker that is down makes it say a lot.
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(facility, message, "librdkafka");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "librdkafka");
        self.hear(&error, reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(complaints: &[(RDKafkaErrorCode, &str)]) -> String {
        let trouble = KafkaTrouble::new("Write on the topic");
        for (code, reason) in complaints {
            trouble.hear(&KafkaError::Global(*code), reason);
        }
        trouble.told().unwrap().1
    }

    #[test]
    fn the_most_telling_complaint_is_told() {
        let vague = (RDKafkaErrorCode::AllBrokersDown, "1/1 brokers are down");
        let told = heard(&[
            vague,
            (
                RDKafkaErrorCode::Authentication,
                "sasl_ssl://broker:9092/1: invalid credentials (after 334ms in state AUTH_REQ)",
            ),
            (RDKafkaErrorCode::Authentication, ""),
            vague,
        ]);
        assert!(
            told.starts_with("Kafka refuses the name or the password; "),
            "{told}"
        );
        assert!(
            told.ends_with("(sasl_ssl://broker:9092/1: invalid credentials)"),
            "{told}"
        );
        let told = heard(&[vague]);
        assert!(
            told.contains("--kafka-brokers") && told.ends_with("(1/1 brokers are down)"),
            "{told}"
        );
        let told = heard(&[(RDKafkaErrorCode::TopicAuthorizationFailed, "")]);
        assert!(
            told.contains("needs Write on the topic (TopicAuthorizationFailed"),
            "{told}"
        );
    }

    #[test]
    fn an_error_is_told_by_the_most_telling_complaint_about_kafka() {
        let trouble = KafkaTrouble::new("");
        let timed_out = || KafkaError::MetadataFetch(RDKafkaErrorCode::OperationTimedOut);
        let told = |error| format!("{:#}", trouble.explain(error));
        let vague = told(anyhow!(timed_out()).context("can't ask"));
        assert!(
            vague.starts_with("can't ask: no Kafka broker can be reached"),
            "{vague}"
        );
        trouble.hear(&KafkaError::Global(RDKafkaErrorCode::SSL), "no certificate");
        let telling = told(anyhow!(timed_out()).context("can't ask"));
        assert!(
            telling.starts_with("can't ask: there is no TLS"),
            "{telling}"
        );
        assert!(telling.ends_with("(no certificate)"), "{telling}");
        assert_eq!(told(anyhow!("not of Kafka")).as_str(), "not of Kafka");
    }

    #[test]
    fn what_is_over_is_not_told() {
        let trouble = KafkaTrouble::new("");
        let error = KafkaError::Global(RDKafkaErrorCode::SSL);
        trouble.clone().hear(&error, "certificate verify failed");
        assert_eq!(trouble.told().unwrap().0, About::Tls);
        trouble.is_over();
        assert_eq!(trouble.told(), None);
    }
}
