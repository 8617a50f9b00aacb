//! The options of the local stack, for `linkledger` and `linkledger up`.

use std::{fmt::Display, ops::RangeInclusive, path::PathBuf, str::FromStr};

use clap::{Args, ValueEnum};
use linkledger_clicks::CLICKS_TOPIC;
use linkledger_core::{
    cloud_event::TOPIC,
    credits::{BALANCE_MAX, LINK_PRICE_MAX},
};
use linkledger_service::kafka_config::{KafkaSecurity, OnOff, TopicName};

/// Default data folder, for the stack and for the commands that call the API.
pub(crate) const DATA_DIR: &str = ".linkledger";
/// Credits that the demo account gets at its creation.
const DEMO_CREDITS: i64 = 1_000_000;

/// Kind of Kafka broker that the stack starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BrokerKind {
    /// A broker inside the process; keeps only the newest events, in memory.
    Embedded,
    /// An Apache Kafka; keeps all events in the data folder; needs Java 17 or newer and Maven.
    Apache,
}

/// Options of the stack. The type is not `Debug`: the address of the database may hold a password.
#[derive(Clone, Args)]
pub(crate) struct StackOptions {
    /// Data folder of the stack: database, secrets and the file `env`.
    #[arg(long, env = "LINKLEDGER_DATA_DIR", value_name = "FOLDER", default_value = DATA_DIR)]
    pub(crate) data_dir: PathBuf,
    /// Port of the API; 0 takes a free port.
    #[arg(
        long,
        env = "LINKLEDGER_API_PORT",
        value_name = "PORT",
        default_value_t = 8080,
        value_parser = whole_number(0..=u16::MAX)
    )]
    pub(crate) api_port: u16,
    /// Port on which short links are served; 0 takes a free port.
    #[arg(
        long,
        env = "LINKLEDGER_SHORT_PORT",
        value_name = "PORT",
        default_value_t = 8081,
        value_parser = whole_number(0..=u16::MAX)
    )]
    pub(crate) short_port: u16,
    /// Port of operators: their console, and the admin API; 0 takes a free port.
    #[arg(
        long,
        env = "LINKLEDGER_ADMIN_PORT",
        value_name = "PORT",
        default_value_t = 8085,
        value_parser = whole_number(0..=u16::MAX)
    )]
    pub(crate) admin_port: u16,
    /// Postgres database of your own: postgres://user:password@host:port/name [default: a server in
    /// the data folder].
    #[arg(
        long,
        env = "LINKLEDGER_DATABASE_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) database_url: Option<String>,
    /// Accept a database of your own that loses data if its machine crashes (fsync = off).
    #[arg(long, env = "LINKLEDGER_ALLOW_UNSAFE_POSTGRES")]
    pub(crate) allow_unsafe_postgres: bool,
    /// Kafka broker that the stack starts.
    #[arg(long, env = "LINKLEDGER_KAFKA", value_name = "BROKER", value_enum, default_value_t = BrokerKind::Embedded)]
    pub(crate) kafka: BrokerKind,
    /// Port of the stack's own Kafka broker, the same after each restart [default: a free port].
    #[arg(
        long,
        env = "LINKLEDGER_KAFKA_PORT",
        value_name = "PORT",
        conflicts_with = "kafka_brokers",
        value_parser = whole_number(1..=u16::MAX)
    )]
    pub(crate) kafka_port: Option<u16>,
    /// Kafka brokers of your own: host:port, separated by commas.
    #[arg(
        long,
        env = "LINKLEDGER_KAFKA_BROKERS",
        value_name = "ADDRESSES",
        conflicts_with = "kafka"
    )]
    pub(crate) kafka_brokers: Option<String>,
    /// Kafka topic of the event stream.
    #[arg(long, env = "LINKLEDGER_KAFKA_TOPIC", value_name = "NAME", default_value = TOPIC)]
    pub(crate) kafka_topic: TopicName,
    /// Kafka topic of clicks.
    #[arg(long, env = "LINKLEDGER_KAFKA_CLICKS_TOPIC", value_name = "NAME", default_value = CLICKS_TOPIC)]
    pub(crate) kafka_clicks_topic: TopicName,
    #[command(flatten)]
    pub(crate) kafka_security: KafkaSecurity,
    /// Credits that the demo account gets at its creation.
    #[arg(long, env = "LINKLEDGER_CREDITS", default_value_t = DEMO_CREDITS,
          value_parser = whole_number(0..=BALANCE_MAX))]
    pub(crate) credits: i64,
    /// Price of a link, in credits.
    #[arg(
        long,
        env = "LINKLEDGER_LINK_PRICE",
        default_value_t = 1,
        value_name = "CREDITS",
        value_parser = whole_number(0..=LINK_PRICE_MAX)
    )]
    pub(crate) link_price: i64,
    /// Requests per second that each account may send; 0 for no limit.
    #[arg(
        long,
        env = "LINKLEDGER_RATE_LIMIT",
        default_value_t = 0,
        value_name = "PER_SECOND",
        value_parser = whole_number(0..=u32::MAX)
    )]
    pub(crate) rate_limit: u32,
    /// Record and count clicks.
    #[arg(long, env = "LINKLEDGER_CLICKS", default_value_t)]
    pub(crate) clicks: OnOff,
}

/// Makes a parser for whole numbers in a range, whose error names the range.
pub(crate) fn whole_number<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            format!("not a whole number from {least} to {most}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::whole_number;

    #[test]
    fn number_outside_the_range_names_the_range() {
        let parse = whole_number(1..=100_u32);
        assert_eq!(parse("100"), Ok(100));
        for text in ["0", "101", "-1", "1.5", "x", ""] {
            let error = "not a whole number from 1 to 100".to_owned();
            assert_eq!(parse(text), Err(error), "{text}");
        }
    }
}
