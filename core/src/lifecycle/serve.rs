//! Listeners: accept connections, bounded in number and time, and end them with the process.

use std::{io, pin::pin, time::Duration};

use axum::{Router, extract::Request, response::Response};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinError, JoinSet},
};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

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
    /// From the start of the shutdown until idle connections are closed. An ingress that closes
    /// those it does not use for less than that never sends a request on a closed one.
    pub idle_drain_time_max: Duration,
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
            idle_drain_time_max: Duration::ZERO,
            drain_time_max: Duration::from_secs(17),
            connections_max: 20_000,
        }
    }
}

/// Rest after a failed `accept`, in milliseconds: it fails again as long as the process is out of
/// file descriptors, and must not keep a core busy with that.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What answers the requests of a listener.
pub trait Serve: Clone + Send + Sync + 'static {
    /// The answer to a request. Without a body to one for `HEAD`, or with that of `GET`.
    fn answer(&self, request: Request) -> impl Future<Output = Response> + Send;
}

impl Serve for Router {
    async fn answer(&self, request: Request) -> Response {
        let Ok(response) = self.clone().call(request).await;
        response
    }
}

/// Serves `site` until the shutdown; requests that were accepted by then are finished.
pub fn serve(tasks: &mut Tasks, name: &'static str, listener: TcpListener, site: impl Serve) {
    serve_within(ConnectionLimits::default(), tasks, name, listener, site);
}

/// As [`serve`], for clients that come through an ingress: no request of theirs meets a connection
/// that is being closed, if the ingress closes what it does not use for 5 s.
pub fn serve_behind_ingress(
    tasks: &mut Tasks,
    name: &'static str,
    listener: TcpListener,
    site: impl Serve,
) {
    let limits = ConnectionLimits {
        idle_drain_time_max: Duration::from_secs(6),
        ..ConnectionLimits::default()
    };
    serve_within(limits, tasks, name, listener, site);
}

/// As [`serve`], with limits of the caller's own.
pub fn serve_within(
    limits: ConnectionLimits,
    tasks: &mut Tasks,
    name: &'static str,
    listener: TcpListener,
    site: impl Serve,
) {
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "listening: {name}");
    }
    let server = Server {
        name,
        limits,
        site,
        shutdown: tasks.shutdown(),
        idle_drained: CancellationToken::new(),
        connections: JoinSet::new(),
    };
    tasks.spawn(name, server.run(listener));
}

struct Server<S> {
    name: &'static str,
    limits: ConnectionLimits,
    site: S,
    shutdown: CancellationToken,
    /// During the shutdown, when idle connections are closed.
    idle_drained: CancellationToken,
    connections: JoinSet<()>,
}

impl<S: Serve> Server<S> {
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
        self.begin_queued(listener);
        self.drain().await;
        Ok(())
    }

    fn begin(&mut self, stream: TcpStream) {
        let site = self.site.clone();
        let (shutdown, idle_drained) = (self.shutdown.clone(), self.idle_drained.clone());
        let connection = connection::run(stream, site, self.limits, shutdown, idle_drained);
        self.connections.spawn(connection);
        if self.connections.len() == self.limits.connections_max {
            tracing::warn!(
                connections = self.limits.connections_max,
                "{}: no more connections at a time; further clients wait",
                self.name
            );
        }
    }

    /// Closes the listener. Whoever the kernel has let in by then may have sent a request already.
    fn begin_queued(&mut self, listener: TcpListener) {
        // Asks the kernel itself, as tokio's accept may not have heard of the last ones yet.
        let Ok(listener) = listener.into_std() else {
            return;
        };
        while let Ok((stream, _)) = listener.accept() {
            let stream = stream.set_nonblocking(true).map(|()| stream);
            if let Ok(stream) = stream.and_then(TcpStream::from_std) {
                self.begin(stream);
            }
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
        let mut idle_drain = pin!(tokio::time::sleep(self.limits.idle_drain_time_max));
        let all_ended = async {
            loop {
                tokio::select! {
                    ended = self.connections.join_next() => match ended {
                        Some(ended) => report(ended),
                        None => break,
                    },
                    () = &mut idle_drain, if !self.idle_drained.is_cancelled() => {
                        self.idle_drained.cancel();
                    }
                }
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
