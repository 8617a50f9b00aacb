//! Creates on a stack that runs already: the load for scripts beside which something else is looked
//! at.

use std::{io::Write as _, time::Duration};

use clap::Args;

use crate::{
    accounts,
    load::{self, Target},
    requests,
    stack::socket_address,
};

const WARM_UP: Duration = Duration::from_secs(1);

/// What is created. The addresses are those of the file `env` in the stack's folder.
#[derive(Debug, Args)]
pub struct RunningStack {
    #[arg(long, env = "API_URL", hide_env_values = true)]
    api_url: String,
    /// Of a role that may make accounts.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// Accounts that are made for it, and create in turn.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    accounts: u16,
    /// Requests at once.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// How many creates arrive in a second, whatever the stack does; without it, as many as it takes.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    per_second: Option<u32>,
}

impl RunningStack {
    /// Creates, and prints how many per second and how long they took.
    ///
    /// # Errors
    /// When an answer is another than 201, or none.
    pub async fn load(&self, duration: Duration) -> anyhow::Result<()> {
        let accounts = accounts::create(&self.database_url, self.accounts.into()).await?;
        let target = Target {
            address: socket_address(&self.api_url)?,
            connections: self.connections.into(),
            requests: requests::creates(&accounts),
            expected_status: 201,
        };
        let seen = match self.per_second {
            Some(per_second) => load::open_loop(&target, per_second.into(), duration).await?,
            None => load::closed_loop(&target, WARM_UP, duration).await?,
        };
        let seen = seen.all_expected()?;
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
