//! Encryption and authentication of the connection to Kafka.

use std::{
    fs,
    path::{self, Path, PathBuf},
};

use anyhow::{Context as _, ensure};
use clap::{Args, ValueEnum};

/// True if this build's Kafka client has OpenSSL, hence TLS and SCRAM.
const HAS_TLS: bool = cfg!(feature = "tls");

linkledger_core::named_enum! {
    /// Security protocol of the connection to the brokers, by its name here and in Kafka.
    #[derive(Default, ValueEnum)]
    #[value(rename_all = "snake_case")]
    pub enum SecurityProtocol {
        /// Neither encryption nor authentication.
        #[default]
        Plaintext = "plaintext",
        /// TLS, with a client certificate if the brokers require one.
        Ssl = "ssl",
        /// User name and password, without encryption.
        SaslPlaintext = "sasl_plaintext",
        /// User name and password, over TLS.
        SaslSsl = "sasl_ssl",
    }
}

impl SecurityProtocol {
    const fn has_tls(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }

    const fn has_sasl(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }
}

linkledger_core::named_enum! {
    /// Mechanism that authenticates the user, by its name in the protocol.
    #[derive(Default, ValueEnum)]
    pub enum SaslMechanism {
        /// Proves the password without sending the password.
        #[default]
        #[value(name = "scram-sha-512")]
        ScramSha512 = "SCRAM-SHA-512",
        /// Proves the password without sending the password, with a shorter hash.
        #[value(name = "scram-sha-256")]
        ScramSha256 = "SCRAM-SHA-256",
        /// Sends the password; allowed over TLS only.
        #[value(name = "plain")]
        Plain = "PLAIN",
    }
}

/// Encryption and authentication.
#[derive(Debug, Clone, Default, Args)]
pub struct KafkaSecurity {
    /// Security of connections to Kafka: encryption (`ssl`), user name and password
    /// (`sasl_plaintext`), both (`sasl_ssl`) or neither (`plaintext`).
    #[arg(
        long = "kafka-security-protocol",
        env = "KAFKA_SECURITY_PROTOCOL",
        value_enum,
        ignore_case = true,
        default_value = "plaintext"
    )]
    pub protocol: SecurityProtocol,
    /// PEM file of the authorities that sign the brokers' certificates [default: those that this
    /// machine trusts].
    #[arg(long = "kafka-ca-file", env = "KAFKA_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// PEM file of the client certificate, for brokers that require one.
    #[arg(
        long = "kafka-certificate-file",
        env = "KAFKA_CERTIFICATE_FILE",
        value_name = "FILE"
    )]
    pub certificate_file: Option<PathBuf>,
    /// PEM file of the client certificate's private key, without a password.
    #[arg(long = "kafka-key-file", env = "KAFKA_KEY_FILE", value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Mechanism that proves the password to Kafka brokers.
    #[arg(
        long = "kafka-sasl-mechanism",
        env = "KAFKA_SASL_MECHANISM",
        value_enum,
        ignore_case = true,
        default_value = "scram-sha-512"
    )]
    pub sasl_mechanism: SaslMechanism,
    /// User name at Kafka brokers.
    #[arg(long = "kafka-username", env = "KAFKA_USERNAME", value_name = "NAME")]
    pub username: Option<String>,
    /// File with the password on one line, unreadable for other users.
    #[arg(
        long = "kafka-password-file",
        env = "KAFKA_PASSWORD_FILE",
        value_name = "FILE"
    )]
    pub password_file: Option<PathBuf>,
}

