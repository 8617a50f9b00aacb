//! Listeners: accept connections, limit number and duration of connections, and close connections
//! at shutdown.

use std::{io, net::SocketAddr, pin::pin, time::Duration};

use axum::{Router, extract::Request, response::Response};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinError, JoinSet},
};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::{Tasks, connection};

/// Limits for the clients of a listener. A connection that exceeds a time limit is closed without
/// an answer.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Longest time from the first byte of a request to the end of its head.
    pub head_time_max: Duration,
    /// Longest time from the end of a request's head to the end of its body.
    pub body_time_max: Duration,
    /// Longest idle time, before the first request and between requests. Longer than an ingress
    /// keeps idle connections, so that the ingress closes them and no request meets a closed
    /// connection.
    pub idle_time_max: Duration,
    /// Longest time without the client accepting a byte of an answer.
    pub write_time_max: Duration,
    /// Time from the start of the shutdown until idle connections are closed. An ingress that
    /// closes idle connections earlier never sends a request on a closed connection.
    pub idle_drain_time_max: Duration,
    /// Longest time from the start of the shutdown to the last answer; shorter than the drain time
    /// of the process.
    pub drain_time_max: Duration,
    /// Maximal number of concurrent connections. Further clients wait to be accepted.
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

/// Pause after a failed `accept`, in milliseconds. Without file descriptors every `accept` fails,
/// which must not keep a core busy.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A handler for the requests of a listener.
pub trait Serve: Clone + Send + Sync + 'static {
    /// Returns the handler for the requests of one connection. A handler that needs the address of the
    /// peer keeps it: once for each connection, not for each request.
    #[must_use]
    fn for_peer(&self, _peer: SocketAddr) -> Self {
        self.clone()
    }

    /// Answers a request. The answer to `HEAD` may have the body of `GET` or none.
    fn answer(&self, request: Request) -> impl Future<Output = Response> + Send;
}

impl Serve for Router {
    async fn answer(&self, request: Request) -> Response {
        let Ok(response) = self.clone().call(request).await;
        response
    }
}

/// Serves `site` until the shutdown. Accepted requests are finished.
pub fn serve(tasks: &mut Tasks, name: &'static str, listener: TcpListener, site: impl Serve) {
    serve_within(ConnectionLimits::default(), tasks, name, listener, site);
}

/// Serves like [`serve`], for clients behind an ingress that closes idle connections after at most
/// 5 s: no request meets a closing connection.
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

/// Serves like [`serve`], with other limits.
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
    tasks.spawn_essential(name, server.run(listener));
}

struct Server<S> {
    name: &'static str,
    limits: ConnectionLimits,
    site: S,
    shutdown: CancellationToken,
    /// Cancelled during the shutdown, when idle connections are closed.
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
                    Ok((stream, peer)) => {
                        was_accepting = true;
                        self.begin(stream, peer);
                    }
                    Err(error) if is_of_one_client(&error) => {}
                    Err(error) => {
                        // Logged once per outage.
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

    fn begin(&mut self, stream: TcpStream, peer: SocketAddr) {
        let site = self.site.for_peer(peer);
        let (shutdown, idle_drained) = (self.shutdown.clone(), self.idle_drained.clone());
        let connection = connection::run(stream, site, self.limits, shutdown, idle_drained);
        self.connections.spawn(connection);
        if self.connections.len() == self.limits.connections_max {
            tracing::warn!(
                connections = self.limits.connections_max,
                "{}: the maximum number of connections is open; further clients wait",
                self.name
            );
        }
    }

    /// Closes the listener and serves the connections that the kernel has accepted: they may carry
    /// requests.
    fn begin_queued(&mut self, listener: TcpListener) {
        // Calls the kernel directly, because tokio may not know the last connections yet.
        let Ok(listener) = listener.into_std() else {
            return;
        };
        while let Ok((stream, peer)) = listener.accept() {
            let stream = stream.set_nonblocking(true).map(|()| stream);
            if let Ok(stream) = stream.and_then(TcpStream::from_std) {
                self.begin(stream, peer);
            }
        }
    }

    fn complain(&self, error: &io::Error) {
        tracing::error!(
            error = error as &dyn std::error::Error,
            "{}: cannot accept connections; if too many files are open, raise the limit of open files",
            self.name
        );
    }

    /// Waits until the connections have finished accepted requests. A client that blocks its
    /// connection does not make the process fail.
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
                "{}: closed connections whose requests were not answered before the deadline",
                self.name
            );
        }
    }
}

/// Returns true for a connection that was lost before it was accepted; the next `accept` may
/// succeed.
fn is_of_one_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// Logs a panic of a connection, which is a defect. The client only sees a closed connection.
fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "a connection panicked"
        );
    }
}

#[cfg(test)]
mod tests;
