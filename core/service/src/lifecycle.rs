//! Life cycle of a process: supervised tasks, shutdown, listening sockets.

mod connection;
pub mod health;
mod progress;
mod serve;
mod tasks;

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    process::ExitCode,
    time::Duration,
};

use anyhow::Context as _;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::{
    net::TcpListener,
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

pub use serve::{ConnectionLimits, Serve, serve, serve_behind_ingress, serve_within};
pub use tasks::Tasks;

/// Longest wait for blocking calls that nothing awaits any more. Calls of a Kafka client may block for hours
/// after the wall clock was set back (`kafka_close`).
const BLOCKING_TIME_MAX: Duration = Duration::from_secs(2);

/// Runs a program to its end on a runtime with one thread for each core, and waits at most 2 s for blocking
/// calls that are left. Returns the exit code of the program, or 1 if threads cannot be started.
pub fn run_program(program: impl Future<Output = ExitCode>) -> ExitCode {
    run_on(&mut Builder::new_multi_thread(), program)
}

/// Runs a program as [`run_program`] on `threads` threads.
pub fn run_program_on(threads: usize, program: impl Future<Output = ExitCode>) -> ExitCode {
    run_on(Builder::new_multi_thread().worker_threads(threads), program)
}

fn run_on(runtime: &mut Builder, program: impl Future<Output = ExitCode>) -> ExitCode {
    run_within(BLOCKING_TIME_MAX, runtime, program).unwrap_or_else(|error| {
        // If standard error is closed, the message is lost.
        writeln!(io::stderr(), "error: cannot start threads: {error}").ok();
        ExitCode::FAILURE
    })
}

fn run_within<T>(
    blocking_time_max: Duration,
    runtime: &mut Builder,
    program: impl Future<Output = T>,
) -> io::Result<T> {
    let runtime = runtime.enable_all().build()?;
    let result = runtime.block_on(program);
    runtime.shutdown_timeout(blocking_time_max);
    Ok(result)
}

/// Returns a future that ends with the first SIGINT or SIGTERM after this call.
///
/// # Errors
/// Returns an error if the signal handlers cannot be installed.
pub fn interrupted() -> anyhow::Result<impl Future<Output = ()>> {
    let first = first_signal()?;
    Ok(async move {
        first.await;
    })
}

/// Returns a future like [`interrupted`] that gives the name of the signal.
fn first_signal() -> anyhow::Result<impl Future<Output = &'static str>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot handle SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot handle SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}

/// Cancels the shutdown token on SIGTERM or SIGINT, and logs which of them came.
///
/// # Errors
/// Returns an error if the signal handlers cannot be installed.
pub fn shutdown_on_signal(tasks: &mut Tasks) -> anyhow::Result<()> {
    let first = first_signal()?;
    let shutdown = tasks.shutdown();
    tasks.spawn_essential("signals", async move {
        tokio::select! {
            name = first => tracing::info!("{name}: shutting down"),
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use tokio::task::spawn_blocking;

    use super::*;

    #[test]
    fn blocking_call_does_not_delay_the_end() {
        let (until_ended, ended) = channel::<()>();
        let program = async move {
            drop(spawn_blocking(move || ended.recv().ok()));
            7
        };
        let runtime = &mut Builder::new_multi_thread();
        let result = run_within(Duration::from_millis(10), runtime, program);
        assert_eq!(result.unwrap(), 7);
        drop(until_ended);
    }
}
