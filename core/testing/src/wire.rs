//! A wire to a server that can fall silent: nothing passes any more and nothing is closed, as when
//! the server's host is gone.

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

/// Forwards to a server, until it is silenced.
#[derive(Debug, Clone)]
pub struct Wire {
    port: u16,
    silence: Arc<Mutex<CancellationToken>>,
    is_unheard: Arc<AtomicBool>,
}

impl Wire {
    /// One to a database, and the address under which that is behind it.
    pub async fn to(database: &TestDatabase) -> (Self, String) {
        let mut url = Url::parse(database.url()).expect("an address");
        let server_port = url.port().expect("a port");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let wire = Self {
            port: listener.local_addr().expect("an address").port(),
            silence: Arc::default(),
            is_unheard: Arc::default(),
        };
        url.set_port(Some(wire.port)).expect("it has a host");
        let accepting = wire.clone();
        in_background(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", server_port)).await;
                in_background(
                    accepting
                        .clone()
                        .forward(client, server.expect("it listens")),
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
                // Both stay open, and neither hears of the other.
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

    /// Nothing passes from here on, on no connection that there is or will be.
    pub fn fall_silent(&self) {
        self.is_unheard.store(false, Ordering::SeqCst);
        self.silence().cancel();
    }

    /// Waits until somebody has spoken into the silence.
    pub async fn until_unheard(&self) {
        eventually("somebody speaks", async || {
            self.is_unheard.load(Ordering::SeqCst).then_some(())
        })
        .await;
    }

    /// New connections work; the old ones stay as they are.
    pub fn mend(&self) {
        *self.silence() = CancellationToken::new();
    }
}
