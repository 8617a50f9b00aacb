//! Listeners: accept connections, bounded in number and time, and end them with the process.

use std::{io, time::Duration};

use axum::Router;
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinError, JoinSet},
};
use tokio_util::sync::CancellationToken;

use super::{Tasks, connection};

/// What a client may take of a listener. Whoever takes longer loses the connection, without an
/// answer.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// From the first byte of a request until its head is complete.
    pub head_time_max: Duration,
    /// From the end of a request's head until its body is complete.
    pub body_time_max: Duration,
    /// Before the first request and between two: longer than an ingress keeps connections that it
    /// does not use, so that the ingress is the one to close them and no request is lost.
    pub idle_time_max: Duration,
    /// Without taking a byte of an answer.
    pub write_time_max: Duration,
    /// From the start of the shutdown until the last answer; less than a process has in all.
    pub drain_time_max: Duration,
    /// Connections at a time; further clients wait to be accepted.
    pub connections_max: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            head_time_max: Duration::from_secs(10),
            body_time_max: Duration::from_secs(15),
            idle_time_max: Duration::from_secs(75),
            write_time_max: Duration::from_secs(30),
            drain_time_max: Duration::from_secs(17),
            connections_max: 20_000,
        }
    }
}

/// Rest after a failed `accept`, in milliseconds: it fails again as long as the process is out of
/// file descriptors, and must not keep a core busy with that.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves `router` until the shutdown; requests that were accepted by then are finished.
pub fn serve(tasks: &mut Tasks, name: &'static str, listener: TcpListener, router: Router) {
    serve_within(ConnectionLimits::default(), tasks, name, listener, router);
}

/// As [`serve`], with limits of the caller's own.
pub fn serve_within(
    limits: ConnectionLimits,
    tasks: &mut Tasks,
    name: &'static str,
    listener: TcpListener,
    router: Router,
) {
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "listening: {name}");
    }
    let server = Server {
        name,
        limits,
        router,
        shutdown: tasks.shutdown(),
        connections: JoinSet::new(),
    };
    tasks.spawn(name, server.run(listener));
}

struct Server {
    name: &'static str,
    limits: ConnectionLimits,
    router: Router,
    shutdown: CancellationToken,
    connections: JoinSet<()>,
}

impl Server {
    async fn run(mut self, listener: TcpListener) -> anyhow::Result<()> {
        let shutdown = self.shutdown.clone();
        let mut was_accepting = true;
        loop {
            let has_room = self.connections.len() < self.limits.connections_max;
            tokio::select! {
                () = shutdown.cancelled() => break,
                Some(ended) = self.connections.join_next() => report(ended),
                accepted = listener.accept(), if has_room => match accepted {
                    Ok((stream, _)) => {
                        was_accepting = true;
                        self.begin(stream);
                    }
                    Err(error) if is_of_one_client(&error) => {}
                    Err(error) => {
                        // Once for each time that it begins.
                        if was_accepting {
                            self.complain(&error);
                        }
                        was_accepting = false;
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(listener);
        self.drain().await;
        Ok(())
    }

    fn begin(&mut self, stream: TcpStream) {
        let router = self.router.clone();
        let connection = connection::run(stream, router, self.limits, self.shutdown.clone());
        self.connections.spawn(connection);
        if self.connections.len() == self.limits.connections_max {
            tracing::warn!(
                connections = self.limits.connections_max,
                "{}: no more connections at a time; further clients wait",
                self.name
            );
        }
    }

    fn complain(&self, error: &io::Error) {
        tracing::error!(
            error = error as &dyn std::error::Error,
            "{}: can't accept connections; if it is for too many open files, raise their limit",
            self.name
        );
    }

    /// Lets the connections finish what was accepted. A client that does not let them is no
    /// failure of the process.
    async fn drain(&mut self) {
        let all_ended = async {
            while let Some(ended) = self.connections.join_next().await {
                report(ended);
            }
        };
        let drained = tokio::time::timeout(self.limits.drain_time_max, all_ended).await;
        if drained.is_err() {
            tracing::warn!(
                connections = self.connections.len(),
                "{}: cut off what was not answered in time",
                self.name
            );
        }
    }
}

/// A connection that was lost before it was accepted says nothing about the next one.
fn is_of_one_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// A connection that has panicked is a defect of ours, of which its client has seen only the end.
fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "a connection has panicked"
        );
    }
}

#[cfg(test)]
mod tests;
