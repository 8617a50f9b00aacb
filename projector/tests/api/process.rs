//! The projector as a process that a test can freeze.

use std::process::{Child, Command, Stdio};

use linkledger_testing::record;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::fixture::Fixture;

/// Process that ends with the test.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(fixture: &Fixture) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_projector"));
        command
            .args(["run", "--internal-listen", "127.0.0.1:0"])
            .env("DATABASE_URL", fixture.database.url())
            .env("ALLOW_UNSAFE_POSTGRES", "true")
            .envs(fixture.broker.config().environment())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        record::logs_of(&mut command, "projector");
        Self(command.spawn().unwrap())
    }

    /// Returns true if the process reports under the name `owner`.
    pub(crate) fn is(&self, owner: &str) -> bool {
        owner.ends_with(&format!(":{}", self.0.id()))
    }

    /// Freezes the process, as a debugger or a swapping machine would.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Wakes the process.
    pub(crate) fn wake(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id().cast_signed());
        kill(pid, signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
