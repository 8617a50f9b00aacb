//! With a proxy, names are looked up there; addresses are still checked here.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use linkledger_testing::{eventually, in_background};
use reqwest::Url;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::{dispatch_fixture::DispatchFixture, receiver::Receiver};

/// First byte of a connection with TLS.
const TLS_HANDSHAKE: u8 = 0x16;

/// A proxy that records the first line of each request. It ends a tunnel after its first byte.
struct Proxy {
    address: SocketAddr,
    records: Arc<Records>,
    accepting: JoinHandle<()>,
}

#[derive(Default)]
struct Records {
    lines: Mutex<Vec<String>>,
    /// First byte of each tunnel.
    tunnels: Mutex<Vec<u8>>,
}

impl Proxy {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let records = Arc::<Records>::default();
        let recorded = Arc::clone(&records);
        Self {
            address: listener.local_addr().unwrap(),
            records,
            accepting: in_background(async move {
                loop {
                    let (client, _) = listener.accept().await.unwrap();
                    in_background(serve(client, Arc::clone(&recorded)));
                }
            }),
        }
    }

    fn url(&self) -> Url {
        format!("http://{}", self.address).parse().unwrap()
    }

    fn lines(&self) -> Vec<String> {
        self.records.lines.lock().unwrap().clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(mut client: TcpStream, records: Arc<Records>) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|it| it == b"\r\n\r\n") {
        if client.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let line = text.lines().next().unwrap().to_owned();
    records.lines.lock().unwrap().push(line.clone());
    if line.starts_with("CONNECT ") {
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
        let first = client.read_u8().await?;
        records.tunnels.lock().unwrap().push(first);
        return Ok(());
    }
    let target: Url = line.split(' ').nth(1).unwrap().parse().unwrap();
    let address = (target.host_str().unwrap(), target.port().unwrap());
    let mut receiver = TcpStream::connect(address).await?;
    receiver.write_all(&head).await?;
    copy_bidirectional(&mut client, &mut receiver).await?;
    Ok(())
}

#[tokio::test]
async fn messages_go_through_the_proxy() {
    let mut fixture = DispatchFixture::new().await;
    let (proxy, receiver) = (Proxy::start().await, Receiver::accepting().await);
    let looked_up = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&looked_up);
    fixture.proxy_url = Some(proxy.url());
    fixture.look_up = Arc::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(Vec::new()) })
    });
    let in_clear = receiver.url();
    fixture.webhook(&in_clear).await;
    let by_name = fixture.webhook("https://hooks.example.com/").await;
    let dispatcher = fixture.dispatcher().await;
    let events = fixture.grants(3).await;
    receiver.eventually_accepts(&events).await;
    eventually("the proxy has a tunnel", async || {
        let tunnels = proxy.records.tunnels.lock().unwrap();
        tunnels.contains(&TLS_HANDSHAKE).then_some(())
    })
    .await;
    fixture
        .eventually("the end of the tunnel is an illness", by_name, |it| {
            it.health.ill_since.is_some() && it.health.last_status.is_none()
        })
        .await;
    dispatcher.stop().await;
    let lines = proxy.lines();
    assert!(lines.contains(&format!("POST {in_clear} HTTP/1.1")));
    assert!(lines.contains(&"CONNECT hooks.example.com:443 HTTP/1.1".to_owned()));
    assert_eq!(looked_up.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn refused_literal_does_not_reach_the_proxy() {
    let mut fixture = DispatchFixture::new().await;
    let proxy = Proxy::start().await;
    fixture.proxy_url = Some(proxy.url());
    fixture.allow_nets = vec!["127.0.0.1/32".to_owned()];
    fixture.grants(1).await;
    let dispatcher = fixture.dispatcher().await;
    for url in [
        "http://127.0.0.2:8000/",
        "https://10.0.0.1/",
        "https://[::ffff:169.254.169.254]/",
        "https://localhost/",
    ] {
        let webhook = fixture.webhook(url).await;
        let stored = fixture
            .eventually("the address is refused", webhook, |it| {
                it.health.ill_since.is_some()
            })
            .await;
        let error = stored.health.last_error.unwrap();
        assert_eq!(error, "address not allowed", "{url}");
    }
    dispatcher.stop().await;
    assert_eq!(proxy.lines(), Vec::<String>::new());
}
