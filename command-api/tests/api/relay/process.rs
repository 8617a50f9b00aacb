//! A command-api in a process of its own, to be killed and paused.

use std::{
    os::unix::process::ExitStatusExt as _,
    process::{Child, Command, Stdio},
    sync::Mutex,
};

use linkledger_core::kafka_config::KafkaConfig;
use linkledger_testing::{TestDatabase, eventually, record};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Ends with the test.
pub(crate) struct Process(Child);

impl Process {
    /// Relays in the name of `instance_id`; dies at `fail_at`, as `relay.sent:3`.
    pub(crate) fn start(
        database: &TestDatabase,
        kafka: &KafkaConfig,
        instance_id: &str,
        fail_at: Option<&str>,
    ) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_command-api"));
        command
            .args(["serve", "--api-listen", "127.0.0.1:0"])
            .args(["--internal-listen", "127.0.0.1:0"])
            .args(["--instance-id", instance_id])
            .env("DATABASE_URL", database.url())
            .env("ALLOW_UNSAFE_POSTGRES", "true")
            .envs(kafka.environment())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        record::logs_of(&mut command, "relay");
        if let Some(fail_at) = fail_at {
            command.env("LINKLEDGER_FAIL_AT", fail_at);
        }
        Self(command.spawn().unwrap())
    }

    /// Stands still, as under a debugger or on a machine that swaps.
    pub(crate) fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Goes on as if nothing had been.
    pub(crate) fn go_on(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Waits until it is killed at its fail point.
    pub(crate) async fn dies(mut self) {
        let child = Mutex::new(&mut self.0);
        let ended = eventually("the process dies at its fail point", async || {
            child.lock().unwrap().try_wait().unwrap()
        });
        let signal = ended.await.signal();
        assert_eq!(signal, Some(Signal::SIGKILL as i32));
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
