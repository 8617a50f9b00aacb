//! The shipped program `command-api`, as a process beside the stack.

use std::{fs::File, net::SocketAddr, process::Stdio, time::Duration};

use anyhow::Context as _;
use linkledger_servers::free_address;
use nix::unistd::Pid;
use tokio::{
    process::{Child, Command},
    time::{sleep, timeout},
};

use crate::{bench::BenchContext, load::HttpConnection, stack::StackProcess};

const READY_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A running command-api on the database and the broker of a stack; killed when dropped.
#[derive(Debug)]
pub struct CommandApiProcess {
    /// Address of the API.
    pub api: SocketAddr,
    child: Child,
}

impl CommandApiProcess {
    /// Starts the service, without rate limits, and waits until the service accepts connections.
    ///
    /// # Errors
    /// Returns an error if the service does not listen before the timeout.
    pub async fn start(
        bench: &BenchContext,
        stack: &StackProcess,
        number: usize,
    ) -> anyhow::Result<Self> {
        let log = bench
            .server
            .data_dir()
            .join(format!("command-api-{number}.log"));
        let api = free_address()?;
        let child = Command::new(bench.programs.path("command-api"))
            .args(["serve", "--api-listen", &api.to_string()])
            .args(["--internal-listen", "127.0.0.1:0", "--rate-limit", "0"])
            .args(["--instance-id", &format!("bench-{number}")])
            .env("DATABASE_URL", stack.variable("DATABASE_URL")?)
            .env("KAFKA_BROKERS", stack.variable("KAFKA_BROKERS")?)
            .env("RUST_LOG", "warn")
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .kill_on_drop(true)
            .spawn()
            .context("can't start command-api")?;
        let listens = async {
            while HttpConnection::open(api).await.is_err() {
                sleep(POLL_INTERVAL).await;
            }
        };
        timeout(READY_TIMEOUT, listens).await.with_context(|| {
            format!(
                "command-api does not listen within 30 s, see {}",
                log.display()
            )
        })?;
        Ok(Self { api, child })
    }

    /// Returns the id of the process.
    ///
    /// # Errors
    /// Returns an error if the process has ended.
    pub fn pid(&self) -> anyhow::Result<Pid> {
        let id = self.child.id().context("command-api has ended")?;
        Ok(Pid::from_raw(i32::try_from(id)?))
    }
}
