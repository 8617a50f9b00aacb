//! The baselines of creates write the same rows as the service for the same creates.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use linkledger_bench::{
    accounts::LoadAccount,
    create_baseline as baseline,
    data_set::{self, DataSet},
    requests,
    server::BenchServer,
};
use linkledger_command_api::config::{CommandApiConfig, DatabaseConfig};
use linkledger_core::{
    clock::SystemClock,
    link::{DestinationHosts, DestinationSchemes},
};
use linkledger_http::authentication::KEYS_CACHED_MAX;
use linkledger_service::{
    internal_listener::AdminAllowedHosts,
    lifecycle::{self, Tasks},
    webhook_config::WebhookConfig,
};
use linkledger_testing::TestBroker;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Number of accounts that one statement of the baseline needs.
const ACCOUNTS: DataSet = DataSet::new(baseline::CREATES_AT_ONCE, 0);
const LOAD_TIME: Duration = Duration::from_secs(3);
/// Largest difference between the mean widths of a column; numbers in texts differ in their digits.
const WIDTH_TOLERANCE: f64 = 0.04;

#[tokio::test]
async fn baselines_write_the_rows_of_the_service() {
    let folder = TempDir::new().unwrap();
    let server = BenchServer::start(folder.path()).await.unwrap();

    let (url, accounts) = fresh(&server, "service").await;
    create_by_service(&url, &accounts).await;
    let service = Written::read(&url).await;
    service.assert_is_sound();

    let (url, accounts) = fresh(&server, "one_by_one").await;
    let per_second = baseline::one_by_one_per_second(&url, &accounts, 4, LOAD_TIME).await;
    let one_by_one = Written::read(&url).await;
    one_by_one.assert_is_sound();
    one_by_one.assert_is_like(&service);
    assert!(per_second.unwrap() > 0.0);

    let (url, accounts) = fresh(&server, "many_at_once").await;
    let per_second = baseline::many_at_once_per_second(&url, &accounts, LOAD_TIME).await;
    let many_at_once = Written::read(&url).await;
    many_at_once.assert_is_sound();
    many_at_once.assert_is_like(&service);
    assert!(per_second.unwrap() > 0.0);

    let too_few = baseline::many_at_once_per_second(&url, &accounts[1..], LOAD_TIME).await;
    assert!(too_few.unwrap_err().to_string().contains("there are 99"));
    server.stop().await.unwrap();
}

async fn fresh(server: &BenchServer, database: &str) -> (String, Vec<LoadAccount>) {
    let url = ACCOUNTS.copy(server, database).await.expect("a database");
    let accounts = data_set::accounts(&url).await.expect("accounts");
    (url, accounts)
}

async fn create_by_service(url: &str, accounts: &[LoadAccount]) {
    let broker = TestBroker::embedded();
    let config = CommandApiConfig {
        database: DatabaseConfig {
            database_url: url.to_owned().into(),
            log_database_url: None,
        },
        relay_database_url: None,
        allow_unsafe_postgres: true,
        kafka: broker.config(),
        kafka_compression: "none".to_owned(),
        relay_batch_interval_ms: 20,
        base_url: "http://127.0.0.1:40000".parse().expect("an address"),
        short_base_url: "http://127.0.0.1:40001".parse().expect("an address"),
        link_price: 1,
        destination_schemes: DestinationSchemes::default(),
        destination_hosts: DestinationHosts::default(),
        rate_limit: 0,
        allowed_hosts: Vec::new(),
        cors_allowed_origins: Vec::new(),
        writer_threads: 1,
        instance_id: None,
        api_keys_cached_max: KEYS_CACHED_MAX,
        admin_allowed_hosts: AdminAllowedHosts::default(),
        webhooks: WebhookConfig::default(),
    };
    let mut tasks = Tasks::new(CancellationToken::new());
    let service = linkledger_command_api::start(config, Arc::new(SystemClock), &mut tasks);
    let router = service.await.expect("the service starts").router;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    lifecycle::serve(&mut tasks, "command-api", listener, router);
    let target = requests::creates(accounts).to(address, 4);
    let seen = target.open_loop(200.0, LOAD_TIME).await;
    seen.expect("links are created");
    tasks.shutdown().cancel();
    tasks.join().await.expect("a clean end");
}

