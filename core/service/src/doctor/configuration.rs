//! Checks of settings that need no connection.

use std::{fs::File, str::FromStr as _};

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use url::Url;

use super::{Finding, Severity};
use crate::{
    kafka_config::KafkaConfig,
    telemetry::{self, TelemetryConfig},
};
use linkledger_core::config::{BaseUrl, is_loopback};

const DATABASE: &str = "database address";
const ENCRYPTION: &str = "encryption";
/// Parameters of a database address that name files.
const FILES: [&str; 3] = ["sslrootcert", "sslcert", "sslkey"];

/// Checks that the address is valid, that its files are readable, and that the connection is encrypted.
pub fn database(url: &str) -> Vec<Finding> {
    let check = DATABASE;
    let options = match PgConnectOptions::from_str(url) {
        Ok(options) => options,
        Err(error) => {
            let remedy = "set --database-url to postgres://user:password@host:port/name";
            return vec![Finding::error(check, error.to_string(), remedy)];
        }
    };
    let mut findings = vec![encryption(&options)];
    let url = Url::parse(url).ok();
    let parameters = url.iter().flat_map(Url::query_pairs);
    for (name, file) in parameters.filter(|(name, _)| FILES.contains(&name.as_ref())) {
        if let Err(error) = File::open(file.as_ref()) {
            let is = format!("{name}: cannot read {file}: {error}");
            let remedy = "correct the address or the permissions of the file";
            findings.push(Finding::error(check, is, remedy));
        }
    }
    findings
}

fn encryption(options: &PgConnectOptions) -> Finding {
    let check = ENCRYPTION;
    let host = options.get_host();
    if options.get_socket().is_some() || is_loopback(host) {
        return Finding::ok(check, format!("{host} is this machine"));
    }
    let mode = match options.get_ssl_mode() {
        PgSslMode::VerifyFull => {
            return Finding::ok(check, format!("TLS, and {host} must prove its name"));
        }
        PgSslMode::VerifyCa => "verify-ca",
        PgSslMode::Require => "require",
        PgSslMode::Prefer => "prefer",
        PgSslMode::Allow => "allow",
        PgSslMode::Disable => "disable",
    };
    Finding::new(
        check,
        Severity::Warning,
        format!(
            "sslmode={mode} to {host}: anybody on the network path can read and change all data"
        ),
        "add ?sslmode=verify-full&sslrootcert=FILE to the address of the database",
    )
}

/// Checks that the Kafka settings are consistent and their files are readable.
pub fn kafka(config: &KafkaConfig) -> Finding {
    match config.client_settings() {
        Ok(_) => {
            let protocol = config.security.protocol.name();
            Finding::ok("Kafka", format!("{} by {protocol}", config.brokers))
        }
        Err(error) => Finding::failed("Kafka", &error),
    }
}

/// Checks that logs and traces can be written with these settings.
pub fn telemetry(config: &TelemetryConfig) -> Finding {
    match telemetry::check(config) {
        Ok(()) => Finding::ok("telemetry", "settings are valid"),
        Err(error) => Finding::failed("telemetry", &error),
    }
}

/// Warns if the service accepts connections from other machines but announces loopback addresses.
pub fn public_addresses(listens_to_others: bool, addresses: &[(&str, &BaseUrl)]) -> Vec<Finding> {
    let findings = addresses.iter().map(|(flag, address)| {
        let host = address.url().host_str().unwrap_or_default();
        let is = format!("{flag} is {}", address.as_str());
        if listens_to_others && is_loopback(host) {
            let remedy = format!("set {flag} to the address that clients use: only this machine can reach the current one");
            Finding::new("public addresses", Severity::Warning, is, remedy)
        } else {
            Finding::ok("public addresses", is)
        }
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_database_without_verify_full_warns() {
        for (url, verdict) in [
            ("postgres://u@127.0.0.1/d", Severity::Ok),
            ("postgres://u@localhost/d?sslmode=disable", Severity::Ok),
            ("postgres://u@[::1]/d", Severity::Ok),
            ("postgres://u@%2Frun%2Fpostgresql/d", Severity::Ok),
            (
                "postgres://u@db.example/d?sslmode=verify-full",
                Severity::Ok,
            ),
            (
                "postgres://u@db.example/d?sslmode=verify-ca",
                Severity::Warning,
            ),
            (
                "postgres://u@db.example/d?sslmode=require",
                Severity::Warning,
            ),
            ("postgres://u@10.0.0.1/d", Severity::Warning),
            ("nonsense", Severity::Error),
            (
                "postgres://u@db.example/d?sslmode=verify-full&sslrootcert=/nowhere/ca.pem",
                Severity::Error,
            ),
        ] {
            let findings = database(url);
            assert_eq!(findings.last().map(|it| it.verdict), Some(verdict), "{url}");
        }
    }

    #[test]
    fn loopback_address_warns_if_publicly_listening() {
        let own: BaseUrl = "http://127.0.0.1:8080".parse().unwrap();
        let public: BaseUrl = "https://sho.rt".parse().unwrap();
        let verdicts = |listens_to_others| {
            let addresses = [("--base-url", &own), ("--short-base-url", &public)];
            let findings = public_addresses(listens_to_others, &addresses);
            findings.iter().map(|it| it.verdict).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(false), [Severity::Ok, Severity::Ok]);
        assert_eq!(verdicts(true), [Severity::Warning, Severity::Ok]);
    }
}
