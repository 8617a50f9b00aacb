//! TLS between services and Postgres: trusted certificates, and certificates that are renewed while a
//! pool is in use.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::Path,
};

use linkledger_event_store::SessionKind;
use linkledger_servers::postgres_server::{PostgresOptions, PostgresServer};
use linkledger_testing::eventually;
use sqlx::PgPool;
use tempfile::TempDir;
use url::Url;

use crate::process::data_folder;

const FIRST: [&str; 3] = [
    include_str!("postgres_tls/first-ca.pem"),
    include_str!("postgres_tls/first-server.pem"),
    include_str!("postgres_tls/first-server.key"),
];
const SECOND: [&str; 3] = [
    include_str!("postgres_tls/second-ca.pem"),
    include_str!("postgres_tls/second-server.pem"),
    include_str!("postgres_tls/second-server.key"),
];

/// A Postgres server that demands TLS, with a certificate for `localhost`.
struct SecurePostgres {
    server: PostgresServer,
    folder: TempDir,
    ca_file: String,
}

impl SecurePostgres {
    async fn start() -> Self {
        let folder = data_folder();
        let options = |settings: &[(&str, &str)]| PostgresOptions {
            data_dir: folder.path().join("postgres"),
            settings: settings
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            durable: false,
        };
        // The first start is without TLS: the folder of the cluster must exist before the certificate
        // can be written to it.
        let server = PostgresServer::start(options(&[])).await.unwrap();
        let cluster = server.cluster_dir().to_owned();
        server.stop().await.unwrap();
        write_server(&cluster, FIRST);
        let server = PostgresServer::start(options(&[("ssl", "on")]))
            .await
            .unwrap();
        let hba = "hostssl all all 127.0.0.1/32 scram-sha-256\n";
        fs::write(cluster.join("pg_hba.conf"), hba).unwrap();
        let ca_file = folder.path().join("ca.pem");
        fs::write(&ca_file, FIRST[0]).unwrap();
        let this = Self {
            server,
            ca_file: ca_file.display().to_string(),
            folder,
        };
        this.reload().await;
        eventually("connections without TLS are refused", async || {
            let url = this.url("localhost", "disable");
            linkledger_event_store::check_connection(&url).await.err()
        })
        .await;
        this
    }

    fn url(&self, host: &str, mode: &str) -> String {
        let mut url: Url = self.server.url("postgres").parse().unwrap();
        url.set_host(Some(host)).unwrap();
        url.set_query(Some(&format!(
            "sslmode={mode}&sslrootcert={}",
            self.ca_file
        )));
        url.into()
    }

    async fn reload(&self) {
        let pool = PgPool::connect(&self.url("127.0.0.1", "prefer"))
            .await
            .unwrap();
        sqlx::query("SELECT pg_reload_conf()")
            .execute(&pool)
            .await
            .unwrap();
        pool.close().await;
    }

    async fn refusal(&self, host: &str, mode: &str) -> String {
        let refused = linkledger_event_store::check_connection(&self.url(host, mode)).await;
        refused.unwrap_err().to_string()
    }
}

/// Writes certificate and key, readable by the server's account only, as Postgres demands of a key.
fn write_server(cluster: &Path, [_, certificate, key]: [&str; 3]) {
    let owner = fs::metadata(cluster).unwrap();
    for (name, text) in [("server.crt", certificate), ("server.key", key)] {
        let path = cluster.join(name);
        fs::write(&path, text).unwrap();
        chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
}

async fn is_encrypted(pool: &PgPool) -> bool {
    sqlx::query_scalar("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
        .fetch_one(pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn postgres_without_a_trusted_certificate_is_refused() {
    let postgres = SecurePostgres::start().await;
    let url = postgres.url("localhost", "verify-full");
    let pool = linkledger_event_store::pool(&url, SessionKind::Writer, 1).unwrap();
    assert!(is_encrypted(&pool).await);
    pool.close().await;

    let refusal = postgres.refusal("127.0.0.1", "verify-full").await;
    assert!(refusal.contains("not valid for name"), "{refusal}");
    let refusal = postgres.refusal("localhost", "disable").await;
    assert!(refusal.contains("no encryption"), "{refusal}");
    fs::write(&postgres.ca_file, SECOND[0]).unwrap();
    let refusal = postgres.refusal("localhost", "verify-full").await;
    assert!(refusal.contains("UnknownIssuer"), "{refusal}");
    postgres.server.stop().await.unwrap();
}

#[tokio::test]
async fn pool_accepts_renewed_postgres_certificates() {
    let postgres = SecurePostgres::start().await;
    let url = postgres.url("localhost", "verify-full");
    let pool = linkledger_event_store::pool(&url, SessionKind::Writer, 1).unwrap();
    assert!(is_encrypted(&pool).await);

    let cluster = postgres.server.cluster_dir();
    write_server(cluster, SECOND);
    postgres.reload().await;
    eventually("the server has another certificate", async || {
        let refused = linkledger_event_store::check_connection(&url).await.err()?;
        refused.to_string().contains("UnknownIssuer").then_some(())
    })
    .await;
    // The existing session stays open.
    assert!(is_encrypted(&pool).await);
    fs::write(&postgres.ca_file, SECOND[0]).unwrap();
    pool.acquire().await.unwrap().close().await.unwrap();
    assert!(is_encrypted(&pool).await);
    pool.close().await;
    postgres.server.stop().await.unwrap();
    drop(postgres.folder);
}
