//! Stream and bodies of a connection, which report their progress.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::Instant,
};

use super::SharedProgress;

/// Maximal input that is discarded after the last answer, in bytes.
const LINGER_LENGTH_MAX: usize = 1024 * 1024;
const DISCARD_LENGTH: usize = 4 * 1024;

/// The socket of a connection.
pub(super) struct WatchedStream {
    stream: TcpStream,
    progress: SharedProgress,
    discarded_length: usize,
}

impl WatchedStream {
    pub(super) fn new(stream: TcpStream, progress: SharedProgress) -> Self {
        Self {
            stream,
            progress,
            discarded_length: 0,
        }
    }

    fn note_write(&self, written: &Poll<io::Result<usize>>) {
        let mut progress = self.progress.lock();
        match written {
            Poll::Pending => progress.write_is_blocked(Instant::now),
            Poll::Ready(_) => progress.written(),
        }
    }

    /// Discards input until the client closes its side, or the limit is reached.
    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut space = [0; DISCARD_LENGTH];
        while self.discarded_length < LINGER_LENGTH_MAX {
            let mut buffer = ReadBuf::new(&mut space);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
            if buffer.filled().is_empty() {
                break;
            }
            self.discarded_length += buffer.filled().len();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.progress.lock().received(Instant::now);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_write(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note_write(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        {
            let mut progress = self.progress.lock();
            if !progress.has_unread() {
                return Poll::Ready(Ok(()));
            }
            progress.ended(Instant::now);
        }
        self.poll_discard(context)
    }
}

/// The message that a body belongs to.
pub(super) enum Message {
    Request,
    Answer,
}

/// The body of a request or of an answer.
pub(super) struct WatchedBody<B> {
    body: B,
    message: Message,
    progress: SharedProgress,
}

impl<B> WatchedBody<B> {
    pub(super) fn new(body: B, message: Message, progress: SharedProgress) -> Self {
        Self {
            body,
            message,
            progress,
        }
    }
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for WatchedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let is_request = matches!(self.message, Message::Request);
        if is_request && (frame.is_none() || self.body.is_end_stream()) {
            self.progress.lock().body_is_read();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for WatchedBody<B> {
    /// A request's body is dropped when nobody reads on, an answer's after the last byte.
    fn drop(&mut self) {
        let mut progress = self.progress.lock();
        match self.message {
            Message::Request => progress.body_is_left(),
            Message::Answer => progress.answered(Instant::now()),
        }
    }
}
