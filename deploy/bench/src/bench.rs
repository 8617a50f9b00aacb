//! The input of every question: the server, the programs, and the number and length of the rounds.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use crate::{programs::ReleasePrograms, server::BenchServer};

/// Default number of rounds; fewer rounds would not show the noise.
const ROUNDS: u32 = 5;
/// Default length of each measurement in a round.
const SECONDS: u64 = 5;

/// Options of all questions: length of the measurements, and folders.
#[derive(Debug, Clone, Args)]
pub struct BenchOptions {
    /// Number of rounds of each measurement.
    #[arg(long, global = true, default_value_t = ROUNDS,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Duration of each measurement in a round, in seconds.
    #[arg(long, global = true, default_value_t = SECONDS,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,
    /// Folder of the Postgres server and the data sets.
    #[arg(
        long,
        global = true,
        value_name = "FOLDER",
        default_value = "target/bench-data"
    )]
    pub data_dir: PathBuf,
    /// Folder for the figures (JSON) and the plots (SVG).
    #[arg(
        long,
        global = true,
        value_name = "FOLDER",
        default_value = "docs/performance"
    )]
    pub out: PathBuf,
}

impl BenchOptions {
    /// Returns the duration of each measurement in a round.
    pub fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

/// The input of every question.
pub struct BenchContext {
    /// Length of the measurements, and folders.
    pub options: BenchOptions,
    /// Programs that are measured.
    pub programs: ReleasePrograms,
    /// The Postgres server.
    pub server: BenchServer,
}

impl BenchContext {
    /// Builds the programs and starts the server.
    ///
    /// # Errors
    /// Returns an error if a program can't be built or the server can't be started.
    pub async fn start(options: BenchOptions) -> anyhow::Result<Self> {
        let programs = ReleasePrograms::build().await?;
        let server = BenchServer::start(&options.data_dir).await?;
        Ok(Self {
            options,
            programs,
            server,
        })
    }

    /// Counts the rounds of a question or of a part of one, and prints the start of each round to standard error.
    pub fn rounds(&self, question: &str) -> impl Iterator<Item = u32> + use<> {
        let (question, rounds) = (question.to_owned(), self.options.rounds);
        (1..=rounds).inspect(move |round| say(&format!("{question}: round {round} of {rounds}")))
    }

    /// Returns the duration of each measurement in a round.
    pub fn duration(&self) -> Duration {
        self.options.duration()
    }
}

#[expect(clippy::print_stderr, reason = "progress for the user")]
fn say(progress: &str) {
    eprintln!("{progress}");
}
