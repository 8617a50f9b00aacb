//! One connection of HTTP/1.1 that costs as little as it can: the load shares the cores with what
//! it measures.

use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// More than any answer of ours has.
const HEADERS_MAX: usize = 64;
/// Read at once, in bytes.
const CHUNK_BYTES: usize = 16 * 1024;

/// A connection that is kept alive; an error ends it.
pub struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    /// How much of `received` is the answer of before.
    consumed: usize,
}

/// An answer.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a> {
    /// Its status.
    pub status: u16,
    /// Its first line and its headers.
    pub head: &'a [u8],
    /// Its body.
    pub body: &'a [u8],
}

/// Where an answer ends that begins the buffer.
struct Extent {
    status: u16,
    head_bytes: usize,
    body_bytes: usize,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// When nobody listens.
    pub async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            received: Vec::with_capacity(CHUNK_BYTES),
            consumed: 0,
        })
    }

    /// Sends a request, head and body, and waits for its answer, which must tell its length.
    ///
    /// # Errors
    /// When the connection ends before, or what is answered is no HTTP.
    pub async fn exchange(&mut self, request: &[u8]) -> io::Result<Response<'_>> {
        self.received.drain(..self.consumed);
        self.consumed = 0;
        self.stream.write_all(request).await?;
        loop {
            if let Some(extent) = extent(&self.received)? {
                let end = extent.head_bytes + extent.body_bytes;
                if self.received.len() >= end {
                    self.consumed = end;
                    return Ok(Response {
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
}

/// `None`: the head is not complete yet.
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
    let length = response
        .headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let body_bytes = match length {
        Some(header) => std::str::from_utf8(header.value)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| invalid("the length of a body is no number".to_owned()))?,
        None if matches!(status, 204 | 304) => 0,
        None => return Err(invalid(format!("an answer {status} without a length"))),
    };
    Ok(Some(Extent {
        status,
        head_bytes,
        body_bytes,
    }))
}
