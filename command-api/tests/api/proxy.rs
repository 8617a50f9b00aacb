//! A proxy between the service and Postgres that breaks a connection at the worst moment.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use linkledger_testing as testing;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// Fault of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection is closed; the server never sees the COMMIT.
    BeforeCommit,
    /// The connection is closed after the server has executed the COMMIT; the answer is lost.
    AfterCommit,
    /// As `AfterCommit`, and the server is unreachable until [`Proxy::mend`].
    AfterCommitForLong,
    /// From a statement with the given words on, the proxy forwards no more bytes and closes no
    /// connection, as if the server's host had vanished.
    SilenceFrom(&'static str),
    /// The same after the server has executed the COMMIT.
    SilenceAfterCommit,
}

impl Fault {
    /// Returns true if the client's bytes trigger the fault.
    fn begins_with(self, bytes: &[u8]) -> bool {
        let words = match self {
            Self::BeforeCommit
            | Self::AfterCommit
            | Self::AfterCommitForLong
            | Self::SilenceAfterCommit => "COMMIT",
            Self::SilenceFrom(words) => words,
        };
        bytes
            .windows(words.len())
            .any(|window| window == words.as_bytes())
    }
}

/// State of a connection.
enum Fate {
    Lives,
    IsClosed,
    FallsSilent,
}

/// Proxy that forwards bytes until a fault is due.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    fault: Arc<Mutex<Option<Fault>>>,
    broken: Arc<AtomicUsize>,
    is_away: Arc<AtomicBool>,
}

impl Proxy {
    /// Starts a proxy to the server on a port of this machine.
    pub(crate) async fn start(server_port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let proxy = Self {
            port,
            fault: Arc::default(),
            broken: Arc::default(),
            is_away: Arc::default(),
        };
        let accepting = proxy.clone();
        testing::in_background(async move {
            while let Ok((client, _)) = listener.accept().await {
                if accepting.is_away.load(Ordering::SeqCst) {
                    continue;
                }
                let server = TcpStream::connect(("127.0.0.1", server_port))
                    .await
                    .unwrap();
                testing::in_background(accepting.clone().forward(client, server));
            }
        });
        proxy
    }

    /// Breaks the next connection that triggers the fault.
    pub(crate) fn break_next(&self, fault: Fault) {
        *self.fault.lock().unwrap() = Some(fault);
    }

    /// Lets connections through again.
    pub(crate) fn mend(&self) {
        self.is_away.store(false, Ordering::SeqCst);
    }

    /// Number of broken connections.
    pub(crate) fn broken(&self) -> usize {
        self.broken.load(Ordering::SeqCst)
    }

    async fn forward(self, mut client: TcpStream, mut server: TcpStream) {
        let (mut from_client, mut from_server) = (vec![0; 65_536], vec![0; 65_536]);
        loop {
            tokio::select! {
                Ok(length) = client.read(&mut from_client) => {
                    if length == 0 {
                        return;
                    }
                    let bytes = &from_client[..length];
                    let fate = self.pass(bytes, &mut server, &mut from_server).await;
                    if matches!(fate, Fate::Lives) {
                        continue;
                    }
                    self.broken.fetch_add(1, Ordering::SeqCst);
                    if matches!(fate, Fate::FallsSilent) {
                        // Stays open until the client closes the connection.
                        while client.read(&mut from_client).await.is_ok_and(|length| length > 0) {}
                    }
                    return;
                }
                Ok(length) = server.read(&mut from_server) => {
                    if length == 0 || client.write_all(&from_server[..length]).await.is_err() {
                        return;
                    }
                }
                else => return,
            }
        }
    }

    /// Forwards the bytes, unless the fault is due.
    async fn pass(&self, bytes: &[u8], server: &mut TcpStream, answer: &mut [u8]) -> Fate {
        let fault = self
            .fault
            .lock()
            .unwrap()
            .take_if(|it| it.begins_with(bytes));
        let fate = match fault {
            None => Fate::Lives,
            Some(Fault::BeforeCommit) => return Fate::IsClosed,
            Some(Fault::SilenceFrom(_)) => return Fate::FallsSilent,
            Some(Fault::AfterCommit) => Fate::IsClosed,
            Some(Fault::AfterCommitForLong) => {
                self.is_away.store(true, Ordering::SeqCst);
                Fate::IsClosed
            }
            Some(Fault::SilenceAfterCommit) => Fate::FallsSilent,
        };
        server.write_all(bytes).await.unwrap();
        if fault.is_some() {
            // The server has committed; the proxy drops the answer.
            assert!(server.read(answer).await.unwrap() > 0);
        }
        fate
    }
}
