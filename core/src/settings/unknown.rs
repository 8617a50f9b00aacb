//! Refuses variables that look like misspelled settings, so that a misspelling never means a
//! default.
//!
//! Refused are unknown names with a prefix of linkledger, and names that differ by one or two
//! letters from a setting that is not set. Variables that Kubernetes creates for services, such as
//! `QUERY_API_PORT=tcp://…`, are accepted.

use super::Variables;

/// Variables of all programs: several programs may share one environment.
pub const NAMES: &[&str] = &[
    "ALLOWED_HOSTS",
    "ALLOW_UNSAFE_POSTGRES",
    "API_KEYS_CACHED_MAX",
    "BASE_URL",
    "BOT_PATTERNS_FILE",
    "CLICK_BUFFER_MIB",
    "COMMAND_API_LISTEN",
    "COMMAND_INTERNAL_LISTEN",
    "CONNECTIONS_MAX",
    "CORS_ALLOWED_ORIGINS",
    "DATABASE_URL",
    "DESTINATION_HOSTS",
    "DESTINATION_SCHEMES",
    "FETCH_WAIT_MAX_MS",
    "GEOIP_DATABASE",
    "INSTANCE_ID",
    "INTERNAL_HOSTS",
    "KAFKA_BROKERS",
    "KAFKA_CA_FILE",
    "KAFKA_CERTIFICATE_FILE",
    "KAFKA_CLICKS_TOPIC",
    "KAFKA_COMPRESSION",
    "KAFKA_KEY_FILE",
    "KAFKA_PASSWORD_FILE",
    "KAFKA_SASL_MECHANISM",
    "KAFKA_SECURITY_PROTOCOL",
    "KAFKA_TOPIC",
    "KAFKA_USERNAME",
    "LINKLEDGER_ALLOW_UNSAFE_POSTGRES",
    "LINKLEDGER_API_KEY",
    "LINKLEDGER_API_PORT",
    "LINKLEDGER_API_URL",
    "LINKLEDGER_CONSOLE_PORT",
    "LINKLEDGER_CREDITS",
    "LINKLEDGER_DATABASE_URL",
    "LINKLEDGER_DATA_DIR",
    "LINKLEDGER_KAFKA",
    "LINKLEDGER_KAFKA_BROKERS",
    "LINKLEDGER_KAFKA_CLICKS_TOPIC",
    "LINKLEDGER_KAFKA_PORT",
    "LINKLEDGER_KAFKA_TOPIC",
    "LINKLEDGER_LINK_PRICE",
    "LINKLEDGER_NO_CLICKS",
    "LINKLEDGER_OPERATOR",
    "LINKLEDGER_RATE_LIMIT",
    "LINKLEDGER_SHORT_PORT",
    "LINK_PRICE",
    "LOG_DATABASE_URL",
    "LOG_FORMAT",
    "NO_CLICKS",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "PROJECTOR_INTERNAL_LISTEN",
    "QUERY_API_LISTEN",
    "QUERY_INTERNAL_LISTEN",
    "QUERY_SHORT_LISTEN",
    "RATE_LIMIT",
    "READ_DATABASE_URL",
    "READ_REPLICA_URLS",
    "REDIRECT_CACHE_MIB",
    "REDIRECT_STALENESS_MAX_MS",
    "REDIRECT_STATUS",
    "RELAY_BATCH_INTERVAL_MS",
    "RELAY_DATABASE_URL",
    "RUST_LOG",
    "SHORT_BASE_URL",
    "TRUSTED_PROXIES",
    "WRITERS",
];

/// Prefixes of linkledger's variables.
const PREFIXES: [&str; 4] = ["LINKLEDGER_", "COMMAND_API_", "PROJECTOR_", "QUERY_API_"];

/// Variables of the local stack's file `env`, which its callers use, and of test builds.
const NO_SETTINGS: [&str; 4] = [
    "LINKLEDGER_FAIL_AT",
    "LINKLEDGER_RECORD_DIR",
    "LINKLEDGER_STOP_AT",
    "PROJECTOR_METRICS_URL",
];
const OF_TESTS: &str = "LINKLEDGER_TEST_";

/// Minimal length of a setting's name for which two letters may differ; shorter names would match
/// other words.
const LONG_NAME_LENGTH: usize = 9;

/// Returns a message about the first variable that resembles one of `settings`, the settings of this
/// program.
pub(super) fn first(settings: &[String], variables: &Variables) -> Option<String> {
    variables.iter().find_map(|(name, value)| {
        if is_known(name) || is_of_kubernetes(name, &value.to_string_lossy()) {
            return None;
        }
        let has_prefix = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        let meant = settings
            .iter()
            .filter(|setting| has_prefix || !is_set(setting, variables))
            .flat_map(|setting| [setting.clone(), format!("{setting}_FILE")])
            .find(|setting| resembles(name, setting));
        match meant {
            Some(meant) => Some(format!(
                "no setting has the variable {name}: did you mean {meant}? Rename it or unset it"
            )),
            None => has_prefix.then(|| {
                format!("no setting has the variable {name}: unset it; --help lists all variables")
            }),
        }
    })
}

fn is_known(name: &str) -> bool {
    let setting = name.strip_suffix("_FILE").unwrap_or(name);
    NAMES.contains(&name)
        || NAMES.contains(&setting)
        || NO_SETTINGS.contains(&name)
        || name.starts_with(OF_TESTS)
}

fn is_set(setting: &str, variables: &Variables) -> bool {
    variables.contains_key(setting) || variables.contains_key(&format!("{setting}_FILE"))
}

fn resembles(name: &str, setting: &str) -> bool {
    let distance_max = if setting.len() < LONG_NAME_LENGTH {
        1
    } else {
        2
    };
    setting.strip_suffix("_FILE") == Some(name)
        || strsim::osa_distance(name, setting) <= distance_max
}

/// Returns true for `REDIS_SERVICE_HOST`, `REDIS_PORT=tcp://…`, `REDIS_PORT_6379_TCP_ADDR` and
/// similar variables.
fn is_of_kubernetes(name: &str, value: &str) -> bool {
    let protocols = ["tcp", "udp", "sctp"];
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.ends_with("_PORT")
            && protocols
                .iter()
                .any(|protocol| value.starts_with(&format!("{protocol}://")))
        || name.split_once("_PORT_").is_some_and(|(_, port)| {
            let mut parts = port.split('_');
            let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
            parts.next().is_some_and(is_number)
                && parts
                    .next()
                    .is_some_and(|part| protocols.contains(&part.to_lowercase().as_str()))
        })
}
