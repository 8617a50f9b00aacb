//! Settings of webhooks that command-api and the dispatcher share.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;
use ipnet::IpNet;
use linkledger_core::webhook::{MasterKeys, UrlRules};

/// Master keys of the secrets of webhooks, and networks that may receive messages.
#[derive(Debug, Clone, Default, Args)]
pub struct WebhookConfig {
    /// File with the master keys of the secrets of webhooks: one `id:base64` a line, of at least 32 bytes; the first
    /// key makes new secrets [default: no webhooks].
    #[arg(
        id = "webhook_keys_file",
        long = "webhook-keys-file",
        env = "WEBHOOK_KEYS_FILE",
        value_name = "FILE"
    )]
    pub keys_file: Option<PathBuf>,
    /// Private networks that webhooks may reach, besides public addresses, separated by commas, such as 10.2.0.0/16;
    /// an address of such a network may be http, and have any port.
    #[arg(
        id = "webhook_allow_nets",
        long = "webhook-allow-net",
        env = "WEBHOOK_ALLOW_NETS",
        value_name = "NETWORK",
        value_delimiter = ','
    )]
    pub allow_nets: Vec<IpNet>,
}

impl WebhookConfig {
    /// Reads the master keys; `None` if no file is named.
    ///
    /// # Errors
    /// Returns an error that names the file if it cannot be read, or a line is not a key. The error shows no key.
    pub fn master_keys(&self) -> anyhow::Result<Option<MasterKeys>> {
        let Some(file) = &self.keys_file else {
            return Ok(None);
        };
        let text = fs::read_to_string(file)
            .with_context(|| format!("WEBHOOK_KEYS_FILE: cannot read {}", file.display()))?;
        let keys = MasterKeys::parse(&text)
            .map_err(|error| anyhow!("WEBHOOK_KEYS_FILE: {}: {error}", file.display()))?;
        Ok(Some(keys))
    }

    /// Returns the rules of the addresses that may receive messages.
    pub fn url_rules(&self) -> UrlRules {
        UrlRules::new(self.allow_nets.clone())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        webhooks: WebhookConfig,
    }

    fn parse(arguments: &[&str]) -> Result<WebhookConfig, clap::Error> {
        let arguments = ["x"].iter().chain(arguments);
        Cli::try_parse_from(arguments).map(|cli| cli.webhooks)
    }

    #[test]
    fn networks_are_separated_by_commas() {
        let config = parse(&["--webhook-allow-net", "127.0.0.0/8,fd00::/8"]).unwrap();
        let nets = config.allow_nets.iter().map(ToString::to_string);
        assert_eq!(nets.collect::<Vec<_>>(), ["127.0.0.0/8", "fd00::/8"]);
        let rules = config.url_rules();
        assert!(rules.allows("127.0.0.1".parse().unwrap()));
        assert!(!rules.allows("10.0.0.1".parse().unwrap()));
        assert!(parse(&["--webhook-allow-net", "127.0.0.1/33"]).is_err());
    }

    #[test]
    fn error_of_key_file_names_file_and_no_key() {
        assert!(parse(&[]).unwrap().master_keys().unwrap().is_none());
        let file = tempfile::NamedTempFile::new().unwrap();
        let config = parse(&["--webhook-keys-file", file.path().to_str().unwrap()]).unwrap();
        fs::write(file.path(), "first:c2hvcnQ=").unwrap();
        let error = format!("{:#}", config.master_keys().unwrap_err());
        assert!(error.contains(file.path().to_str().unwrap()), "{error}");
        assert!(!error.contains("c2hvcnQ="), "{error}");
        let key = format!("first:{}=\n", "A".repeat(43));
        fs::write(file.path(), key).unwrap();
        let keys = config.master_keys().unwrap().unwrap();
        assert_eq!(keys.newest_id(), "first");
        fs::remove_file(file.path()).unwrap();
        assert!(config.master_keys().is_err());
    }
}
