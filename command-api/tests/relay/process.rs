//! Process of command-api, which a test can kill and stop.

use std::{
    os::unix::process::ExitStatusExt as _,
    process::{Child, Command, Stdio},
    sync::Mutex,
};

use linkledger_service::kafka_config::KafkaConfig;
use linkledger_testing::{TestDatabase, eventually, record};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Process that ends with the test.
pub(crate) struct Process(Child);

impl Process {
    /// Starts a process named `instance_id`, which dies at the fail point `fail_at`, for example
    /// `relay.sent:3`.
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

    /// Stops the process, as a debugger or a swapping machine does.
    pub(crate) fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Continues the stopped process.
    pub(crate) fn go_on(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Waits until the process dies at its fail point.
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
