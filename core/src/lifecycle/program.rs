//! The runtime of a program.

use std::{future::Future, io, time::Duration};

use tokio::runtime::Builder;

/// Longest wait for blocking calls that nothing awaits any more. Calls of a Kafka client may block for hours
/// after the wall clock was set back (`kafka_close`).
const BLOCKING_TIME_MAX: Duration = Duration::from_secs(2);

/// Runs a program to its end on a runtime with one thread for each core, and waits at most 2 s for blocking
/// calls that are left.
///
/// # Errors
/// Returns an error if the runtime cannot be made.
pub fn run_program<T>(program: impl Future<Output = T>) -> io::Result<T> {
    run_within(BLOCKING_TIME_MAX, program)
}

fn run_within<T>(blocking_time_max: Duration, program: impl Future<Output = T>) -> io::Result<T> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
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
        let result = run_within(Duration::from_millis(10), async move {
            drop(spawn_blocking(move || ended.recv().ok()));
            7
        });
        assert_eq!(result.unwrap(), 7);
        drop(until_ended);
    }
}
