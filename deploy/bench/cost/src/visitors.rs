//! Connections that each send a request at the same moment, and read the responses later; the work
//! of the connections is not counted.

use std::{io::ErrorKind, net::SocketAddr};

use anyhow::Context as _;
use tokio::{net::TcpStream, runtime::Runtime};

/// Size of the largest response.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// Keep-alive connections, as many as a round has requests.
pub(crate) struct Visitors {
    connections: Vec<TcpStream>,
}

impl Visitors {
    pub(crate) async fn connect(address: SocketAddr, count: usize) -> anyhow::Result<Self> {
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            connections.push(TcpStream::connect(address).await?);
        }
        Ok(Self { connections })
    }

    /// Sends one request on each of the first connections. The server sees all requests at once,
    /// when the server runs next.
    pub(crate) fn send(&self, requests: &[Vec<u8>]) -> anyhow::Result<()> {
        for (connection, request) in self.connections.iter().zip(requests) {
            let length = connection.try_write(request)?;
            anyhow::ensure!(length == request.len(), "a request did not fit its socket");
        }
        Ok(())
    }

    /// Waits until the first `count` requests have been answered.
    pub(crate) async fn answered(&self, count: usize) -> anyhow::Result<()> {
        for connection in &self.connections[..count] {
            connection.readable().await?;
        }
        Ok(())
    }

    /// Waits until all requests have been answered. callgrind counts this function: all work of
    /// the runtime on the main thread.
    #[inline(never)]
    pub(crate) fn let_serve(&self, runtime: &Runtime) -> anyhow::Result<()> {
        runtime.block_on(self.answered(self.connections.len()))
    }

    /// Reads `count` responses, which must have this status.
    pub(crate) fn receive(&self, count: usize, status: &str) -> anyhow::Result<()> {
        let mut answer = [0; ANSWER_BYTES_MAX];
        for connection in &self.connections[..count] {
            let length = connection.try_read(&mut answer)?;
            let answer_text = String::from_utf8_lossy(&answer[..length]);
            let expected = format!("HTTP/1.1 {status} ");
            anyhow::ensure!(answer_text.starts_with(&expected), "{answer_text}");
            let (head, body) = answer_text
                .split_once("\r\n\r\n")
                .context("an answer without an end of its head")?;
            let body_length = format!("content-length: {}", body.len());
            anyhow::ensure!(head.contains(&body_length), "half an answer: {head}");
            // No further bytes follow; the connection must notice this before it can wait again.
            let rest = connection.try_read(&mut answer);
            let is_empty = rest.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
            anyhow::ensure!(is_empty, "more than an answer");
        }
        Ok(())
    }
}
