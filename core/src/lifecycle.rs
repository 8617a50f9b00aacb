//! Life cycle of a process: supervised tasks, shutdown, listening sockets.

mod connection;
pub mod health;
mod program;
mod progress;
mod serve;
mod tasks;

use std::net::SocketAddr;

use anyhow::Context as _;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

pub use program::{run_program, run_program_on};
pub use serve::{ConnectionLimits, Serve, serve, serve_behind_ingress, serve_within};
pub use tasks::Tasks;

/// Returns a future that ends with the first SIGINT or SIGTERM after this call.
///
/// # Errors
/// Returns an error if the signal handlers cannot be installed.
pub fn interrupted() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot handle SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot handle SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Cancels the shutdown token on SIGTERM or SIGINT.
///
/// # Errors
/// Returns an error if the signal handlers cannot be installed.
pub fn shutdown_on_signal(tasks: &mut Tasks) -> anyhow::Result<()> {
    let interrupted = interrupted()?;
    let shutdown = tasks.shutdown();
    tasks.spawn_essential("signals", async move {
        tokio::select! {
            () = interrupted => tracing::info!("SIGTERM or SIGINT: shutting down"),
            () = shutdown.cancelled() => {}
        }
        shutdown.cancel();
        Ok(())
    });
    Ok(())
}

/// Returns the host name; empty if unknown.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Sets the limits of the process: as many open files as allowed, and no core dumps.
pub fn set_process_limits() {
    raise_open_files_limit();
    forbid_core_dumps();
}

/// Forbids core dumps: the memory has API keys, and addresses of visitors until their clicks are classified.
fn forbid_core_dumps() {
    if let Err(error) = setrlimit(Resource::RLIMIT_CORE, 0, 0) {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "cannot forbid core dumps (RLIMIT_CORE): a crash may write API keys and addresses of visitors to \
             a file; set LimitCORE=0 or `ulimit -c 0`"
        );
    }
}

/// Raises the limit of open files, hence of connections, to the hard limit: the usual soft limit of
/// 1,024 is too low for a server.
fn raise_open_files_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "cannot raise the limit of open files (RLIMIT_NOFILE): connections beyond the present limit \
             are refused; raise LimitNOFILE or `ulimit -n`"
        );
    }
}

/// Binds a listening socket. Port 0 chooses a free port.
///
/// # Errors
/// Returns an error that names the address and the remedy if the address is in use or not of this
/// machine.
pub async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; give a free address of this machine"))
}
