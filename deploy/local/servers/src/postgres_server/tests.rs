//! Starts, adoptions and ends of servers, with processes that are killed.

use std::fs::{self, Permissions};
use std::future::Future;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use sqlx::{Connection as _, PgConnection, Row as _};
use tempfile::TempDir;

use super::account::Account;
use super::postmaster::find_running;
use super::{PostgresOptions, PostgresServer};
use holder::Holder;

mod holder;
mod temporary;

const PATIENCE: Duration = Duration::from_mins(3);

fn options(data_dir: &Path) -> PostgresOptions {
    let settings = vec![("shared_buffers".to_owned(), "16MB".to_owned())];
    PostgresOptions {
        data_dir: data_dir.to_owned(),
        settings,
        // The commits of a killed server must survive.
        durable: true,
    }
}

/// A folder that the account of the server can reach when the tests run as root.
fn data_dir() -> anyhow::Result<TempDir> {
    Ok(tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o755))
        .tempdir()?)
}

async fn eventually<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let poll = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, poll).await.expect(what);
}

fn pid_of(server: &PostgresServer) -> Pid {
    find_running(server.cluster_dir())
        .expect("the server runs")
        .pid
}

async fn write(server: &PostgresServer) -> anyhow::Result<()> {
    server.create_database_if_missing("kept").await?;
    let mut connection = PgConnection::connect(&server.url("kept")).await?;
    sqlx::query("CREATE TABLE facts AS SELECT 42 AS answer")
        .execute(&mut connection)
        .await?;
    Ok(())
}

async fn read(server: &PostgresServer) -> anyhow::Result<i32> {
    server.create_database_if_missing("kept").await?;
    let mut connection = PgConnection::connect(&server.url("kept")).await?;
    let row = sqlx::query("SELECT answer FROM facts")
        .fetch_one(&mut connection)
        .await?;
    Ok(row.try_get(0)?)
}

#[tokio::test]
async fn data_survive_stop_and_start() -> anyhow::Result<()> {
    let dir = data_dir()?;
    let server = PostgresServer::start(options(dir.path())).await?;
    assert!(!server.relocated());
    assert_eq!(
        server.cluster_dir(),
        dir.path().canonicalize()?.join("cluster")
    );
    write(&server).await?;
    let password = dir.path().join("postgres_password");
    assert_eq!(fs::metadata(&password)?.permissions().mode() & 0o777, 0o600);
    let cluster = server.cluster_dir().to_owned();
    server.stop().await?;
    assert!(find_running(&cluster).is_none());

    let server = PostgresServer::start(options(dir.path())).await?;
    assert_eq!(read(&server).await?, 42);
    server.stop().await
}

#[tokio::test]
async fn killed_server_is_detected_and_recovers() -> anyhow::Result<()> {
    let dir = data_dir()?;
    let mut server = PostgresServer::start(options(dir.path())).await?;
    write(&server).await?;
    kill(pid_of(&server), Signal::SIGKILL)?;
    let death = tokio::time::timeout(PATIENCE, server.died()).await?;
    assert!(death.to_string().contains("ended by itself"), "{death}");
    drop(server);

    let server = PostgresServer::start(options(dir.path())).await?;
    assert_eq!(read(&server).await?, 42);
    server.stop().await
}

#[tokio::test]
async fn server_of_killed_process_is_adopted() -> anyhow::Result<()> {
    let dir = data_dir()?;
    let mut holder = Holder::spawn("server", dir.path())?;
    eventually("the holder starts a server", || async {
        holder.report().is_some()
    })
    .await;
    holder.kill()?;

    let cluster = dir.path().canonicalize()?.join("cluster");
    let left_over = find_running(&cluster)
        .context("the server outlives its holder")?
        .pid;
    let mut server = PostgresServer::start(options(dir.path())).await?;
    assert_eq!(pid_of(&server), left_over);
    write(&server).await?;
    server.stop().await?;
    assert!(find_running(&cluster).is_none());

    // The death of an adopted server is noticed too.
    let mut holder = Holder::spawn("server", dir.path())?;
    eventually("the holder starts a server", || async {
        holder.report().is_some()
    })
    .await;
    holder.kill()?;
    server = PostgresServer::start(options(dir.path())).await?;
    assert_eq!(read(&server).await?, 42);
    kill(pid_of(&server), Signal::SIGKILL)?;
    tokio::time::timeout(PATIENCE, server.died()).await?;
    drop(server);
    // Frees the shared memory of the dead server.
    PostgresServer::start(options(dir.path()))
        .await?
        .stop()
        .await
}