/// Description of the rows in a database after creates.
struct Written {
    /// Number of rows by kind: a type of event, or slugs.
    rows: BTreeMap<String, i64>,
    /// Mean widths in bytes, by kind and column; `None` if the column is empty.
    widths: BTreeMap<(String, String), Option<f64>>,
    /// Members of payloads and metadata, by kind.
    members: Vec<(String, String)>,
    /// Contradictions between rows.
    contradictions: Vec<String>,
}

impl Written {
    async fn read(url: &str) -> Self {
        let mut connection = PgConnection::connect(url).await.expect("a session");
        let rows = sqlx::query_as(
            "SELECT type, count(*) FROM event_store.events
             WHERE type IN ('LinkCreated', 'CreditsCharged') GROUP BY type
             UNION ALL SELECT 'slug', count(*) FROM event_store.slugs",
        );
        let rows: Vec<_> = rows.fetch_all(&mut connection).await.expect("rows");
        let members = sqlx::query_as(
            "SELECT DISTINCT type, member
             FROM event_store.events,
                  LATERAL (SELECT json_object_keys(payload) UNION ALL
                           SELECT 'metadata: ' || json_object_keys(metadata)) AS m (member)
             WHERE type IN ('LinkCreated', 'CreditsCharged') ORDER BY 1, 2",
        );
        let members = members.fetch_all(&mut connection).await.expect("rows");
        let contradictions = sqlx::query_scalar(
            "SELECT 'shard ' || shard || ' has gaps'
             FROM event_store.log_shards AS s
             WHERE head <> (SELECT count(*) FROM event_store.events AS e WHERE e.shard = s.shard)
                OR head <> (SELECT coalesce(max(position), 0) FROM event_store.events AS e
                            WHERE e.shard = s.shard)
             UNION ALL
             SELECT 'an account has another version or balance than its events say'
             FROM event_store.accounts AS a
             JOIN event_store.events AS e ON e.stream_id = a.account_id
             GROUP BY a.account_id
             HAVING a.version <> count(*)
                OR a.balance <> 1000000000 - count(*) FILTER (WHERE e.type = 'CreditsCharged')",
        );
        let contradictions = contradictions
            .fetch_all(&mut connection)
            .await
            .expect("rows");
        let mut widths = BTreeMap::new();
        for (table, kind) in [("events", "type"), ("slugs", "'slug'")] {
            add_widths(&mut widths, &mut connection, (table, kind)).await;
        }
        connection.close().await.expect("the session ends");
        Self {
            rows: rows.into_iter().collect(),
            widths,
            members,
            contradictions,
        }
    }

    fn assert_is_sound(&self) {
        assert_eq!(self.contradictions, Vec::<String>::new());
        let kinds: Vec<&str> = self.rows.keys().map(String::as_str).collect();
        assert_eq!(kinds, ["CreditsCharged", "LinkCreated", "slug"]);
        let creates = self.rows["LinkCreated"];
        assert!(creates > 0);
        assert!(
            self.rows.values().all(|rows| *rows == creates),
            "{:?}",
            self.rows
        );
    }

    fn assert_is_like(&self, service: &Self) {
        assert_eq!(self.members, service.members);
        assert!(self.widths.keys().eq(service.widths.keys()));
        for (column, of_service) in &service.widths {
            let width = self.widths[column];
            let alike = match (width, of_service) {
                (None, None) => true,
                (Some(a), Some(b)) => (a / b - 1.0).abs() <= WIDTH_TOLERANCE,
                (None, Some(_)) | (Some(_), None) => false,
            };
            assert!(
                alike,
                "{column:?}: {width:?} bytes, of the service {of_service:?}"
            );
        }
    }
}

/// Describes every column of a table.
async fn add_widths(
    widths: &mut BTreeMap<(String, String), Option<f64>>,
    connection: &mut PgConnection,
    (table, kind): (&str, &str),
) {
    let columns: Vec<String> = sqlx::query_scalar(
        "SELECT column_name::text FROM information_schema.columns
         WHERE table_schema = 'event_store' AND table_name = $1",
    )
    .bind(table)
    .fetch_all(&mut *connection)
    .await
    .expect("rows");
    assert!(!columns.is_empty());
    for column in columns {
        let statement = format!(
            "SELECT {kind}, avg(pg_column_size({column}))::float8
             FROM event_store.{table} GROUP BY 1"
        );
        let found: Vec<(String, Option<f64>)> = sqlx::query_as(AssertSqlSafe(statement))
            .fetch_all(&mut *connection)
            .await
            .expect("rows");
        widths.extend(
            found
                .into_iter()
                .map(|(kind, width)| ((kind, column.clone()), width)),
        );
    }
}
