//! Turns errors of Kafka clients into advice for operators.
//!
//! librdkafka repeats its errors several times a second, and the vaguest error comes last. The most
//! specific error is kept until it is read, so that a blocked task logs one useful line.

use std::{
    error::Error,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::anyhow;
use rdkafka::{
    ClientContext,
    config::RDKafkaLogLevel,
    consumer::ConsumerContext,
    error::{KafkaError, RDKafkaErrorCode},
    statistics::Statistics,
};

/// Time for which an error counts if librdkafka does not repeat it: librdkafka
/// suppresses repetitions for 30 s.
const RECENT_FOR: Duration = Duration::from_mins(1);

/// Interval at which the same error is logged again.
const WARNING_INTERVAL: Duration = Duration::from_secs(30);

/// Interval of the statistics of a client, which [`KafkaErrors::take_lost_brokers`] needs.
pub const STATISTICS_INTERVAL: (&str, &str) = ("statistics.interval.ms", "10000");
/// Number of statistics in a row without a broker after which a client is replaced: after one, the client may be
/// about to connect to the configured brokers again.
const LOST_AFTER_STATISTICS: u32 = 2;

/// Reason to replace a Kafka client.
///
/// If a broker that is stopping answers a request for metadata and names no broker, librdkafka 2.12.1 forgets
/// all of them, also the configured ones, and can cancel its own return to the configured ones
/// (confluentinc/librdkafka, issue 5301).
const LOST_BROKERS: &str =
    "the Kafka client knows no broker any more, and may never connect again: replacing the client";

/// The most specific error of one Kafka client, or of several clients in turn. Clones share the
/// state.
#[derive(Debug, Clone)]
pub struct KafkaErrors {
    rights: &'static str,
    kept: Arc<Mutex<Option<KeptError>>>,
    /// Number of the last statistics in a row that name no broker.
    statistics_without_broker: Arc<AtomicU32>,
}

#[derive(Debug, Clone)]
struct KeptError {
    code: RDKafkaErrorCode,
    reason: String,
    recorded_at: Instant,
}

/// Kind of an error, from the vaguest to the most specific.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum KafkaErrorKind {
    /// No broker answers, for any reason.
    NoBroker,
    /// A broker is unreachable or closes the connection.
    Connection,
    /// Another error, described only by librdkafka.
    Other,
    /// The topic does not exist.
    Topic,
    /// The topic refuses the time of a record.
    Timestamp,
    /// TLS: certificates, or a listener without TLS.
    Tls,
    /// Authentication: the user name or the password is wrong.
    Password,
    /// Authorization: the user lacks privileges.
    Rights,
}

impl KafkaErrors {
    /// Returns a state without errors, for clients whose user needs these `rights`.
    pub fn new(rights: &'static str) -> Self {
        Self {
            rights,
            kept: Arc::default(),
            statistics_without_broker: Arc::default(),
        }
    }

    /// Records an error with librdkafka's description, which may be empty.
    pub fn record(&self, error: &KafkaError, reason: &str) {
        let Some(error) = KeptError::of(error, reason) else {
            return;
        };
        let mut kept = self.lock();
        let known = kept.take().filter(KeptError::is_recent);
        *kept = Some(error.or_more_specific(known));
    }

    /// Clears the error, and the number of statistics without a broker, after a success.
    pub fn clear(&self) {
        *self.lock() = None;
        self.statistics_without_broker.store(0, Ordering::Relaxed);
    }

