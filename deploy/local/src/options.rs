//! The options of the local stack; valid before and after a subcommand.

use std::path::PathBuf;

use clap::Args;

/// Credits of the demo account when it is created.
const DEMO_CREDITS: i64 = 1_000_000;

/// How the stack is set up. Not `Debug`: the address of the database may hold a password.
#[derive(Clone, Args)]
pub struct StackOptions {
    /// Folder for everything that must survive a restart.
    #[arg(long, global = true, default_value = ".linkledger")]
    pub data_dir: PathBuf,
    /// Port of the API.
    #[arg(long, global = true, default_value_t = 8080)]
    pub api_port: u16,
    /// Port on which short links are served.
    #[arg(long, global = true, default_value_t = 8081)]
    pub short_port: u16,
    /// A Postgres database of your own: postgres://user:password@host:port/name. Default: a
    /// server of the stack's own, from the binaries on this machine.
    #[arg(long, global = true, value_name = "URL")]
    pub database_url: Option<String>,
    /// Kafka brokers of your own: host:port, separated by commas. Default: a broker inside the
    /// process that keeps a short window in memory.
    #[arg(long, global = true, value_name = "ADDRESSES")]
    pub kafka_brokers: Option<String>,
    /// Credits of the demo account when it is created.
    #[arg(long, global = true, default_value_t = DEMO_CREDITS,
          value_parser = clap::value_parser!(i64).range(0..))]
    pub credits: i64,
    /// Requests per second of each account; 0 for no limit.
    #[arg(long, global = true, default_value_t = 0, value_name = "PER_SECOND")]
    pub rate_limit: u32,
}
