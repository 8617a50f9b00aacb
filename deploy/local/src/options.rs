//! The options of the local stack: of `linkledger` and `linkledger up`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use linkledger_core::{
    cloud_event::TOPIC,
    kafka_config::{KafkaSecurity, TopicName},
};

/// Where the stack keeps its data, and where the other commands look for it.
pub(crate) const DATA_DIR: &str = ".linkledger";
/// Credits of the demo account when it is created.
const DEMO_CREDITS: i64 = 1_000_000;

/// A broker of the stack's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BrokerKind {
    /// Inside the process; keeps a short window in memory.
    Embedded,
    /// An Apache Kafka, which keeps the whole history in the data folder; needs Java 17 or newer
    /// and Maven.
    Apache,
}

/// How the stack is set up. Not `Debug`: the address of the database may hold a password.
#[derive(Clone, Args)]
pub(crate) struct StackOptions {
    /// Folder for everything that must survive a restart.
    #[arg(long, env = "LINKLEDGER_DATA_DIR", value_name = "FOLDER", default_value = DATA_DIR)]
    pub(crate) data_dir: PathBuf,
    /// Port of the API; 0 takes a free one.
    #[arg(
        long,
        env = "LINKLEDGER_API_PORT",
        value_name = "PORT",
        default_value_t = 8080
    )]
    pub(crate) api_port: u16,
    /// Port on which short links are served; 0 takes a free one.
    #[arg(
        long,
        env = "LINKLEDGER_SHORT_PORT",
        value_name = "PORT",
        default_value_t = 8081
    )]
    pub(crate) short_port: u16,
    /// A Postgres database of your own: postgres://user:password@host:port/name. Default: a
    /// server of the stack's own, from the binaries on this machine.
    #[arg(
        long,
        env = "LINKLEDGER_DATABASE_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) database_url: Option<String>,
    /// Take a database of your own that can be lost when its machine crashes (fsync off).
    #[arg(long, env = "LINKLEDGER_ALLOW_UNSAFE_POSTGRES")]
    pub(crate) allow_unsafe_postgres: bool,
    /// The Kafka broker that the stack starts.
    #[arg(long, env = "LINKLEDGER_KAFKA", value_name = "BROKER", value_enum, default_value_t = BrokerKind::Embedded)]
    pub(crate) kafka: BrokerKind,
    /// Kafka brokers of your own, instead: host:port, separated by commas.
    #[arg(
        long,
        env = "LINKLEDGER_KAFKA_BROKERS",
        value_name = "ADDRESSES",
        conflicts_with = "kafka"
    )]
    pub(crate) kafka_brokers: Option<String>,
    /// Name of the topic with the event stream.
    #[arg(long, env = "LINKLEDGER_KAFKA_TOPIC", value_name = "NAME", default_value = TOPIC)]
    pub(crate) kafka_topic: TopicName,
    #[command(flatten)]
    pub(crate) kafka_security: KafkaSecurity,
    /// Credits of the demo account when it is created.
    #[arg(long, env = "LINKLEDGER_CREDITS", default_value_t = DEMO_CREDITS,
          value_parser = clap::value_parser!(i64).range(0..))]
    pub(crate) credits: i64,
    /// Requests per second of each account; 0 for no limit.
    #[arg(
        long,
        env = "LINKLEDGER_RATE_LIMIT",
        default_value_t = 0,
        value_name = "PER_SECOND"
    )]
    pub(crate) rate_limit: u32,
}