    /// Returns, once, the reason to replace a client that knows no broker any more. The client needs the setting
    /// [`STATISTICS_INTERVAL`].
    pub fn take_lost_brokers(&self) -> Option<&'static str> {
        if self.statistics_without_broker.load(Ordering::Relaxed) < LOST_AFTER_STATISTICS {
            return None;
        }
        self.statistics_without_broker.store(0, Ordering::Relaxed);
        Some(LOST_BROKERS)
    }

    /// Returns the advice for the most specific error, on one line.
    pub fn most_specific(&self) -> Option<String> {
        self.recent().map(|error| self.description(&error))
    }

    /// Replaces the Kafka client's error in `error` by the advice for the most specific error.
    #[must_use]
    pub fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let causes = error.chain();
        let is_of_kafka = |cause: &(dyn Error + 'static)| cause.is::<KafkaError>();
        let of_kafka = causes
            .clone()
            .find_map(|cause| cause.downcast_ref::<KafkaError>());
        let Some(kafka_error) = of_kafka.and_then(|error| KeptError::of(error, "")) else {
            return error;
        };
        let description = self.description(&kafka_error.or_more_specific(self.recent()));
        let contexts = causes.take_while(|cause| !is_of_kafka(*cause));
        let contexts = contexts.map(ToString::to_string);
        let texts: Vec<String> = contexts
            .filter(|context| !description.contains(context))
            .collect();
        anyhow!([texts, vec![description]].concat().join(": "))
    }

    fn description(&self, error: &KeptError) -> String {
        let advice = match KafkaErrorKind::of(error.code) {
            KafkaErrorKind::Other => return error.description(),
            KafkaErrorKind::NoBroker | KafkaErrorKind::Connection => {
                "no Kafka broker can be reached; are --kafka-brokers and --kafka-security-protocol \
                 right?"
            }
            KafkaErrorKind::Topic => {
                "the topic does not exist; create it: `command-api topic create`"
            }
            KafkaErrorKind::Timestamp => {
                "the topic refuses the time of a record: correct the clock of this machine; a topic must \
                 take records of any time, `command-api topic check` prints the command"
            }
            KafkaErrorKind::Tls => {
                "there is no TLS with the Kafka broker; is its certificate made for this address \
                 and signed by one in --kafka-ca-file, and does the broker expect TLS on this port?"
            }
            KafkaErrorKind::Password => {
                "Kafka refuses the user name or the password; correct --kafka-username, \
                 --kafka-sasl-mechanism or the file of --kafka-password-file, and restart"
            }
            KafkaErrorKind::Rights => {
                let (rights, description) = (self.rights, error.description());
                return format!(
                    "Kafka denies the access; this user needs {rights} ({description})"
                );
            }
        };
        format!("{advice} ({})", error.description())
    }

    fn recent(&self) -> Option<KeptError> {
        self.lock().clone().filter(KeptError::is_recent)
    }

    fn lock(&self) -> MutexGuard<'_, Option<KeptError>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptError {
    fn of(error: &KafkaError, reason: &str) -> Option<Self> {
        Some(Self {
            code: error.rdkafka_error_code()?,
            reason: reason.to_owned(),
            recorded_at: Instant::now(),
        })
    }

    fn is_recent(&self) -> bool {
        self.recorded_at.elapsed() < RECENT_FOR
    }

    /// Returns this error, or the error `known` before if that is more specific.
    fn or_more_specific(self, known: Option<Self>) -> Self {
        match known {
            Some(known)
                if KafkaErrorKind::of(known.code) > KafkaErrorKind::of(self.code)
                    || (known.code == self.code && self.reason.is_empty()) =>
            {
                known
            }
            Some(_) | None => self,
        }
    }

    /// Returns librdkafka's description without the duration.
    fn description(&self) -> String {
        let reason = self.reason.split(" (after ").next().unwrap_or_default();
        if reason.is_empty() {
            self.code.to_string()
        } else {
            reason.to_owned()
        }
    }
}

impl KafkaErrorKind {
    fn of(code: RDKafkaErrorCode) -> Self {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "a foreign enum; other errors are described by librdkafka"
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
            RDKafkaErrorCode::InvalidTimestamp => Self::Timestamp,
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

impl ClientContext for KafkaErrors {
    /// Logs librdkafka's own lines at level debug: a broker that is down causes many lines.
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(facility, message, "librdkafka");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "librdkafka");
        self.record(&error, reason);
    }

