//! A second process of this test program, which owns a server until the process is killed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::temporary::TemporaryPostgres;
use super::{PostgresServer, options};

const MODE: &str = "LINKLEDGER_TEST_HOLDER_MODE";
const DATA_DIR: &str = "LINKLEDGER_TEST_HOLDER_DATA_DIR";
const REPORT: &str = "LINKLEDGER_TEST_HOLDER_REPORT";

pub(super) struct Holder {
    process: Child,
    report: PathBuf,
}

impl Holder {
    pub(super) fn spawn(mode: &str, data_dir: &Path) -> anyhow::Result<Self> {
        static SPAWNED: AtomicU32 = AtomicU32::new(0);
        let number = SPAWNED.fetch_add(1, Ordering::Relaxed);
        let report = data_dir.join(format!("report.{number}"));
        // The test harness expects the path of a test without the name of the crate.
        let (_, module) = module_path!()
            .split_once("::")
            .expect("a module of a crate");
        let process = Command::new(env::current_exe()?)
            .args(["--exact", &format!("{module}::hold_until_killed")])
            .env(MODE, mode)
            .env(DATA_DIR, data_dir)
            .env(REPORT, &report)
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self { process, report })
    }

    /// Returns the address of the holder's server, once the server runs.
    pub(super) fn report(&self) -> Option<String> {
        fs::read_to_string(&self.report).ok()
    }

    /// Kills the holder with SIGKILL.
    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // A failed test leaves a holder. A second kill does no harm.
        self.kill().expect("a child process can be killed");
    }
}

/// Holds a server if [`Holder`] sets a mode; returns at once as an ordinary test.
#[tokio::test]
async fn hold_until_killed() -> anyhow::Result<()> {
    // A static is never dropped, like the server of a test binary.
    static TEMPORARY: OnceLock<TemporaryPostgres> = OnceLock::new();
    let (Ok(mode), Some(data_dir), Some(report)) =
        (env::var(MODE), env::var_os(DATA_DIR), env::var_os(REPORT))
    else {
        return Ok(());
    };
    let server;
    let url = if mode == "temporary" {
        let temporary = TemporaryPostgres::start().await?;
        TEMPORARY.get_or_init(|| temporary).url("postgres")
    } else {
        server = PostgresServer::start(options(Path::new(&data_dir))).await?;
        server.url("postgres")
    };
    let unfinished = PathBuf::from(&report).with_extension("unfinished");
    fs::write(&unfinished, url)?;
    fs::rename(&unfinished, &report)?;
    std::future::pending().await
}
