//! The dispatcher as a process that a test can freeze and kill.

use std::process::{Child, Command, Stdio};

use linkledger_testing::{eventually, record};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::dispatch_fixture::DispatchFixture;

/// Process that ends with the test.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(fixture: &DispatchFixture) -> Self {
        Self::start_with(fixture, &[])
    }

    /// Starts the process with further variables.
    pub(crate) fn start_with(fixture: &DispatchFixture, variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_projector"));
        command
            .args(["webhooks", "--internal-listen", "127.0.0.1:0"])
            .env("DATABASE_URL", fixture.database.url())
            .env("ALLOW_UNSAFE_POSTGRES", "true")
            .env("WEBHOOK_KEYS_FILE", fixture.keys_file())
            .env("WEBHOOK_ALLOW_NETS", fixture.allow_nets.join(","))
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        record::logs_of(&mut command, "webhooks");
        Self(command.spawn().unwrap())
    }

    /// Returns true if the process has the lease under the name `owner`.
    pub(crate) fn is(&self, owner: &str) -> bool {
        owner.contains(&format!(":{}:", self.0.id()))
    }

    /// Freezes the process, as a debugger or a swapping machine would.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Waits until the process has stopped itself at a fail point.
    pub(crate) async fn eventually_stands_still(&self) {
        eventually("the process stands still", async || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
            stat.contains(") T ").then_some(())
        })
        .await;
    }

    /// Wakes the process.
    pub(crate) fn wake(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Kills the process.
    pub(crate) fn kill(&self) {
        self.signal(Signal::SIGKILL);
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
