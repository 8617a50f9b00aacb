//! A port that stays the same across restarts, for the stack's own broker, whose own port changes. Clients
//! begin here, learn the broker's port from the broker, and come back here when that port is gone.

use std::io;

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

/// Number of connections at the same time; further ones wait until one ends.
const CONNECTIONS_MAX: usize = 256;

/// Forwards connections to the broker until the shutdown.
pub(in crate::stack) async fn serve(
    listener: TcpListener,
    broker: String,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let mut open = FuturesUnordered::new();
    loop {
        tokio::select! {
            // A connection that broke off concerns its client only, who connects again.
            accepted = listener.accept(), if open.len() < CONNECTIONS_MAX => {
                if let Ok((client, _)) = accepted {
                    open.push(forward(client, &broker));
                }
            }
            Some(_) = open.next() => {}
            () = shutdown.cancelled() => return Ok(()),
        }
    }
}

async fn forward(mut client: TcpStream, broker: &str) -> io::Result<(u64, u64)> {
    let mut server = TcpStream::connect(broker).await?;
    copy_bidirectional(&mut client, &mut server).await
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn connections_reach_the_broker_until_the_shutdown() {
        let broker = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = broker.local_addr().unwrap().to_string();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let fixed = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let asking = async {
            for _ in 0..2 {
                let mut client = TcpStream::connect(fixed).await.unwrap();
                let (mut server, _) = broker.accept().await.unwrap();
                client.write_all(b"ask").await.unwrap();
                let mut asked = [0; 3];
                server.read_exact(&mut asked).await.unwrap();
                server.write_all(b"answer").await.unwrap();
                drop(server);
                let mut answer = Vec::new();
                client.read_to_end(&mut answer).await.unwrap();
                assert_eq!((&asked, answer.as_slice()), (b"ask", &b"answer"[..]));
            }
            shutdown.cancel();
        };
        let served = serve(listener, address, shutdown.clone());
        let (served, ()) = futures::join!(served, asking);
        served.unwrap();
    }
}
