//! Data sets on a server of the benchmarks.

use std::{pin::pin, time::Duration};

use linkledger_bench::{
    data_set::{self, DataSet},
    server::BenchServer,
};
use sqlx::{Connection as _, PgConnection};
use tempfile::TempDir;
use tokio::time::sleep;

/// More accounts than shards, so that some accounts share a shard.
const SMALL: DataSet = DataSet::new(40, 30);
/// Interval at which a data set that is being made is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

#[tokio::test]
async fn complete_data_set_is_valid_and_reused() {
    let folder = TempDir::new().unwrap();
    let server = BenchServer::start(folder.path()).await.unwrap();

    // A data set that was interrupted does not exist.
    {
        let mut prepare = pin!(SMALL.prepare(&server));
        while !server.has_database("bench_half_built").await.unwrap() {
            tokio::select! {
                done = &mut prepare => panic!("{done:?} without having been half-built"),
                () = sleep(POLL_INTERVAL) => {}
            }
        }
    }
    assert!(server.databases("data_set_").await.unwrap().is_empty());

    // A data set that is made again is verified.
    let name = SMALL.prepare(&server).await.unwrap();
    assert_eq!(
        server.databases("data_set_").await.unwrap(),
        std::slice::from_ref(&name)
    );

    // A complete data set is used without making it again.
    let mut connection = PgConnection::connect(&server.url(&name)).await.unwrap();
    let mark = sqlx::query("CREATE TABLE mark ()");
    mark.execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let url = SMALL.copy(&server, "copy").await.unwrap();
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let mark = sqlx::query("SELECT FROM mark");
    mark.execute(&mut connection).await.unwrap();

    let slugs = "SELECT slug FROM read_model.links ORDER BY slug";
    let slugs: Vec<String> = sqlx::query_scalar(slugs)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let mut expected: Vec<String> = (1..=SMALL.links()).map(DataSet::slug).collect();
    expected.sort();
    assert_eq!(slugs, expected);
    assert_eq!(data_set::accounts(&url).await.unwrap().len(), 40);
    connection.close().await.unwrap();

    // The copy of a benchmark is dropped, the data set is not.
    SMALL.copy(&server, "bench_left_behind").await.unwrap();
    server.drop_copies().await.unwrap();
    assert_eq!(server.databases("bench_").await.unwrap(), ["bench_empty"]);
    assert_eq!(server.databases("data_set_").await.unwrap(), [name]);
    server.stop().await.unwrap();
}