#[tokio::test]
async fn start_waits_for_server_in_shutdown() -> anyhow::Result<()> {
    let dir = data_dir()?;
    let server = PostgresServer::start(options(dir.path())).await?;
    write(&server).await?;
    // The drop requests the shutdown without waiting.
    drop(server);
    let server = PostgresServer::start(options(dir.path())).await?;
    assert_eq!(read(&server).await?, 42);
    server.stop().await
}

#[tokio::test]
async fn second_start_on_folder_is_refused() -> anyhow::Result<()> {
    let dir = data_dir()?;
    let server = PostgresServer::start(options(dir.path())).await?;
    let error = PostgresServer::start(options(dir.path()))
        .await
        .expect_err("the folder is locked");
    let folder = dir.path().canonicalize()?;
    let expected = format!(
        "{} is in use by another linkledger process; end that process, or choose another folder",
        folder.display()
    );
    assert_eq!(format!("{error:#}"), expected);
    server.stop().await
}

#[tokio::test]
async fn interrupted_initdb_is_retried() -> anyhow::Result<()> {
    let dir = data_dir()?;
    let mut holder = Holder::spawn("server", dir.path())?;
    let unfinished = || -> Option<PathBuf> {
        let mut entries = fs::read_dir(dir.path()).ok()?.flatten();
        entries
            .find(|entry| {
                entry
                    .file_name()
                    .as_encoded_bytes()
                    .starts_with(b"cluster-setup.")
            })
            .map(|entry| entry.path())
    };
    eventually("initdb begins", || async {
        unfinished().is_some_and(|dir| dir.join("cluster/PG_VERSION").exists())
    })
    .await;
    holder.kill()?;
    assert!(holder.report().is_none());
    assert!(!dir.path().join("cluster").exists());

    let server = PostgresServer::start(options(dir.path())).await?;
    write(&server).await?;
    server.stop().await
}

#[tokio::test]
async fn pid_file_with_reused_pid_is_ignored() -> anyhow::Result<()> {
    let dir = data_dir()?;
    let server = PostgresServer::start(options(dir.path())).await?;
    write(&server).await?;
    let pid_file = server.cluster_dir().join("postmaster.pid");
    let text = fs::read_to_string(&pid_file)?;
    kill(pid_of(&server), Signal::SIGKILL)?;
    drop(server);

    let account = Account::for_clusters(&[pid_file
        .parent()
        .context("the pid file has no parent folder")?])?;
    let mut innocent = account.command(Path::new("/bin/sleep")).arg("60").spawn()?;
    let (_, rest) = text.split_once('\n').context("the pid is the first line")?;
    fs::write(&pid_file, format!("{}\n{rest}", innocent.id()))?;
    let server = PostgresServer::start(options(dir.path())).await?;
    assert_eq!(read(&server).await?, 42);
    assert!(
        innocent.try_wait()?.is_none(),
        "the other process is left alone"
    );
    innocent.kill()?;
    innocent.wait()?;
    server.stop().await
}

#[tokio::test]
async fn unknown_setting_is_named_in_one_line() -> anyhow::Result<()> {
    let dir = data_dir()?;
    let mut options = options(dir.path());
    options
        .settings
        .push(("no_such_setting".to_owned(), "1".to_owned()));
    let error = PostgresServer::start(options)
        .await
        .expect_err("the setting is unknown");
    let message = format!("{error:#}");
    assert!(
        message.contains("unrecognized configuration parameter"),
        "{message}"
    );
    assert!(
        message.contains("postgres.log") && !message.contains('\n'),
        "{message}"
    );
    Ok(())
}

#[tokio::test]
async fn cluster_is_relocated_from_closed_folder() -> anyhow::Result<()> {
    // Root must relocate the cluster; other users can enter their own folders.
    let closed = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o700))
        .tempdir()?;
    let data_dir = closed.path().join("data");
    let server = PostgresServer::start(options(&data_dir)).await?;
    assert_eq!(server.relocated(), geteuid().is_root());
    write(&server).await?;
    let cluster = server.cluster_dir().to_owned();
    server.stop().await?;

    let server = PostgresServer::start(options(&data_dir)).await?;
    assert_eq!(read(&server).await?, 42);
    server.stop().await?;
    if geteuid().is_root() {
        // After a removal of the data folder, the server has an empty cluster; the old one is kept.
        fs::remove_dir_all(&data_dir)?;
        let server = PostgresServer::start(options(&data_dir)).await?;
        write(&server).await?;
        assert!(cluster.with_extension("old").join("PG_VERSION").exists());
        server.stop().await?;
        fs::remove_dir_all(
            cluster
                .parent()
                .context("the cluster has no parent folder")?,
        )?;
    }
    Ok(())
}
