//! The input of every benchmark: the server, the programs, and the number and length of the rounds.

use std::{
    env,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use clap::Args;
use linkledger_servers::cargo;
use tokio::process::Command;

use crate::{
    accounts::LoadAccount,
    data_set::{self, DataSet},
    server::BenchServer,
    stack::{BrokerKind, StackProcess},
};

/// Default number of rounds; fewer rounds would not show the noise.
const ROUNDS: u32 = 5;
/// Default length of each measurement in a round.
const SECONDS: u64 = 5;
/// Database that a benchmark works on.
const COPY: &str = "bench_copy";
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
/// Packages of the measured programs.
const PACKAGES: [&str; 4] = [
    "linkledger",
    "linkledger-command-api",
    "linkledger-projector",
    "linkledger-query-api",
];

/// Options of all benchmarks: length of the measurements, and folders.
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

/// The input of every benchmark.
pub struct BenchContext {
    /// Length of the measurements, and folders.
    pub options: BenchOptions,
    /// The Postgres server.
    pub server: BenchServer,
    /// Folder of the measured programs.
    programs: PathBuf,
}

/// A copy of a data set, with a stack on it.
pub struct Stage {
    /// Address of the database.
    pub url: String,
    /// Accounts of the data set.
    pub accounts: Vec<LoadAccount>,
    /// The running stack.
    pub stack: StackProcess,
}

impl BenchContext {
    /// Builds the programs and starts the server.
    ///
    /// # Errors
    /// Returns an error if a program can't be built or the server can't be started.
    pub async fn start(options: BenchOptions) -> anyhow::Result<Self> {
        let programs = build_programs().await?;
        let server = BenchServer::start(&options.data_dir).await?;
        Ok(Self {
            options,
            server,
            programs,
        })
    }

    /// Returns the path of a measured program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// Counts the rounds of a benchmark or of a part of one, and prints the start of each round to
    /// standard error.
    pub fn rounds(&self, what: &str) -> impl Iterator<Item = u32> + use<> {
        let (what, rounds) = (what.to_owned(), self.options.rounds);
        (1..=rounds).inspect(move |round| say(&format!("{what}: round {round} of {rounds}")))
    }

    /// Returns the duration of each measurement in a round.
    pub fn duration(&self) -> Duration {
        self.options.duration()
    }

    /// Copies a data set, in place of the copy before. Returns the address of the copy, and the
    /// accounts.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses a statement.
    pub async fn copy(&self, set: DataSet) -> anyhow::Result<(String, Vec<LoadAccount>)> {
        let url = set.copy(&self.server, COPY).await?;
        let accounts = data_set::accounts(&url).await?;
        Ok((url, accounts))
    }

    /// Copies a data set, and starts a stack on the copy.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses a statement, or if the stack does not become ready.
    pub async fn stage(&self, set: DataSet, broker: BrokerKind) -> anyhow::Result<Stage> {
        let (url, accounts) = self.copy(set).await?;
        let stack = StackProcess::start(self, &url, broker).await?;
        Ok(Stage {
            url,
            accounts,
            stack,
        })
    }
}

/// Builds the measured programs as they are shipped, beside this program; returns their folder.
async fn build_programs() -> anyhow::Result<PathBuf> {
    let this = env::current_exe().context("can't find the folder of this program")?;
    let folder = this.parent().unwrap_or(Path::new("."));
    ensure!(
        folder.ends_with("release"),
        "only programs as they are shipped are measured: cargo run --release -p linkledger-bench"
    );
    let packages = PACKAGES.iter().flat_map(|package| ["--package", package]);
    let built = Command::from(cargo::command())
        .args(["build", "--quiet", "--release", "--locked", "--bins"])
        .args(["--manifest-path", WORKSPACE])
        .args(packages)
        .status()
        .await
        .context("can't run cargo")?;
    ensure!(
        built.success(),
        "cargo build of the programs failed: {built}"
    );
    Ok(folder.to_owned())
}

#[expect(clippy::print_stderr, reason = "progress for the user")]
pub(crate) fn say(progress: &str) {
    eprintln!("{progress}");
}
