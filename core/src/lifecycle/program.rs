//! The runtime of a program.

use std::{
    future::Future,
    io::{self, Write as _},
    process::ExitCode,
    time::Duration,
};

use tokio::runtime::Builder;

/// Longest wait for blocking calls that nothing awaits any more. Calls of a Kafka client may block for hours
/// after the wall clock was set back (`kafka_close`).
const BLOCKING_TIME_MAX: Duration = Duration::from_secs(2);

/// Runs a program to its end on a runtime with one thread for each core, and waits at most 2 s for blocking
/// calls that are left. Returns the exit code of the program, or 1 if threads cannot be started.
pub fn run_program(program: impl Future<Output = ExitCode>) -> ExitCode {
    run(&mut Builder::new_multi_thread(), program)
}

/// Runs a program as [`run_program`] on `threads` threads.
pub fn run_program_on(threads: usize, program: impl Future<Output = ExitCode>) -> ExitCode {
    run(Builder::new_multi_thread().worker_threads(threads), program)
}

fn run(runtime: &mut Builder, program: impl Future<Output = ExitCode>) -> ExitCode {
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
