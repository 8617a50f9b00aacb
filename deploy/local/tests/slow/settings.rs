//! The services on the databases and the broker of a test.

use std::{path::Path, process::Command};

use linkledger_testing::{TestBroker, TestDatabase, eventually};
use serde_json::Value;

use crate::services::{Service, free_address, program};

/// Name of no role: the session has the rights of the user who connects.
pub(crate) const OWNER: &str = "none";

/// Settings of the services, which share one log, one set of read tables and one broker.
pub(crate) struct Settings {
    pub(crate) log: TestDatabase,
    /// The same database as the log, or one on a server of its own.
    pub(crate) read: TestDatabase,
    broker: TestBroker,
    pub(crate) command_api: String,
    pub(crate) query_api: String,
    pub(crate) short_host: String,
    /// Internal listeners of command-api, projector and query-api.
    pub(crate) internal: [String; 3],
}

impl Settings {
    pub(crate) async fn new() -> Self {
        let database = TestDatabase::create().await;
        Self::on(database.share(), database).await
    }

    pub(crate) async fn on(log: TestDatabase, read: TestDatabase) -> Self {
        Self {
            log,
            read,
            broker: TestBroker::start().await,
            command_api: free_address(),
            query_api: free_address(),
            short_host: free_address(),
            internal: [(); 3].map(|()| free_address()),
        }
    }

    /// Returns an address whose sessions have only the rights of `role`.
    pub(crate) fn database_url(database: &TestDatabase, role: &str) -> String {
        format!("{}?options[role]={role}", database.url())
    }

    /// Returns the command line of a process with the rights of `role`.
    pub(crate) fn command(&self, program: &Path, role: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("DATABASE_URL", Self::database_url(&self.log, role))
            .env("READ_DATABASE_URL", Self::database_url(&self.read, role))
            .env("ALLOW_UNSAFE_POSTGRES", "true")
            .envs(self.broker.config().environment())
            .env("BASE_URL", format!("http://{}", self.query_api))
            .env("SHORT_BASE_URL", format!("http://{}", self.short_host));
        command
    }

    /// Runs a command of an operator, and waits for its end.
    pub(crate) fn run(&self, program: &Path, role: &str, arguments: &[&str]) -> Value {
        let mut command = self.command(program, role, arguments);
        let output = command.arg("--json").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Creates an account, and returns an API key that writes and reads links.
    pub(crate) fn account(&self, command_api: &Path, role: &str, credits: u32) -> String {
        let create = ["account", "create", "--name", "Acme"];
        let account = self.run(command_api, role, &create);
        let account = ["--account", account["id"].as_str().unwrap()];
        let (amount, reason) = (credits.to_string(), ["--reason", "test"]);
        let grant = ["credits", "grant", "--amount", &amount];
        self.run(command_api, role, &[&grant, &account[..], &reason].concat());
        let scopes = [
            "--scope",
            "link:links.write,link:links.read,link:credits.read",
        ];
        let issue = [&["key", "issue"], &account[..], &scopes].concat();
        let issued = self.run(command_api, role, &issue);
        issued["secret"].as_str().unwrap().to_owned()
    }

    /// Starts a command-api with the rights of the owner, without a rate limit. The process dies at the
    /// fail point `fail_at`.
    pub(crate) fn start_command_api(&self, fail_at: Option<&str>) -> Service {
        let listen = ["--api-listen", &self.command_api];
        let internal = ["--internal-listen", &self.internal[0]];
        let serve = [&["serve"], &listen[..], &internal].concat();
        let mut command = self.command(&program("command-api"), OWNER, &serve);
        command.env("RATE_LIMIT", "0");
        if let Some(fail_at) = fail_at {
            command.env("LINKLEDGER_FAIL_AT", fail_at);
        }
        Service::start(command)
    }

    /// Starts a projector with the rights of the owner.
    pub(crate) fn start_projector(&self) -> Service {
        let run = ["run", "--internal-listen", &self.internal[1]];
        Service::start(self.command(&program("projector"), OWNER, &run))
    }

    /// Starts a query-api with the rights of the owner, for visitors of short links.
    pub(crate) fn start_query_api(&self, short_host: &str, internal: &str) -> Service {
        let listen = ["--short-listen", short_host, "--internal-listen", internal];
        let serve = [&["serve", "--api-listen", "127.0.0.1:0"], &listen[..]].concat();
        Service::start(self.command(&program("query-api"), OWNER, &serve))
    }
}

/// Waits until a process listens at the address.
pub(crate) async fn until_listens(address: &str) {
    eventually("the service listens", async || {
        tokio::net::TcpStream::connect(address).await.ok()
    })
    .await;
}
