//! A load of creates on a running stack, for scripts that measure something else meanwhile.

use std::{io::Write as _, time::Duration};

use clap::Args;

use crate::{accounts, requests, stack::socket_address};

/// Options of `linkledger-bench load`. The file `env` in the data folder of the stack has the
/// addresses.
#[derive(Debug, Args)]
pub struct RunningStack {
    /// Address of the API.
    #[arg(long, env = "API_URL", hide_env_values = true)]
    api_url: String,
    /// Address of the database, with a role that may make accounts.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// Number of accounts that are made for the load, and create links in turn.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    accounts: u16,
    /// Number of requests at the same time.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// Rate of the creates, per second, whatever the stack does. Default: as many as the stack
    /// answers.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    per_second: Option<u32>,
}

impl RunningStack {
    /// Creates links, and prints rate and latencies.
    ///
    /// # Errors
    /// Returns an error if a response has another status than 201, or does not come.
    pub async fn load(&self, duration: Duration) -> anyhow::Result<()> {
        let accounts = accounts::create(&self.database_url, self.accounts.into()).await?;
        let address = socket_address(&self.api_url)?;
        let target = requests::creates(&accounts).to(address, self.connections.into());
        let seen = match self.per_second {
            Some(per_second) => target.open_loop(per_second.into(), duration).await?,
            None => target.maximum(duration).await?,
        };
        writeln!(
            std::io::stdout(),
            "creates/s {:.0}  p50 {:.1} ms  p99 {:.1} ms",
            seen.per_second(),
            seen.latency_ms(0.5),
            seen.latency_ms(0.99),
        )?;
        Ok(())
    }
}
