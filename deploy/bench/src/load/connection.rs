//! A connection of HTTP/1.1 with little overhead, since load and server share the cores.

use std::{io, net::SocketAddr};

use anyhow::{Context as _, ensure};
use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Largest number of headers, more than any response of linkledger has.
const HEADERS_MAX: usize = 64;
/// Number of bytes that are read at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// A keep-alive connection; an error ends the connection.
pub struct HttpConnection {
    stream: TcpStream,
    received: Vec<u8>,
    /// Number of bytes of `received` that belong to the previous response.
    consumed: usize,
}

/// A response.
#[derive(Debug, Clone, Copy)]
pub struct HttpResponse<'a> {
    /// Status.
    pub status: u16,
    /// Status line and headers.
    pub head: &'a [u8],
    /// Body.
    pub body: &'a [u8],
}

/// Lengths of the response at the beginning of the buffer.
struct Extent {
    status: u16,
    head_bytes: usize,
    body_bytes: usize,
}

impl HttpConnection {
    /// Opens a connection.
    ///
    /// # Errors
    /// Returns an error if no server listens at the address.
    pub async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            received: Vec::with_capacity(CHUNK_BYTES),
            consumed: 0,
        })
    }

    /// Sends a request, head and body, and waits for the response, which must state its length.
    ///
    /// # Errors
    /// Returns an error if the connection ends before the response is complete, or if the response
    /// is not HTTP.
    pub async fn exchange(&mut self, request: &[u8]) -> io::Result<HttpResponse<'_>> {
        self.received.drain(..self.consumed);
        self.consumed = 0;
        self.stream.write_all(request).await?;
        loop {
            if let Some(extent) = extent(&self.received)? {
                let end = extent.head_bytes + extent.body_bytes;
                if self.received.len() >= end {
                    self.consumed = end;
                    return Ok(HttpResponse {
                        status: extent.status,
                        head: &self.received[..extent.head_bytes],
                        body: &self.received[extent.head_bytes..end],
                    });
                }
            }
            self.received.reserve(CHUNK_BYTES);
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Sends a request, and reads the JSON of the response, which must have this status.
    ///
    /// # Errors
    /// Returns an error if the response does not come, or is another one.
    pub async fn json<T: DeserializeOwned>(
        &mut self,
        request: &[u8],
        status: u16,
    ) -> anyhow::Result<T> {
        let response = self.exchange(request).await?;
        let body = String::from_utf8_lossy(response.body);
        let is_expected = response.status == status;
        ensure!(is_expected, "answered {}: {body}", response.status);
        serde_json::from_str(&body).with_context(|| format!("another answer: {body}"))
    }
}

/// Parses the head of a response; `None` if the head is not complete.
fn extent(received: &[u8]) -> io::Result<Option<Extent>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let httparse::Status::Complete(head_bytes) = response
        .parse(received)
        .map_err(|error| invalid(error.to_string()))?
    else {
        return Ok(None);
    };
    let status = response.code.expect("a complete head has a status");
    let mut headers = response.headers.iter();
    let length = headers
        .find(|header| header.name.eq_ignore_ascii_case("content-length"))
        .and_then(|header| std::str::from_utf8(header.value).ok()?.parse().ok());
    let body_bytes =
        length.ok_or_else(|| invalid(format!("a response {status} without its length")))?;
    Ok(Some(Extent {
        status,
        head_bytes,
        body_bytes,
    }))
}
