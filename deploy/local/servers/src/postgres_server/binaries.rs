//! Finds the installed programs `postgres` and `initdb`, or downloads both programs.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use tokio::process::Command;

use super::account::Account;
use super::data_folder::{create_public_dir, remove_leftovers};
use crate::cargo;

/// Oldest supported major version.
const MAJOR_MIN: u32 = 14;
/// Major version to download for a new cluster.
const MAJOR_DOWNLOADED: u32 = 17;
/// Timeout of the build of the downloader and of the download of 25 MB from Maven Central.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_mins(20);
/// Manifest of the program that downloads Postgres, from the top of the workspace.
const DOWNLOADER_MANIFEST: &str = "deploy/local/postgres-download/Cargo.toml";
/// Folder of its build, from the top of the workspace.
const DOWNLOADER_TARGET_DIR: &str = "target/postgres-download";
/// Parents of version folders, each with the prefix of a version folder's name: Debian, RPM, Homebrew,
/// macOS.
const USUAL_PLACES: [(&str, &str); 5] = [
    ("/usr/lib/postgresql", ""),
    ("/usr", "pgsql-"),
    ("/opt/homebrew/opt", "postgresql@"),
    ("/usr/local/opt", "postgresql@"),
    ("/Applications/Postgres.app/Contents/Versions", ""),
];
/// Prefix of the folder of an incomplete download.
const UNPACKING: &str = "unpacking.";

/// Folder of both programs.
#[derive(Debug, Clone)]
pub(super) struct Binaries {
    dir: PathBuf,
}

impl Binaries {
    pub(super) fn postgres(&self) -> PathBuf {
        self.dir.join("postgres")
    }

    pub(super) fn initdb(&self) -> PathBuf {
        self.dir.join("initdb")
    }
}

/// Finds installed programs, of the wanted major version if given, or else downloads the programs.
pub(super) async fn find_or_download(
    home: &Path,
    wanted: Option<u32>,
    account: Account,
) -> anyhow::Result<Binaries> {
    let downloads = home.join("postgres-binaries");
    let candidates = candidate_dirs(&downloads).await;
    if let Some(binaries) = find_in(&candidates, wanted, account).await? {
        return Ok(binaries);
    }
    let download = download(&downloads, wanted.unwrap_or(MAJOR_DOWNLOADED), account);
    download.await.context(
        "no PostgreSQL found and none could be downloaded: install PostgreSQL 14 or newer \
         (Debian: apt-get install postgresql) or pass --database-url",
    )
}

/// Returns the first of these folders whose programs this account can run, or `None`.
///
/// # Errors
/// Returns an error if only other versions than the wanted one are installed: a cluster can only be
/// opened by the major version that created the cluster.
pub(super) async fn find_in(
    candidates: &[PathBuf],
    wanted: Option<u32>,
    account: Account,
) -> anyhow::Result<Option<Binaries>> {
    let mut others = BTreeSet::new();
    for dir in candidates {
        let Some(major) = probe(dir, account).await else {
            continue;
        };
        if major >= MAJOR_MIN && wanted.is_none_or(|wanted| wanted == major) {
            return Ok(Some(Binaries { dir: dir.clone() }));
        }
        others.insert(major);
    }
    match wanted {
        Some(wanted) if !others.is_empty() => anyhow::bail!(
            "the cluster was created by PostgreSQL {wanted}, but only {others:?} are installed: \
             install PostgreSQL {wanted}, or move the data folder away to start with an empty cluster"
        ),
        _ => Ok(None),
    }
}

async fn candidate_dirs(downloads: &Path) -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = env::split_paths(&path)
        // A symbolic link in PATH leads to the folder that also has `initdb`.
        .filter_map(|dir| fs::canonicalize(dir.join("postgres")).ok())
        .filter_map(|program| program.parent().map(Path::to_owned))
        .collect();
    if let Ok(output) = Command::new("pg_config").arg("--bindir").output().await {
        dirs.push(String::from_utf8_lossy(&output.stdout).trim().into());
    }
    for (parent, prefix) in USUAL_PLACES {
        dirs.extend(version_dirs(Path::new(parent), prefix));
    }
    dirs.push("/usr/local/pgsql/bin".into());
    dirs.extend(version_dirs(downloads, ""));
    dirs
}

/// Returns the folders `<parent>/<prefix><version>/bin`, the highest version first.
fn version_dirs(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut versions: Vec<(Vec<u32>, PathBuf)> = Vec::new();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let version = name.to_str().and_then(|name| name.strip_prefix(prefix));
        let numbers = version.map(|version| version.split('.').map(str::parse).collect());
        if let Some(Ok(numbers)) = numbers {
            versions.push((numbers, entry.path().join("bin")));
        }
    }
    versions.sort_by(|a, b| b.cmp(a));
    versions.into_iter().map(|(_, dir)| dir).collect()
}

/// Returns the major version, or `None` if the server's account cannot run the programs.
async fn probe(dir: &Path, account: Account) -> Option<u32> {
    if !dir.join("initdb").is_file() {
        return None;
    }
    let mut command = Command::from(account.command(&dir.join("postgres")));
    let output = command.arg("--version").output().await.ok()?;
    parse_major(&String::from_utf8_lossy(&output.stdout))
}

