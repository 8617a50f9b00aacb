//! Combinations of settings that are accepted, and the errors for the others.

use std::{env, fs, path::PathBuf, process};

use clap::Parser;

use super::*;
use crate::kafka_config::KafkaConfig;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    kafka: KafkaConfig,
}

fn config(arguments: &[&str]) -> KafkaConfig {
    let arguments = ["test", "--kafka-brokers", "broker:9092"]
        .iter()
        .chain(arguments);
    Cli::try_parse_from(arguments).unwrap().kafka
}

/// The error for these arguments, or an empty text, in a build with or without TLS.
fn complaint(arguments: &[&str], has_tls: bool) -> String {
    let checked = config(arguments).security.check(has_tls);
    checked.err().map(|e| e.to_string()).unwrap_or_default()
}

/// A temporary file of the test.
struct File(PathBuf);

impl File {
    fn with(name: &str, text: &str) -> Self {
        let path = env::temp_dir().join(format!("linkledger-{}-{name}", process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // A leftover file in the folder for temporary files is harmless.
        fs::remove_file(&self.0).ok();
    }
}

#[test]
fn contradicting_settings_report_one_line() {
    let sasl = ["--kafka-username", "u", "--kafka-password-file", "p"];
    for (arguments, has_tls, expected) in [
        (&[][..], false, ""),
        (
            &["--kafka-ca-file", "ca"],
            true,
            "--kafka-ca-file is for TLS",
        ),
        (
            &["--kafka-key-file", "k"],
            true,
            "--kafka-key-file is for TLS",
        ),
        (
            &["--kafka-security-protocol", "ssl", "--kafka-key-file", "k"],
            true,
            "give both or neither",
        ),
        (
            &[
                "--kafka-security-protocol",
                "SASL_SSL",
                "--kafka-username",
                "u",
            ],
            true,
            "sasl_ssl needs --kafka-username and --kafka-password-file",
        ),
        (&["--kafka-username", "u"], true, "are for SASL"),
        (&["--kafka-security-protocol", "ssl"], true, ""),
        (
            &["--kafka-security-protocol", "ssl"],
            false,
            "build with --features tls",
        ),
    ] {
        let said = complaint(arguments, has_tls);
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert_eq!(
            said.is_empty(),
            expected.is_empty(),
            "{arguments:?}: {said}"
        );
        assert!(!said.contains('\n'), "{said}");
    }
    for (protocol, mechanism, refused) in [
        ("sasl_ssl", "plain", ""),
        ("sasl_plaintext", "SCRAM-SHA-512", ""),
        ("sasl_plaintext", "scram-sha-256", ""),
        (
            "sasl_plaintext",
            "plain",
            "plain sends the password, which --kafka-security-protocol sasl_plaintext does not \
             encrypt: choose sasl_ssl",
        ),
    ] {
        let mut arguments = vec!["--kafka-security-protocol", protocol];
        arguments.extend(["--kafka-sasl-mechanism", mechanism]);
        arguments.extend(sasl);
        let said = complaint(&arguments, true);
        assert_eq!(said.is_empty(), refused.is_empty(), "{said}");
        assert!(said.contains(refused) && !said.contains('\n'), "{said}");
        let said = complaint(&arguments, false);
        let expected = if refused.is_empty() {
            "--features tls"
        } else {
            refused
        };
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn password_file_has_one_hidden_line() {
    let file = File::with("password", "hunter 2\r\n");
    let config = config(&[
        "--kafka-security-protocol",
        "sasl_ssl",
        "--kafka-sasl-mechanism",
        "plain",
        "--kafka-username",
        "relay",
        "--kafka-password-file",
        file.path(),
    ]);
    // In any build.
    let settings = config.security.settings().unwrap();
    let settings: Vec<_> = settings.iter().map(|(k, v)| (*k, &**v)).collect();
    assert_eq!(
        settings,
        [
            ("security.protocol", "sasl_ssl"),
            ("sasl.mechanism", "PLAIN"),
            ("sasl.username", "relay"),
            ("sasl.password", "hunter 2"),
        ]
    );
    assert!(!format!("{config:?}").contains("hunter"));
}

#[test]
fn unusable_file_is_named_with_flag() {
    let empty = File::with("empty", "\n");
    let two_lines = File::with("two-lines", "one\ntwo\n");
    let not_pem = File::with("not-pem", "nothing of use\n");
    for (said, parts) in [
        (
            password(Path::new("/nowhere/password")),
            [
                "--kafka-password-file: cannot read /nowhere/password",
                "No such file",
            ],
        ),
        (password(&empty.0), [empty.path(), "is empty"]),
        (password(&two_lines.0), [two_lines.path(), "only line"]),
        (
            pem_file("--kafka-ca-file", &not_pem.0, "CERTIFICATE-----"),
            ["--kafka-ca-file", "PEM"],
        ),
        (
            pem_file("--kafka-key-file", Path::new("/"), "KEY"),
            ["--kafka-key-file: cannot read /", "directory"],
        ),
    ] {
        let said = format!("{:#}", said.unwrap_err());
        for part in parts {
            assert!(said.contains(part), "{said}");
        }
        assert!(!said.contains("one") && !said.contains("two\n"), "{said}");
    }
}

#[test]
fn environment_reproduces_the_settings() {
    let told = config(&[
        "--kafka-topic",
        "events",
        "--kafka-security-protocol",
        "sasl_ssl",
        "--kafka-ca-file",
        "/ca.pem",
        "--kafka-certificate-file",
        "/certificate.pem",
        "--kafka-key-file",
        "/key.pem",
        "--kafka-sasl-mechanism",
        "scram-sha-256",
        "--kafka-username",
        "relay",
        "--kafka-password-file",
        "/password",
    ]);
    // A variable has the name of its flag.
    let flags = told.environment().into_iter().flat_map(|(name, value)| {
        let flag = name.to_ascii_lowercase().replace('_', "-");
        [format!("--{flag}"), value]
    });
    let heard = Cli::try_parse_from(["test".to_owned()].into_iter().chain(flags)).unwrap();
    assert_eq!(format!("{:?}", heard.kafka), format!("{told:?}"));
}
