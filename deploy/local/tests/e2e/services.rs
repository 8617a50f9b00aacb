//! The services as processes of their own, on the database and the broker of a test.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::{Mutex, Once},
    thread,
};

use linkledger_servers::cargo;
use linkledger_testing::{TestBroker, TestDatabase, eventually, record};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

pub(crate) const ROLES: &str = include_str!("../../../postgres/roles.sql");
/// Name of no role: the session has the rights of the user who connects.
pub(crate) const OWNER: &str = "none";

/// Returns the path of a program of another package, after a build of all programs in the profile
/// of this test. After `cargo test --workspace` no program is left to build, because the build
/// includes a test, which gives the programs the features that the tests have.
pub(crate) fn program(name: &str) -> PathBuf {
    static BUILD: Once = Once::new();
    let linkledger = Path::new(env!("CARGO_BIN_EXE_linkledger"));
    BUILD.call_once(|| build_programs(linkledger.parent().unwrap()));
    linkledger.with_file_name(name)
}

fn build_programs(folder: &Path) {
    let mut build = cargo::command();
    build.args(["build", "--quiet", "--workspace", "--test", "e2e"]);
    for program in ["command-api", "projector", "query-api"] {
        build.args(["--bin", program]);
    }
    if cfg!(feature = "tls") {
        build.args(["--features", "tls"]);
    }
    if !folder.ends_with("debug") {
        build.arg("--profile").arg(folder.file_name().unwrap());
    }
    assert!(build.status().unwrap().success());
}

/// Returns an address that no process uses, and that no earlier call returned: a process may bind
/// the address late.
pub(crate) fn free_address() -> String {
    linkledger_servers::free_address().unwrap().to_string()
}

/// Maximum length of the log that a failed test prints, in bytes.
const PRINTED_LOG_LENGTH_MAX: u64 = 32 * 1024;

/// A process of a service, killed with SIGKILL when the value is dropped. The end of the log is printed if
/// the test fails.
pub(crate) struct Service {
    process: Child,
    log: File,
}

impl Service {
    pub(crate) fn start(mut command: Command) -> Self {
        let log = record::logs_of(&mut command, "service").unwrap_or_else(|| {
            let log = tempfile::tempfile().unwrap();
            command.stderr(log.try_clone().unwrap());
            log
        });
        let process = command.spawn().unwrap();
        Self { process, log }
    }

    /// Stops the process with SIGTERM, and returns the exit code.
    pub(crate) async fn terminate(mut self) -> Option<i32> {
        kill(
            Pid::from_raw(i32::try_from(self.process.id()).unwrap()),
            Signal::SIGTERM,
        )
        .unwrap();
        self.exit_code().await
    }

    /// Waits for the end of the process, and returns the exit code.
    pub(crate) async fn exit_code(&mut self) -> Option<i32> {
        let child = Mutex::new(&mut self.process);
        let has_ended = async || child.lock().unwrap().try_wait().unwrap();
        eventually("the process ends", has_ended).await.code()
    }

    #[expect(clippy::print_stderr, reason = "shown for a failed test only")]
    fn print_log(&mut self) {
        let mut log = Vec::new();
        let length = self.log.seek(SeekFrom::End(0)).unwrap_or_default();
        let start = length.saturating_sub(PRINTED_LOG_LENGTH_MAX);
        self.log.seek(SeekFrom::Start(start)).ok();
        self.log.read_to_end(&mut log).ok();
        let (id, log) = (self.process.id(), String::from_utf8_lossy(&log));
        eprintln!("log of process {id}:\n{log}");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
        if thread::panicking() {
            self.print_log();
        }
    }
}

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
            .env("GROUP_ID", self.broker.group_id("projector"))
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
        let account = ["--account", account["account_id"].as_str().unwrap()];
        let (amount, reason) = (credits.to_string(), ["--reason", "test"]);
        let grant = ["credits", "grant", "--amount", &amount];
        self.run(command_api, role, &[&grant, &account[..], &reason].concat());
        let scopes = [
            "--scope",
            "link:links.write,link:links.read,link:credits.read",
        ];
        let issue = [&["key", "issue"], &account[..], &scopes].concat();
        let issued = self.run(command_api, role, &issue);
        issued["api_key"].as_str().unwrap().to_owned()
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
