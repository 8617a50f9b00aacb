//! The measured programs, built as they are shipped: with the profile `release`.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};
use linkledger_servers::cargo;
use tokio::process::Command;

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
const PACKAGES: [&str; 4] = [
    "linkledger",
    "linkledger-command-api",
    "linkledger-projector",
    "linkledger-query-api",
];

/// Folder of the programs.
#[derive(Debug, Clone)]
pub struct ReleasePrograms {
    folder: PathBuf,
}

impl ReleasePrograms {
    /// Builds the programs beside this program.
    ///
    /// # Errors
    /// Returns an error if this program is not built with the profile `release`, or if the build fails.
    pub async fn build() -> anyhow::Result<Self> {
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
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// Returns the path of a program.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}