    fn stats(&self, statistics: Statistics) {
        let is_of_cluster = |source: &str| matches!(source, "configured" | "learned");
        let mut brokers = statistics.brokers.values();
        if brokers.any(|broker| is_of_cluster(&broker.source)) {
            self.statistics_without_broker.store(0, Ordering::Relaxed);
        } else {
            self.statistics_without_broker
                .fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl ConsumerContext for KafkaErrors {}

/// Warnings of a client that retries for ever: a more specific error than before at once, any other one once per half
/// minute.
#[derive(Debug, Default)]
pub struct KafkaWarnings {
    last: Option<(KafkaErrorKind, Instant)>,
}

impl KafkaWarnings {
    /// Returns the most specific error, if it is to be logged now.
    pub fn due(&mut self, errors: &KafkaErrors) -> Option<String> {
        let error = errors.recent()?;
        let kind = KafkaErrorKind::of(error.code);
        let is_recent = |at: Instant| at.elapsed() < WARNING_INTERVAL;
        if self
            .last
            .is_some_and(|(last, at)| kind <= last && is_recent(at))
        {
            return None;
        }
        self.last = Some((kind, Instant::now()));
        Some(errors.description(&error))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rdkafka::{ClientConfig, producer::FutureProducer, statistics::Broker};

    use super::*;

    fn heard(recorded: &[(RDKafkaErrorCode, &str)]) -> String {
        let errors = KafkaErrors::new("Write on the topic");
        for (code, reason) in recorded {
            errors.record(&KafkaError::Global(*code), reason);
        }
        errors.most_specific().unwrap()
    }

    #[test]
    fn most_specific_error_is_reported() {
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
            told.starts_with("Kafka refuses the user name or the password; "),
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
        let told = heard(&[(RDKafkaErrorCode::InvalidTimestamp, ""), vague]);
        assert!(told.contains("correct the clock"), "{told}");
        let told = heard(&[(RDKafkaErrorCode::TopicAuthorizationFailed, "")]);
        assert!(
            told.contains("needs Write on the topic (TopicAuthorizationFailed"),
            "{told}"
        );
    }

    #[test]
    fn explain_uses_the_most_specific_error() {
        let errors = KafkaErrors::new("");
        let timed_out = || KafkaError::MetadataFetch(RDKafkaErrorCode::OperationTimedOut);
        let told = |error| format!("{:#}", errors.explain(error));
        let vague = told(anyhow!(timed_out()).context("cannot ask"));
        assert!(
            vague.starts_with("cannot ask: no Kafka broker can be reached"),
            "{vague}"
        );
        errors.record(&KafkaError::Global(RDKafkaErrorCode::SSL), "no certificate");
        let telling = told(anyhow!(timed_out()).context("cannot ask"));
        assert!(
            telling.starts_with("cannot ask: there is no TLS"),
            "{telling}"
        );
        assert!(telling.ends_with("(no certificate)"), "{telling}");
        assert_eq!(told(anyhow!("not of Kafka")).as_str(), "not of Kafka");
    }

    /// Returns statistics with a broker of each source.
    fn statistics(sources: &[&str]) -> Statistics {
        let brokers = sources.iter().map(|source| {
            let source = (*source).to_owned();
            let broker = Broker {
                source: source.clone(),
                ..Broker::default()
            };
            (source, broker)
        });
        Statistics {
            brokers: brokers.collect(),
            ..Statistics::default()
        }
    }

    #[test]
    fn client_without_brokers_is_reported_once() {
        let errors = KafkaErrors::new("");
        for known in ["configured", "learned"] {
            errors.stats(statistics(&["logical"]));
            assert_eq!(errors.take_lost_brokers(), None);
            errors.stats(statistics(&["logical", known]));
        }
        errors.stats(statistics(&[]));
        assert_eq!(errors.take_lost_brokers(), None);
        errors.stats(statistics(&["internal", "logical"]));
        assert_eq!(errors.take_lost_brokers(), Some(LOST_BROKERS));
        assert_eq!(errors.take_lost_brokers(), None);
    }

    #[test]
    fn client_without_bootstrap_servers_is_reported() {
        let errors = KafkaErrors::new("");
        let mut config = ClientConfig::new();
        config.set(STATISTICS_INTERVAL.0, "20");
        // Without `bootstrap.servers` a client knows no broker.
        let _client: FutureProducer<_> = config.create_with_context(errors.clone()).unwrap();
        let until = Instant::now() + Duration::from_mins(2);
        while errors.take_lost_brokers().is_none() {
            assert!(Instant::now() < until, "no statistics arrive");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn success_clears_earlier_errors() {
        let errors = KafkaErrors::new("");
        let error = KafkaError::Global(RDKafkaErrorCode::SSL);
        errors.clone().record(&error, "certificate verify failed");
        let told = errors.most_specific().unwrap();
        assert!(told.starts_with("there is no TLS"), "{told}");
        errors.clear();
        assert_eq!(errors.most_specific(), None);
    }
}
