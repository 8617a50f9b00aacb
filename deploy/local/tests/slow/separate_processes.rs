//! The three services as separate processes, with one Postgres and one broker.

use std::{path::Path, process::Command};

use linkledger_testing as testing;
use linkledger_testing::{TestDatabase, eventually};
use serde_json::json;

use crate::{
    http::Http,
    scrape::Scrape,
    services::{ROLES, Service, free_address, program},
    settings::{OWNER, Settings, until_listens},
};

const OPERATOR: &str = "linkledger_operator";

/// Runs the commands of an operator before the first start; returns an API key.
async fn prepare(settings: &Settings, command_api: &Path) -> String {
    settings.run(command_api, OWNER, &["migrate"]);
    for database in [&settings.log, &settings.read] {
        sqlx::raw_sql(ROLES).execute(database.pool()).await.unwrap();
    }
    // A failing `migrate` proves that the roles are in force.
    let mut migrate = settings.command(command_api, OPERATOR, &["migrate"]);
    assert!(!migrate.output().unwrap().status.success());
    settings.account(command_api, OPERATOR, 3)
}

#[tokio::test(flavor = "multi_thread")]
async fn services_run_as_separate_processes() {
    run_services(Settings::new().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn services_run_with_read_tables_on_another_server() {
    let (log, read) = TestDatabase::create_two().await;
    for (database, statement) in [
        (&log, "DROP SCHEMA event_store CASCADE"),
        (&read, "DROP SCHEMA read_model CASCADE"),
    ] {
        sqlx::query(statement)
            .execute(database.pool())
            .await
            .unwrap();
    }
    run_services(Settings::on(log, read).await).await;
}

/// Prepares the databases, starts the services, creates a link, and reads and follows it.
async fn run_services(settings: Settings) {
    let command_api = program("command-api");
    let projector = program("projector");
    let query_api = program("query-api");

    let api_key = prepare(&settings, &command_api).await;
    let internal = |nth: usize| ["--internal-listen", &settings.internal[nth]];
    let listen = ["--api-listen", &settings.command_api];
    let serve = [&["serve"][..], &listen, &internal(0)].concat();
    let mut command = settings.command(&command_api, "linkledger_command_api", &serve);
    command.env(
        "RELAY_DATABASE_URL",
        Settings::database_url(&settings.log, "linkledger_relay"),
    );
    command.env("LINK_PRICE", "2");
    let command = Service::start(command);
    let projector_admin = free_address();
    let listen = ["--admin-listen", &projector_admin];
    let run = [&["run"][..], &listen, &internal(1)].concat();
    let projection = Service::start(settings.command(&projector, "linkledger_projector", &run));
    let listen = [
        "--api-listen",
        &settings.query_api,
        "--short-listen",
        &settings.short_host,
    ];
    let serve = [&["serve"][..], &listen, &internal(2)].concat();
    let query = Service::start(settings.command(&query_api, "linkledger_query_api", &serve));

    let writer = Http::new(format!("http://{}", settings.command_api), api_key.clone());
    let reader = Http::new(format!("http://{}", settings.query_api), api_key);
    for address in [&settings.command_api, &settings.query_api] {
        until_listens(address).await;
    }
    let body = json!({ "destination_url": "https://example.com/", "slug": "Spring" });
    let created = writer
        .create("00000000-0000-4000-8000-000000000001", &body)
        .await;
    assert_eq!(created.status, 201, "{created:?}");
    let path = format!("/v1/links/{}", created.json()["id"].as_str().unwrap());
    let read = eventually("the projector has joined and applied", || async {
        let read = reader.get(&path).await;
        (read.status == 200).then_some(read)
    })
    .await;
    assert_eq!(
        read.json()["short_url"],
        format!("http://{}/Spring", settings.short_host)
    );
    let followed = reader
        .follow(&format!("http://{}/spring", settings.short_host))
        .await;
    assert_eq!(
        (followed.status.as_u16(), followed.header("location")),
        (302, "https://example.com/")
    );
    assert_eq!(reader.list_all().await.len(), 1);
    price_of_command_api_is_shown(&reader).await;
    history_is_shown(&reader).await;
    unknown_links_are_looked_up_in_event_store(&settings, &reader).await;
    each_exports_its_own_metrics(&settings, &reader).await;
    status_is_only_on_the_admin_listener(&settings, &projector_admin, &reader).await;
    let programs = [&command_api, &projector, &query_api];
    let healthy = || [0, 1, 2].map(|nth| is_healthy(programs[nth], &settings.internal[nth]));
    assert_eq!(healthy(), [true; 3]);
    for service in [command, projection, query] {
        assert_eq!(service.terminate().await, Some(0));
    }
    assert_eq!(healthy(), [false; 3]);
}

/// Only the event store has the events of a link, and query-api may not read all of their columns.
async fn history_is_shown(reader: &Http) {
    let link = reader.list_all().await.remove(0);
    let path = format!("/v1/links/{}/history", link["id"].as_str().unwrap());
    let history = reader.get(&path).await;
    assert_eq!(history.status, 200);
    assert_eq!(history.json()["items"][0]["type"], "LinkCreated");
}

async fn price_of_command_api_is_shown(reader: &Http) {
    eventually("the price of command-api is shown", async || {
        let credits = reader.get("/v1/credits").await.json();
        (credits == json!({ "balance": 1, "link_price": 2 })).then_some(())
    })
    .await;
}

async fn unknown_links_are_looked_up_in_event_store(settings: &Settings, reader: &Http) {
    let unknown = reader
        .follow(&format!("http://{}/unknown", settings.short_host))
        .await;
    assert_eq!(unknown.status, 404);
    let unknown = reader.get("/v1/links/lnk_01jd3k5x7zexrbfmv2pcg9h4ta").await;
    assert_eq!(unknown.status, 404, "{unknown:?}");
}

/// Runs the health check that a container image runs; it needs only the internal listener.
fn is_healthy(program: &Path, internal: &str) -> bool {
    let mut health = Command::new(program);
    let health = health.args(["health", "--internal-listen", internal]);
    health.output().unwrap().status.success()
}

#[tokio::test(flavor = "multi_thread")]
async fn process_with_a_failed_task_ends() {
    let settings = Settings::new().await;
    let pool = settings.log.pool();
    let account_id = testing::account(pool, 1).await;
    testing::append_links(pool, account_id, &[("spring", "https://example.com/")]).await;
    let projector = program("projector");
    let run = ["run", "--internal-listen", "127.0.0.1:0"];
    let mut service = Service::start(settings.command(&projector, OWNER, &run));
    eventually("the log is applied", async || {
        let applied = "SELECT count(*) FROM read_model.checkpoints WHERE position = 2";
        let applied: i64 = sqlx::query_scalar(applied).fetch_one(pool).await.unwrap();
        (applied > 0).then_some(())
    })
    .await;
    // A permanent failure, which no retry can mend.
    sqlx::query("ALTER TABLE read_model.checkpoints RENAME TO checkpoints_of_another_release")
        .execute(pool)
        .await
        .unwrap();
    assert_eq!(service.exit_code().await, Some(1));
}

async fn each_exports_its_own_metrics(settings: &Settings, http: &Http) {
    let own = [
        "linkledger_append_commit_seconds_count",
        "linkledger_projection_position",
        "linkledger_http_request_duration_seconds_count",
    ];
    let is_exported = [
        [true, false, true],
        [false, true, false],
        [false, false, true],
    ];
    for (address, expected) in settings.internal.iter().zip(is_exported) {
        eventually("the process exports metrics of its work", async || {
            let scrape = Scrape::of(http, &format!("http://{address}/metrics")).await;
            let shown = own.map(|name| scrape.sum(name, &[]) > 0.0);
            (shown == expected).then_some(())
        })
        .await;
    }
}

async fn status_is_only_on_the_admin_listener(settings: &Settings, admin: &str, http: &Http) {
    for (address, status) in settings
        .internal
        .iter()
        .map(|address| (address.as_str(), 404))
        .chain([(admin, 401)])
    {
        let url = format!("http://{address}/admin/v1/status");
        assert_eq!(http.follow(&url).await.status, status, "{address}");
    }
}
