//! Addresses that must not be reached, and answers that must not cost memory or time.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use linkledger_core::webhook::{DeliveryState, WebhookChangeRequest};
use linkledger_projector::webhooks::LookUp;
use linkledger_testing::{eventually, in_background};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{
    dispatch_fixture::DispatchFixture,
    process::Process,
    receiver::{Answer, Receiver},
};

/// A listener that counts connections, and closes them.
struct Trap {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Trap {
    async fn on(ip: &str) -> Self {
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        Self {
            address: listener.local_addr().unwrap(),
            connections,
            accepting: in_background(async move {
                loop {
                    drop(listener.accept().await.unwrap());
                    counted.fetch_add(1, Ordering::SeqCst);
                }
            }),
        }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Trap {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Returns a look-up that gives these answers one after the other, and then the last one.
fn look_up(answers: Vec<Vec<SocketAddr>>) -> (LookUp, Arc<AtomicUsize>) {
    let (answers, asked) = (Mutex::new(VecDeque::from(answers)), Arc::default());
    let counted = Arc::<AtomicUsize>::clone(&asked);
    let look_up: LookUp = Arc::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        let mut answers = answers.lock().unwrap();
        let answer = if answers.len() > 1 {
            answers.pop_front().unwrap()
        } else {
            answers[0].clone()
        };
        Box::pin(async move { Ok(answer) })
    });
    (look_up, asked)
}

#[tokio::test]
async fn name_that_answers_differently_reaches_no_refused_address() {
    let (allowed, refused) = (Trap::on("127.0.0.1").await, Trap::on("127.0.0.2").await);
    let mut fixture = DispatchFixture::new().await;
    fixture.allow_nets = vec!["127.0.0.1/32".to_owned()];
    let (first, later) = (allowed.address, refused.address);
    let (look_up, asked) = look_up(vec![
        vec![first],
        vec![later],
        vec![later, first],
        vec![later],
    ]);
    fixture.look_up = look_up;
    let webhook = fixture.webhook("https://hooks.example.com/").await;
    fixture.grants(1).await;
    let dispatcher = fixture.dispatcher().await;
    eventually("the name was looked up for each probe", async || {
        fixture.clock.advance(Duration::from_mins(1));
        (asked.load(Ordering::SeqCst) >= 5).then_some(())
    })
    .await;
    let stored = fixture
        .eventually("no address is allowed", webhook, |it| {
            it.health.last_error.as_deref() == Some("address not allowed")
        })
        .await;
    assert!(stored.health.ill_since.is_some());
    dispatcher.stop().await;
    assert!(allowed.connections() > 0);
    assert_eq!(refused.connections(), 0);
}

#[tokio::test]
async fn refused_literal_is_never_connected_to() {
    let trap = Trap::on("127.0.0.2").await;
    let mut fixture = DispatchFixture::new().await;
    fixture.allow_nets = vec!["127.0.0.1/32".to_owned()];
    let port = trap.address.port();
    let dispatcher = fixture.dispatcher().await;
    fixture.grants(1).await;
    for url in [
        format!("http://127.0.0.2:{port}/"),
        format!("https://127.0.0.2:{port}/"),
        format!("http://[::ffff:127.0.0.2]:{port}/"),
        // Stored before the rules became stricter.
        format!("http://localhost:{port}/"),
    ] {
        let webhook = fixture.webhook(&url).await;
        let stored = fixture
            .eventually("the address is refused", webhook, |it| {
                it.health.ill_since.is_some()
            })
            .await;
        let error = stored.health.last_error.unwrap();
        assert_eq!(error, "address not allowed", "{url}");
    }
    dispatcher.stop().await;
    assert_eq!(trap.connections(), 0);
}

#[tokio::test]
async fn proxy_of_the_environment_is_not_used() {
    let fixture = DispatchFixture::new().await;
    let (trap, receiver) = (Trap::on("127.0.0.1").await, Receiver::accepting().await);
    fixture.webhook(&receiver.url()).await;
    let proxy = format!("http://{}", trap.address);
    let names = [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
    ];
    let variables = names.map(|name| (name, proxy.as_str()));
    let process = Process::start_with(&fixture, &variables);
    let events = fixture.grants(3).await;
    receiver.eventually_accepts(&events).await;
    drop(process);
    assert_eq!(trap.connections(), 0);
}

#[tokio::test]
async fn changed_address_gets_the_later_messages() {
    let fixture = DispatchFixture::new().await;
    let (before, after) = (Receiver::accepting().await, Receiver::accepting().await);
    let webhook = fixture.webhook(&before.url()).await;
    let first = fixture.grants(3).await;
    let dispatcher = fixture.dispatcher().await;
    before.eventually_accepts(&first).await;
    fixture.eventually_at_end(webhook).await;
    let rules = fixture.config().webhooks.url_rules();
    let wanted = WebhookChangeRequest {
        url: Some(rules.parse(&after.url()).unwrap()),
        ..WebhookChangeRequest::default()
    };
    fixture.change(webhook, wanted).await;
    let later = fixture.grants(3).await;
    after.eventually_accepts(&later).await;
    assert_eq!(before.received().len(), first.len());
    dispatcher.stop().await;
}

#[tokio::test]
async fn endless_and_dripping_answers_are_cut() {
    for answer in [Answer::Endless, Answer::Drip] {
        let fixture = DispatchFixture::new().await;
        let receiver = Receiver::answering(move |_, _| answer).await;
        let webhook = fixture.webhook(&receiver.url()).await;
        let events = fixture.grants(4).await;
        let begun = Instant::now();
        let dispatcher = fixture.dispatcher().await;
        for event in &events {
            // Accepted by its status, once.
            let delivery = fixture
                .eventually_delivery((webhook, *event), |it| it.attempts == 1)
                .await;
            assert_eq!(delivery.state, DeliveryState::Delivered);
            let response = delivery.response.unwrap();
            assert!(response.len() <= 1_024 && response.starts_with('x'));
        }
        // All at once, each for 5 s at most; the rest is for a busy machine.
        assert!(begun.elapsed() < Duration::from_mins(1));
        assert_eq!(receiver.received().len(), events.len());
        eventually("the connections are closed", async || {
            (receiver.open() == 0).then_some(())
        })
        .await;
        // Buffers of sockets and of the server; of four answers with 1 GiB each.
        assert!(receiver.bytes_sent() < 64 << 20);
        dispatcher.stop().await;
    }
}