/// Parses a major version: `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)` is 15.
fn parse_major(version: &str) -> Option<u32> {
    let (_, version) = version.split_once("(PostgreSQL) ")?;
    let digits = version.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Downloads Postgres. Unpacks under a temporary name and renames, so that a crash leaves no
/// incomplete folder under the final name.
async fn download(downloads: &Path, major: u32, account: Account) -> anyhow::Result<Binaries> {
    create_public_dir(downloads)?;
    remove_leftovers(downloads, UNPACKING)?;
    let beside = tempfile::Builder::new()
        .prefix(UNPACKING)
        .tempdir_in(downloads)?;
    let unpacked = beside.path().join("unpacked");
    let version = run_downloader(major, &unpacked).await?;
    account.take_all(&unpacked)?;
    account.take(downloads)?;

    let dir = downloads.join(&version);
    fs::rename(&unpacked, &dir)
        .with_context(|| format!("cannot move the download to {}", dir.display()))?;
    tracing::info!("downloaded PostgreSQL {version} to {}", dir.display());
    find_in(&[dir.join("bin")], Some(major), account)
        .await?
        .with_context(|| format!("the PostgreSQL in {} does not run here", dir.display()))
}

/// Returns the top of the workspace in which cargo has started or built this program. A program that is
/// installed elsewhere has none.
fn workspace() -> Option<PathBuf> {
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let program = env::current_exe().ok();
    let starts = [package, program].into_iter().flatten();
    let mut folders = starts.flat_map(|start| {
        let folders: Vec<PathBuf> = start.ancestors().map(Path::to_owned).collect();
        folders
    });
    folders.find(|folder| folder.join(DOWNLOADER_MANIFEST).exists())
}

/// Builds and runs, with cargo, the program that downloads Postgres into `folder`. Returns the version.
///
/// A separate program downloads, so that TLS and archives are compiled only if needed.
async fn run_downloader(major: u32, folder: &Path) -> anyhow::Result<String> {
    let workspace = workspace().context(
        "no PostgreSQL found, and the download needs the source tree of linkledger: install \
         PostgreSQL 14 or later (Debian: apt-get install postgresql)",
    )?;
    tracing::warn!(
        "no PostgreSQL found: building the program that downloads it, then downloading PostgreSQL {major}; \
         this takes some minutes, once"
    );
    let mut command = Command::from(cargo::command());
    command
        .args(["run", "--quiet", "--locked"])
        .args(["--manifest-path", DOWNLOADER_MANIFEST])
        .args(["--target-dir", DOWNLOADER_TARGET_DIR])
        // Cargo reads the settings of the workspace by the current folder.
        .current_dir(workspace);
    command.arg("--").arg(major.to_string()).arg(folder);
    let output = tokio::time::timeout(DOWNLOAD_TIMEOUT, command.kill_on_drop(true).output())
        .await
        .context("the download of PostgreSQL timed out; run the command again")?
        .context(
            "cannot run cargo, which builds the download; or install PostgreSQL 14 or later",
        )?;
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{}", errors.trim_end());
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use tempfile::TempDir;

    use super::*;
    use crate::test_programs::create_program;

    /// Creates programs that print this version.
    fn fake(version: &str) -> anyhow::Result<TempDir> {
        let public = || Permissions::from_mode(0o755);
        let dir = tempfile::Builder::new().permissions(public()).tempdir()?;
        for program in ["postgres", "initdb"] {
            let script = format!("echo 'postgres (PostgreSQL) {version}'");
            create_program(&dir.path().join(program), &script)?;
        }
        Ok(dir)
    }

    async fn find(dirs: &[&TempDir], wanted: Option<u32>) -> anyhow::Result<Option<PathBuf>> {
        let dirs: Vec<PathBuf> = dirs.iter().map(|dir| dir.path().to_owned()).collect();
        let found = find_in(&dirs, wanted, Account::for_clusters(&[])?).await?;
        Ok(found.map(|binaries| binaries.dir))
    }

    #[test]
    fn major_version_is_parsed() {
        assert_eq!(
            parse_major("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"),
            Some(15)
        );
        assert_eq!(parse_major("postgres (PostgreSQL) 19beta1\n"), Some(19));
        assert_eq!(parse_major("something else 15"), None);
    }

    #[tokio::test]
    async fn first_usable_folder_wins() -> anyhow::Result<()> {
        let (old, first, second) = (fake("13.9")?, fake("16.2")?, fake("17.1")?);
        let incomplete = fake("18.0")?;
        fs::remove_file(incomplete.path().join("initdb"))?;
        let found = find(&[&incomplete, &old, &first, &second], None).await?;
        assert_eq!(found.as_deref(), Some(first.path()));
        assert_eq!(find(&[&incomplete, &old], None).await?, None);
        assert_eq!(find(&[], Some(15)).await?, None);
        Ok(())
    }

    #[tokio::test]
    async fn cluster_needs_programs_of_same_major_version() -> anyhow::Result<()> {
        let (newer, matching) = (fake("17.1")?, fake("16.2")?);
        let found = find(&[&newer, &matching], Some(16)).await?;
        assert_eq!(found.as_deref(), Some(matching.path()));
        let error = find(&[&newer], Some(16))
            .await
            .expect_err("only 17 is there")
            .to_string();
        assert!(
            error.contains("created by PostgreSQL 16, but only {17} are installed"),
            "{error}"
        );
        Ok(())
    }

    #[test]
    fn highest_version_folder_comes_first() -> anyhow::Result<()> {
        let dir = tempfile::tempdir()?;
        for name in [
            "pg-9.6",
            "pg-15",
            "pg-15.10.0",
            "pg-15.9.0",
            "pg-latest",
            "other",
        ] {
            fs::create_dir(dir.path().join(name))?;
        }
        let found = version_dirs(dir.path(), "pg-");
        let expected = ["pg-15.10.0", "pg-15.9.0", "pg-15", "pg-9.6"];
        assert_eq!(
            found,
            expected.map(|name| dir.path().join(name).join("bin"))
        );
        Ok(())
    }
}
