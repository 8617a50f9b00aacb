//! `doctor` and `check-config` of the three services, and servers on which no service starts.

use std::process::{Command, Output};

use linkledger_testing::{TestBroker, TestDatabase};
use serde_json::Value;

use crate::services::program;

const ROLES: &str = include_str!("../../../postgres/roles.sql");

struct Fixture {
    database: TestDatabase,
    broker: TestBroker,
}

/// Name of each service, the subcommand that runs the service, and the role of the service.
const SERVICES: [(&str, &str, &str); 3] = [
    ("command-api", "serve", "linkledger_command_api"),
    ("projector", "run", "linkledger_projector"),
    ("query-api", "serve", "linkledger_query_api"),
];

impl Fixture {
    async fn new() -> Self {
        let database = TestDatabase::create().await;
        sqlx::raw_sql(ROLES).execute(database.pool()).await.unwrap();
        let broker = TestBroker::start().await;
        Self { database, broker }
    }

    fn command(&self, service: &str, role: &str) -> Command {
        let url = |role: &str| format!("{}?options[role]={role}", self.database.url());
        let mut command = Command::new(program(service));
        command
            .env("DATABASE_URL", url(role))
            .env("RELAY_DATABASE_URL", url("linkledger_relay"))
            .envs(self.broker.config().environment())
            .env(
                "KAFKA_CLICKS_TOPIC",
                self.broker.clicks().clicks_topic.as_str(),
            )
            .env("ALLOW_UNSAFE_POSTGRES", "true");
        command
    }

    fn examine(&self, service: &str, role: &str) -> (bool, Value) {
        let mut command = self.command(service, role);
        let output = command.args(["doctor", "--json"]).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["ok"], output.status.success(), "{output:?}");
        (output.status.success(), report)
    }

    async fn execute(&self, statement: &'static str) {
        let pool = self.database.pool();
        sqlx::raw_sql(statement).execute(pool).await.unwrap();
    }
}

/// Returns the findings of one check: verdict and state.
fn found(report: &Value, check: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .filter(|finding| finding["check"] == check)
        .map(|finding| (text(&finding["verdict"]), text(&finding["is"])))
        .collect()
}

fn last_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().last().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_checks_the_rights_of_each_role() {
    let fixture = Fixture::new().await;
    for (service, _, role) in SERVICES {
        let (is_well, report) = fixture.examine(service, role);
        assert!(is_well, "{service}: {report}");
        let suffice = (
            "ok".to_owned(),
            format!("{role} has all privileges that are needed"),
        );
        assert_eq!(found(&report, "rights")[0], suffice);
    }
    let (is_well, report) = fixture.examine("command-api", "linkledger_query_api");
    assert!(!is_well);
    let rights = found(&report, "rights");
    assert_eq!(rights[0].0, "error");
    assert!(
        rights[0].1.contains("INSERT on event_store.events"),
        "{rights:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_checks_the_topic_of_clicks() {
    let fixture = Fixture::new().await;
    let examine = |variable: &str, value: &str| {
        let mut command = fixture.command("command-api", "linkledger_command_api");
        command.env(variable, value).args(["doctor", "--json"]);
        let report = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        found(&report, "topic of clicks")
    };
    let partitions = ("ok".to_owned(), "partitions is 16".to_owned());
    let findings = examine("CLICKS", "on");
    assert_eq!(findings[0], partitions);
    let findings = examine("KAFKA_CLICKS_TOPIC", "absent");
    assert_eq!(findings[0].0, "error");
    let expected = "the topic absent does not exist";
    assert!(findings[0].1.contains(expected), "{findings:?}");
    assert_eq!(examine("CLICKS", "off"), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_autovacuum_and_replication_slots() {
    let fixture = Fixture::new().await;
    fixture
        .execute(
            "ALTER TABLE event_store.slugs SET (autovacuum_enabled = off);
             SELECT pg_create_physical_replication_slot('left_behind', true);",
        )
        .await;
    let (is_well, report) = fixture.examine("query-api", "linkledger_query_api");
    fixture
        .execute("SELECT pg_drop_replication_slot('left_behind')")
        .await;
    assert!(!is_well);
    let slugs = ("error".to_owned(), "off for event_store.slugs".to_owned());
    assert_eq!(found(&report, "autovacuum"), [slugs]);
    let slots = found(&report, "replication slots");
    assert_eq!(slots[0].0, "warning");
    assert!(slots[0].1.starts_with("left_behind holds "), "{slots:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn relay_with_another_database_is_refused() {
    let fixture = Fixture::new().await;
    let another = TestDatabase::create().await;
    let mut command = fixture.command("command-api", "linkledger_command_api");
    command.env("RELAY_DATABASE_URL", another.url());
    let output = command.args(["doctor", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let is = "another database than the service's".to_owned();
    let refused = ("error".to_owned(), is);
    assert_eq!(found(&report, "relay's database"), [refused]);

    let mut command = fixture.command("command-api", "linkledger_command_api");
    command.env("RELAY_DATABASE_URL", another.url());
    let listeners = ["--api-listen", "--internal-listen"].map(|it| [it, "127.0.0.1:0"]);
    let output = command.arg("serve").args(listeners.as_flattened());
    let output = output.output().unwrap();
    assert!(!output.status.success());
    let message = last_line(&output);
    assert!(
        message.contains("relay's database: another database than the service's"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn services_refuse_postgres_without_fsync() {
    // The servers of tests have fsync off.
    let fixture = Fixture::new().await;
    for (service, run, role) in SERVICES {
        let mut command = fixture.command(service, role);
        command.env_remove("ALLOW_UNSAFE_POSTGRES").arg(run);
        for listener in ["--internal-listen", "--api-listen", "--short-listen"] {
            let has_it = match listener {
                "--api-listen" => service != "projector",
                "--short-listen" => service == "query-api",
                _ => true,
            };
            if has_it {
                command.args([listener, "127.0.0.1:0"]);
            }
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{service}: {output:?}");
        let line = last_line(&output);
        let expected = "error: this database is refused: fsync: off: ALTER SYSTEM SET fsync = on: a \
                        crash of the machine destroys the log; for tests --allow-unsafe-postgres";
        assert!(line.starts_with(expected), "{service}: {line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn check_config_needs_no_connection() {
    for service in ["query-api", "command-api"] {
        let check = |arguments: &[&str]| {
            Command::new(program(service))
                .args(["check-config", "--kafka-brokers", "127.0.0.1:1"])
                .args(["--database-url", "postgres://u@127.0.0.1:1/x"])
                .args(arguments)
                .output()
                .unwrap()
        };
        let output = check(&[]);
        assert!(output.status.success(), "{output:?}");
        let output = check(&["--kafka-username", "relay"]);
        assert_eq!(output.status.code(), Some(1));
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains("are for SASL"), "{printed}");
        assert_eq!(
            last_line(&output),
            "error: 1 of the findings above must be fixed"
        );
    }
}
