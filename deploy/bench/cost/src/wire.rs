//! A proxy to Postgres that forwards bytes and counts round trips.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    thread,
};

use anyhow::Context as _;

/// Largest number of bytes that are forwarded at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// A listener in front of the server. The threads of the proxy end with the connections, and with
/// the process.
pub(crate) struct Wire {
    url: String,
    round_trips: Arc<AtomicI64>,
}

impl Wire {
    /// Starts a proxy to the server at this address.
    pub(crate) fn to(url: &str) -> anyhow::Result<Self> {
        let (before, after) = url.rsplit_once(':').context("an address with a port")?;
        let (port, after) = after
            .split_once('/')
            .context("an address with a database")?;
        let server_port: u16 = port.parse()?;
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let round_trips = Arc::new(AtomicI64::new(0));
        let counter = Arc::clone(&round_trips);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // The client notices a connection that could not be opened.
                forward(client, server_port, &counter).ok();
            }
        });
        Ok(Self {
            url: format!("{before}:{port}/{after}"),
            round_trips,
        })
    }

    /// Returns the address of the proxy, for use in place of the server's address.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the number of round trips on all connections.
    pub(crate) fn round_trips(&self) -> i64 {
        self.round_trips.load(Ordering::SeqCst)
    }
}

fn forward(client: TcpStream, server_port: u16, round_trips: &Arc<AtomicI64>) -> io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", server_port))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let is_answered = Arc::new(AtomicBool::new(true));
    let (asked, answered) = (Arc::clone(&is_answered), is_answered);
    let round_trips = Arc::clone(round_trips);
    let (client_reader, server_writer) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        // Bytes of a client after a response begin a new round trip, even if they come in several
        // pieces.
        let note = || {
            if asked.swap(false, Ordering::SeqCst) {
                round_trips.fetch_add(1, Ordering::SeqCst);
            }
        };
        pump(client_reader, server_writer, note).ok();
    });
    thread::spawn(move || pump(server, client, || answered.store(true, Ordering::SeqCst)).ok());
    Ok(())
}

/// Forwards bytes until one side ends, and calls `note` before each piece.
fn pump(mut from: TcpStream, mut to: TcpStream, note: impl Fn()) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let length = from.read(&mut chunk)?;
        if length == 0 {
            return to.shutdown(Shutdown::Write);
        }
        note();
        to.write_all(&chunk[..length])?;
    }
}
