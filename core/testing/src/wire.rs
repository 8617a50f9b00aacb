//! A TCP proxy to a database that can fall silent: the proxy forwards no byte and closes no connection,
//! as if the host of the server had vanished.

use std::{
    future::pending,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{TestDatabase, eventually, in_background};

/// TCP proxy to a server, which forwards until [`Wire::fall_silent`].
#[derive(Debug, Clone)]
pub struct Wire {
    port: u16,
    silence: Arc<Mutex<CancellationToken>>,
    is_unheard: Arc<AtomicBool>,
}

impl Wire {
    /// Starts a proxy to a database. Returns the proxy, and the URL of the database through the proxy.
    pub async fn to(database: &TestDatabase) -> (Self, String) {
        let mut url = Url::parse(database.url()).expect("an address");
        let server_port = url.port().expect("a port");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let wire = Self {
            port: listener.local_addr().expect("an address").port(),
            silence: Arc::default(),
            is_unheard: Arc::default(),
        };
        url.set_port(Some(wire.port))
            .expect("the address has a host");
        let accepting = wire.clone();
        in_background(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", server_port)).await;
                in_background(
                    accepting
                        .clone()
                        .forward(client, server.expect("the server listens")),
                );
            }
        });
        (wire, url.into())
    }

    async fn forward(self, mut client: TcpStream, mut server: TcpStream) {
        let silence = self.silence().clone();
        tokio::select! {
            biased;
            () = silence.cancelled() => {
                // Both connections stay open, and no byte is forwarded.
                client.readable().await.ok();
                self.is_unheard.store(true, Ordering::SeqCst);
                pending::<()>().await;
            }
            ended = copy_bidirectional(&mut client, &mut server) => drop(ended),
        }
    }

    fn silence(&self) -> std::sync::MutexGuard<'_, CancellationToken> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops forwarding on all existing and new connections.
    pub fn fall_silent(&self) {
        self.is_unheard.store(false, Ordering::SeqCst);
        self.silence().cancel();
    }

    /// Waits until a client has sent bytes that were not forwarded.
    pub async fn until_unheard(&self) {
        eventually("a client sends bytes", async || {
            self.is_unheard.load(Ordering::SeqCst).then_some(())
        })
        .await;
    }

    /// Forwards new connections again. Existing connections stay silent.
    pub fn mend(&self) {
        *self.silence() = CancellationToken::new();
    }
}
