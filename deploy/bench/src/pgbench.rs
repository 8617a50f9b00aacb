//! pgbench, the load generator of Postgres: the baseline for the speed of the database.

use std::{env, fs, path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context as _, ensure};
use linkledger_event_store::SessionKind;
use tokio::{io::AsyncWriteExt as _, process::Command};

/// Number of lines of pgbench's errors that are shown.
const ERROR_LINES_MAX: usize = 3;

/// A script of pgbench.
#[derive(Debug, Clone, Copy)]
pub struct PgbenchScript<'a> {
    /// Statements, and meta-commands of pgbench.
    pub text: &'a str,
    /// Number of sessions at the same time.
    pub clients: u32,
    /// Variables of the script.
    pub variables: &'a [(&'a str, i64)],
}

/// Runs the script over and over, and returns transactions per second, without the time for
/// connecting. Prepared statements and the session settings of the services lead to the same plans
/// as in the services.
///
/// # Errors
/// Returns an error if pgbench is missing, or if a transaction fails.
pub async fn transactions_per_second(
    url: &str,
    script: PgbenchScript<'_>,
    duration: Duration,
) -> anyhow::Result<f64> {
    let session = linkledger_event_store::session_options(url, SessionKind::Reader)?;
    let mut command = Command::new(program()?);
    command
        .env("PGOPTIONS", session.get_options().unwrap_or_default())
        .args(["--no-vacuum", "--protocol=prepared", "--file=-"])
        .arg(format!("--client={}", script.clients))
        .arg(format!("--jobs={}", script.clients.min(2)))
        .arg(format!("--time={}", duration.as_secs()));
    for (name, value) in script.variables {
        command.arg(format!("--define={name}={value}"));
    }
    let mut child = command
        .arg(url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("can't run pgbench")?;
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(script.text.as_bytes()).await?;
    drop(stdin);
    let output = child.wait_with_output().await?;
    let printed = String::from_utf8_lossy(&output.stdout);
    // All sessions print the same errors.
    let errors = String::from_utf8_lossy(&output.stderr);
    let errors: Vec<&str> = errors.lines().take(ERROR_LINES_MAX).collect();
    let is_done = output.status.success();
    ensure!(is_done, "pgbench failed: {}", errors.join("; "));
    printed
        .lines()
        .find_map(|line| line.strip_prefix("tps = "))
        .and_then(|line| line.split_whitespace().next()?.parse().ok())
        .with_context(|| format!("pgbench prints no rate; try more --seconds: {printed}"))
}

/// Numbers of sessions that are tried.
pub const CLIENTS: [u32; 3] = [16, 32, 64];

/// Returns the number of clients with which the script, which needs no variables, is fastest.
///
/// # Errors
/// Returns an error if pgbench is missing, or if a transaction fails.
pub async fn fastest_clients(url: &str, text: &str, duration: Duration) -> anyhow::Result<u32> {
    let mut fastest = (0.0, CLIENTS[0]);
    for clients in CLIENTS {
        let script = PgbenchScript {
            text,
            clients,
            variables: &[],
        };
        let per_second = transactions_per_second(url, script, duration).await?;
        if per_second > fastest.0 {
            fastest = (per_second, clients);
        }
    }
    Ok(fastest.1)
}

/// Finds pgbench in the PATH, or beside the programs of the Postgres server.
fn program() -> anyhow::Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let versions = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    env::split_paths(&path)
        .chain(versions)
        .map(|folder| folder.join("pgbench"))
        .find(|path| path.is_file())
        .context("pgbench is missing; install the package of the Postgres server")
}
