//! What every question is given: the server, the programs, and how much to measure.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use crate::{programs::Programs, server::BenchServer};

/// Fewer rounds say nothing of the noise.
const ROUNDS: u32 = 5;
/// Of each measurement within a round.
const SECONDS: u64 = 5;

/// How much to measure, and where to keep it.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Rounds of each measurement.
    #[arg(long, global = true, default_value_t = ROUNDS,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Seconds of each measurement in a round.
    #[arg(long, global = true, default_value_t = SECONDS,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,
    /// Folder of the server and its data sets.
    #[arg(
        long,
        global = true,
        value_name = "FOLDER",
        default_value = "target/bench-data"
    )]
    pub data_dir: PathBuf,
    /// Folder for the figures (JSON) and plots (SVG).
    #[arg(
        long,
        global = true,
        value_name = "FOLDER",
        default_value = "docs/performance"
    )]
    pub out: PathBuf,
}

impl Options {
    /// How long each measurement in a round takes.
    pub fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

/// What every question is given.
pub struct Bench {
    /// How much to measure.
    pub options: Options,
    /// The programs that are measured.
    pub programs: Programs,
    /// Postgres.
    pub server: BenchServer,
}

impl Bench {
    /// Builds the programs and starts the server.
    ///
    /// # Errors
    /// What could not be built or started.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let programs = Programs::build().await?;
        let server = BenchServer::start(&options.data_dir).await?;
        Ok(Self {
            options,
            programs,
            server,
        })
    }

    /// The rounds of a question, which are told to whoever waits for them.
    pub fn rounds(&self, question: &'static str) -> impl Iterator<Item = u32> + use<> {
        let rounds = self.options.rounds;
        (1..=rounds).inspect(move |round| say(&format!("{question}: round {round} of {rounds}")))
    }

    /// How long each measurement in a round takes.
    pub fn duration(&self) -> Duration {
        self.options.duration()
    }
}

#[expect(clippy::print_stderr, reason = "what a person must see")]
fn say(progress: &str) {
    eprintln!("{progress}");
}
