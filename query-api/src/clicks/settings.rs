//! Settings of the recording of clicks.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use linkledger_clicks::{BotPatterns, TrustedProxy};
use linkledger_service::kafka_config::{ClicksConfig, KafkaConfig, KafkaSecurity, OnOff};

use super::countries::Countries;

/// Settings of the recording of clicks, without which query-api only reads and redirects.
#[derive(Debug, Clone, clap::Args)]
pub struct ClickSettings {
    #[command(flatten)]
    pub stream: ClicksConfig,
    /// Addresses of Kafka brokers: host:port, separated by commas; required unless --clicks off is given.
    #[arg(long, env = "KAFKA_BROKERS")]
    pub kafka_brokers: Option<String>,
    #[command(flatten)]
    pub kafka_security: KafkaSecurity,
    /// Networks of proxies that report addresses of clients in Forwarded or X-Forwarded-For, such as
    /// 10.0.0.0/8, separated by commas; none by default: the peer is the client.
    #[arg(long, env = "TRUSTED_PROXIES", value_delimiter = ',')]
    pub trusted_proxies: Vec<TrustedProxy>,
    /// File that maps IP addresses to countries, in the format `.mmdb`; without it, clicks have no
    /// country.
    #[arg(long, env = "GEOIP_DATABASE")]
    pub geoip_database: Option<PathBuf>,
    /// File that replaces the built-in rules for user agents of bots; core/clicks/src/bots.txt explains the format.
    #[arg(long, env = "BOT_PATTERNS_FILE")]
    pub bot_patterns_file: Option<PathBuf>,
    /// Memory for clicks that Kafka has not acknowledged, in MiB. Further clicks are counted without details,
    /// in up to as much memory again; clicks beyond that are lost.
    #[arg(long, env = "CLICK_BUFFER_MIB", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub click_buffer_mib: u32,
}

/// Files of the settings, read.
pub(crate) struct ClickFiles {
    pub(super) bots: BotPatterns,
    pub(super) countries: Option<Countries>,
}

impl ClickSettings {
    /// Returns settings that record no clicks.
    pub fn off() -> Self {
        Self {
            stream: ClicksConfig {
                clicks: OnOff::Off,
                ..ClicksConfig::default()
            },
            kafka_brokers: None,
            kafka_security: KafkaSecurity::default(),
            trusted_proxies: Vec::new(),
            geoip_database: None,
            bot_patterns_file: None,
            click_buffer_mib: 64,
        }
    }

    /// Returns the settings of the connection to the topic of clicks; `None` if no clicks are recorded.
    ///
    /// # Errors
    /// Returns an error if clicks are recorded and no broker is given.
    pub fn kafka(&self) -> anyhow::Result<Option<KafkaConfig>> {
        if !self.stream.are_on() {
            return Ok(None);
        }
        let brokers = self.kafka_brokers.clone().unwrap_or_default();
        ensure!(
            !brokers.trim().is_empty(),
            "--kafka-brokers is missing (KAFKA_BROKERS): clicks are published to Kafka; give host:port, \
             separated by commas, or --clicks off"
        );
        Ok(Some(KafkaConfig {
            brokers,
            topic: self.stream.clicks_topic.clone(),
            security: self.kafka_security.clone(),
        }))
    }

    /// Reads the files of the settings.
    ///
    /// # Errors
    /// Returns an error that names the setting whose file cannot be used.
    pub(crate) fn read_files(&self) -> anyhow::Result<ClickFiles> {
        let bots = match &self.bot_patterns_file {
            None => BotPatterns::built_in(),
            Some(path) => {
                let list = std::fs::read_to_string(path);
                let list = list.map_err(anyhow::Error::new);
                let bots = list.and_then(|list| Ok(BotPatterns::parse(&list)?));
                bots.with_context(|| format!("cannot use --bot-patterns-file {}", path.display()))?
            }
        };
        let countries = self.geoip_database.as_deref().map(|path| {
            let opened = Countries::open(path);
            opened.with_context(|| format!("cannot use --geoip-database {}", path.display()))
        });
        Ok(ClickFiles {
            bots,
            countries: countries.transpose()?,
        })
    }

    /// Returns the memory for unacknowledged clicks, in bytes.
    pub(super) fn buffer_bytes(&self) -> usize {
        usize::try_from(u64::from(self.click_buffer_mib) << 20).unwrap_or(usize::MAX)
    }
}
