//! The programs that are measured, as they are shipped: the release build.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};
use tokio::process::Command;

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
const PACKAGES: [&str; 4] = [
    "linkledger",
    "linkledger-command-api",
    "linkledger-projector",
    "linkledger-query-api",
];

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// Builds them beside this program.
    ///
    /// # Errors
    /// When this program is not of the release build itself, or the build fails.
    pub async fn build() -> anyhow::Result<Self> {
        let this = env::current_exe().context("can't tell where this program lies")?;
        let folder = this.parent().unwrap_or(Path::new("."));
        ensure!(
            folder.ends_with("release"),
            "only the release build is measured: cargo run --release -p linkledger-bench"
        );
        let packages = PACKAGES.iter().flat_map(|package| ["--package", package]);
        let built = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()))
            .args(["build", "--quiet", "--release", "--locked", "--bins"])
            .args(["--manifest-path", WORKSPACE])
            .args(packages)
            .status()
            .await
            .context("can't run cargo")?;
        ensure!(built.success(), "cargo build has failed: {built}");
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// The program of that name.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}
