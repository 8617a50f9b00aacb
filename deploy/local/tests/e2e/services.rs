//! The services as processes of their own.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::{Mutex, Once},
    thread,
};

use linkledger_servers::cargo;
use linkledger_testing::{eventually, record};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

pub(crate) const ROLES: &str = include_str!("../../../postgres/roles.sql");

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