impl KafkaSecurity {
    /// Returns the environment variables that give another process, in any folder, the same
    /// settings.
    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![("KAFKA_SECURITY_PROTOCOL", self.protocol.name().to_owned())];
        for (name, file) in [
            ("KAFKA_CA_FILE", &self.ca_file),
            ("KAFKA_CERTIFICATE_FILE", &self.certificate_file),
            ("KAFKA_KEY_FILE", &self.key_file),
            ("KAFKA_PASSWORD_FILE", &self.password_file),
        ] {
            if let Some(file) = file {
                let file = path::absolute(file).unwrap_or_else(|_| file.clone());
                variables.push((name, file.display().to_string()));
            }
        }
        if let Some(username) = &self.username {
            let mechanism = self.sasl_mechanism.name().to_owned();
            variables.push(("KAFKA_SASL_MECHANISM", mechanism));
            variables.push(("KAFKA_USERNAME", username.clone()));
        }
        variables
    }

    /// Returns the settings of a librdkafka client, including the password.
    pub(super) fn client_settings(&self) -> anyhow::Result<Vec<(&'static str, String)>> {
        self.check(HAS_TLS)?;
        self.settings()
    }

    fn settings(&self) -> anyhow::Result<Vec<(&'static str, String)>> {
        let mut settings = vec![("security.protocol", self.protocol.name().to_owned())];
        for (flag, setting, marker, file) in self.pem_files() {
            settings.push((setting, pem_file(flag, file, marker)?));
        }
        if let (Some(username), Some(file)) = (&self.username, &self.password_file) {
            settings.push(("sasl.mechanism", self.sasl_mechanism.name().to_owned()));
            settings.push(("sasl.username", username.clone()));
            settings.push(("sasl.password", password(file)?));
        }
        Ok(settings)
    }

    /// Returns the given PEM files: flag, setting of librdkafka, marker in the file, path.
    fn pem_files(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str, &Path)> {
        let (ca, certificate, key) = (&self.ca_file, &self.certificate_file, &self.key_file);
        #[rustfmt::skip]
        let files = [
            ("--kafka-ca-file", "ssl.ca.location", "CERTIFICATE-----", ca),
            ("--kafka-certificate-file", "ssl.certificate.location", "CERTIFICATE-----", certificate),
            ("--kafka-key-file", "ssl.key.location", "PRIVATE KEY-----", key),
        ];
        files
            .into_iter()
            .filter_map(|(flag, setting, marker, file)| {
                Some((flag, setting, marker, file.as_deref()?))
            })
    }

    /// Checks that the settings do not contradict each other or the features of the build.
    fn check(&self, has_tls: bool) -> anyhow::Result<()> {
        let protocol = self.protocol.name();
        if let Some((flag, ..)) = self.pem_files().next() {
            ensure!(
                self.protocol.has_tls(),
                "{flag} is for TLS, which --kafka-security-protocol {protocol} does not have: \
                 choose ssl or sasl_ssl, or leave the file out"
            );
        }
        ensure!(
            self.certificate_file.is_some() == self.key_file.is_some(),
            "--kafka-certificate-file and --kafka-key-file go together: give both or neither"
        );
        let username = self.username.as_deref();
        if self.protocol.has_sasl() {
            ensure!(
                username.is_some_and(|name| !name.is_empty()) && self.password_file.is_some(),
                "--kafka-security-protocol {protocol} needs --kafka-username and --kafka-password-file"
            );
            ensure!(
                self.protocol.has_tls() || self.sasl_mechanism != SaslMechanism::Plain,
                "--kafka-sasl-mechanism plain sends the password, which \
                 --kafka-security-protocol {protocol} does not encrypt: choose sasl_ssl, or a SCRAM \
                 mechanism"
            );
        } else {
            ensure!(
                username.is_none() && self.password_file.is_none(),
                "--kafka-username and --kafka-password-file are for SASL, which \
                 --kafka-security-protocol {protocol} does not have: choose sasl_ssl, or leave them \
                 out"
            );
        }
        ensure!(
            has_tls || self.protocol == SecurityProtocol::Plaintext,
            "this build has neither TLS nor SCRAM for Kafka, which --kafka-security-protocol \
             {protocol} needs: build with --features tls"
        );
        Ok(())
    }
}

/// Returns the name of a readable PEM file that contains the marker.
fn pem_file(flag: &str, file: &Path, marker: &str) -> anyhow::Result<String> {
    let name = file.display();
    let bytes = fs::read(file).with_context(|| format!("{flag}: cannot read {name}"))?;
    let text = String::from_utf8_lossy(&bytes);
    ensure!(
        text.contains(marker),
        "{flag}: {name} has no line with `{marker}`: is it a PEM file of that kind?"
    );
    let name = file.to_str();
    Ok(name
        .with_context(|| format!("{flag}: the name of the file is not UTF-8"))?
        .to_owned())
}

fn password(file: &Path) -> anyhow::Result<String> {
    let flag = "--kafka-password-file";
    let name = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("{flag}: cannot read {name}"))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    ensure!(!line.is_empty(), "{flag}: {name} is empty");
    ensure!(
        !line.chars().any(char::is_control),
        "{flag}: {name} must have the password on its only line"
    );
    Ok(line.to_owned())
}

#[cfg(test)]
mod tests;
