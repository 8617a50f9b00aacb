//! The temporary server, owned by a process that is killed.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sqlx::{Connection as _, PgConnection, Row as _};

use super::super::temporary::TemporaryPostgres;
use super::holder::Holder;
use super::{data_dir, eventually};

#[tokio::test]
async fn killed_holder_ends_temporary_server() -> anyhow::Result<()> {
    let dir = data_dir()?;
    let mut holder = Holder::spawn("temporary", dir.path())?;
    eventually("the holder starts a server", || async {
        holder.report().is_some()
    })
    .await;
    let url = holder
        .report()
        .context("the holder has reported no address")?;
    let mut connection = PgConnection::connect(&url).await?;
    let row = sqlx::query("SHOW data_directory")
        .fetch_one(&mut connection)
        .await?;
    let cluster = PathBuf::from(row.try_get::<String, _>(0)?);
    holder.kill()?;
    eventually("the folder is removed", || async {
        !cluster.parent().is_some_and(Path::exists)
    })
    .await;
    assert!(PgConnection::connect(&url).await.is_err());
    Ok(())
}

#[test]
fn temporary_server_outlives_starting_runtime() -> anyhow::Result<()> {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
    };
    let server = runtime()?.block_on(TemporaryPostgres::start())?;
    runtime()?.block_on(PgConnection::connect(&server.url("postgres")))?;
    Ok(())
}
