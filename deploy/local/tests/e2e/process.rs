//! A stack in a process of its own, started as users start it.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use linkledger_testing::record;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

use crate::http::Http;

/// Variables that somebody has who sets the client up, or reads the file `env` of a stack, as the README says,
/// before the tests run.
const NAMES_IN_ENV: [&str; 23] = [
    "LINKLEDGER_API_URL",
    "LINKLEDGER_API_KEY",
    "LINKLEDGER_WEBHOOK_SECRET",
    "API_URL",
    "SHORT_URL",
    "BASE_URL",
    "SHORT_BASE_URL",
    "API_KEY",
    "ADMIN_URL",
    "ADMIN_KEY",
    "DATABASE_URL",
    "KAFKA_FETCH_WAIT_MAX_MS",
    "CLICKS",
    "WEBHOOK_KEYS_FILE",
    "WEBHOOK_ALLOW_NETS",
    "COMMAND_METRICS_URL",
    "PROJECTOR_METRICS_URL",
    "QUERY_METRICS_URL",
    "WEBHOOKS_METRICS_URL",
    "KAFKA_CLICKS_TOPIC",
    "KAFKA_BROKERS",
    "KAFKA_TOPIC",
    "KAFKA_SECURITY_PROTOCOL",
];

/// A data folder that is deleted with the test. The stack must be stopped before.
pub(crate) fn data_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    // Postgres may run as another user, who must be able to reach the folder.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

pub(crate) fn linkledger(data_dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linkledger"));
    command.args(arguments).arg("--data-dir").arg(data_dir);
    for name in NAMES_IN_ENV {
        command.env_remove(name);
    }
    command
}

/// Runs the program, and waits for its end.
pub(crate) fn run(data_dir: &Path, arguments: &[&str]) -> Output {
    linkledger(data_dir, arguments).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A stack that has printed `ready`.
pub(crate) struct Stack {
    child: Child,
    data_dir: PathBuf,
    /// Output of the stack up to and including `ready`.
    pub(crate) welcome: String,
}

impl Stack {
    pub(crate) fn start(data_dir: &Path, arguments: &[&str]) -> Self {
        Self::start_with(data_dir, arguments, &[])
    }

    /// Starts the stack with these variables in its environment.
    pub(crate) fn start_with(
        data_dir: &Path,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let ports = ["--api-port", "0", "--short-port", "0", "--admin-port", "0"];
        let mut command = linkledger(data_dir, &[&ports, arguments].concat());
        command.envs(variables.iter().copied());
        record::logs_of(&mut command, "stack");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut welcome = String::new();
        while !welcome.ends_with("\nready\n") {
            let line = lines.next().expect("it says ready before it ends").unwrap();
            welcome.push_str(&line);
            welcome.push('\n');
        }
        Self {
            child,
            data_dir: data_dir.to_owned(),
            welcome,
        }
    }

    /// Reads the variables in the file `env` of the stack.
    pub(crate) fn environment(&self) -> HashMap<String, String> {
        let text = fs::read_to_string(self.data_dir.join("env")).unwrap();
        let variables = text.lines().map(|line| line.split_once('=').unwrap());
        let variables = variables.map(|(name, value)| {
            assert!(
                NAMES_IN_ENV.contains(&name),
                "{name} is not among the names"
            );
            (name.to_owned(), value.to_owned())
        });
        variables.collect()
    }

    pub(crate) fn http(&self) -> Http {
        let mut environment = self.environment();
        let mut take = |name| environment.remove(name).unwrap();
        Http::new(take("API_URL"), take("API_KEY"))
    }

    /// Kills the process with SIGKILL; its Postgres goes on running.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops the process with SIGINT, as Ctrl-C does; returns the exit code.
    pub(crate) fn interrupt(mut self) -> Option<i32> {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        kill(pid, Signal::SIGINT).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // Reached only if a test fails: without the kill the process would run for ever.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
            kill(pid, Signal::SIGINT).ok();
            self.child.wait().ok();
        }
    }
}
