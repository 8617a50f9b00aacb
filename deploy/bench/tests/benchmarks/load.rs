//! Loads on a small server that the test starts.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{Router, extract::State, http::StatusCode, routing::get};
use linkledger_bench::load::{LoadTarget, Requests};
use linkledger_service::lifecycle::{self, Tasks};
use tokio::{
    net::TcpListener,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

const CONNECTIONS: usize = 4;
const DURATION: Duration = Duration::from_millis(500);
const NO_WARM_UP: Duration = Duration::ZERO;
/// Duration of a stall: far more than any delay of a slow machine.
const STALL: Duration = Duration::from_secs(1);

/// A server that answers 200, refuses some requests, and stands still at one request.
struct Server {
    /// Every request whose number is a multiple of this value is refused.
    refused: u64,
    /// Number of the request at which the server stands still.
    stalled: u64,
    asked: AtomicU64,
    still_until: Mutex<Option<Instant>>,
}

impl Server {
    const fn always_right() -> Self {
        Self {
            refused: u64::MAX,
            stalled: u64::MAX,
            asked: AtomicU64::new(0),
            still_until: Mutex::new(None),
        }
    }

    async fn answer(State(server): State<Arc<Self>>) -> StatusCode {
        let number = server.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let still_until = {
            let mut still_until = server.still_until.lock().expect("no task has panicked");
            if number == server.stalled {
                *still_until = Some(Instant::now() + STALL);
            }
            *still_until
        };
        if let Some(instant) = still_until {
            sleep_until(instant).await;
        }
        if number.is_multiple_of(server.refused) {
            StatusCode::TOO_MANY_REQUESTS
        } else {
            StatusCode::OK
        }
    }

    async fn start(self) -> (Arc<Self>, LoadTarget, Tasks) {
        let server = Arc::new(self);
        let router = Router::new()
            .route("/", get(Self::answer))
            .with_state(Arc::clone(&server));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let mut tasks = Tasks::new(CancellationToken::new());
        lifecycle::serve(&mut tasks, "server of a load", listener, router);
        (server, target(address), tasks)
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

fn target(address: SocketAddr) -> LoadTarget {
    let get = Requests::new(200, |_, buffer| {
        buffer.extend_from_slice(b"GET / HTTP/1.1\r\nHost: load\r\n\r\n");
    });
    get.to(address, CONNECTIONS)
}

#[tokio::test]
async fn closed_loop_counts_responses_before_its_end() {
    let (server, target, _tasks) = Server::always_right().start().await;
    let seen = target.closed_loop(NO_WARM_UP, DURATION).await;
    let seen = seen.unwrap();
    // The last response of each connection came after the end of the load.
    assert_eq!(seen.answers + CONNECTIONS as u64, server.asked());
    let per_second = seen.per_second() * DURATION.as_secs_f64();
    assert!((per_second - f64::from(u32::try_from(seen.answers).unwrap())).abs() < 0.001);
}

#[tokio::test]
async fn closed_loop_excludes_its_warm_up() {
    let (server, target, _tasks) = Server::always_right().start().await;
    let seen = target.closed_loop(DURATION, DURATION).await.unwrap();
    assert!(
        seen.answers + (CONNECTIONS as u64) < server.asked(),
        "{seen:?}"
    );
}

#[tokio::test]
async fn open_loop_sends_at_the_given_rate() {
    let (server, target, _tasks) = Server::always_right().start().await;
    let seen = target.open_loop(1_000.0, DURATION).await.unwrap();
    assert_eq!(seen.answers, server.asked());
    assert!((400..600).contains(&seen.answers), "{}", seen.answers);
}

#[tokio::test]
async fn unexpected_status_fails_the_load() {
    let server = Server {
        refused: 10,
        ..Server::always_right()
    };
    let (server, target, _tasks) = server.start().await;
    let error = target.open_loop(1_000.0, DURATION).await.unwrap_err();
    let refused = format!("{{429: {}}}", server.asked() / 10);
    assert!(error.to_string().contains(&refused), "{error}");
}

#[tokio::test]
async fn open_loop_shows_stalls_hidden_by_closed_loop() {
    let stalls_early = || Server {
        stalled: 10,
        ..Server::always_right()
    };
    let (_, asked_openly, _tasks) = stalls_early().start().await;
    let (_, asked_in_turn, _more_tasks) = stalls_early().start().await;
    let (open, closed) = tokio::join!(
        asked_openly.open_loop(200.0, 2 * STALL),
        asked_in_turn.closed_loop(NO_WARM_UP, 2 * STALL),
    );
    // Half of the requests are due during the stall, half of these in its first half: they wait at
    // least for the second half. The share is a little smaller, since arrivals are random.
    let slow_ms = |share| open.as_ref().unwrap().latency_ms(1.0 - share);
    let half_ms = STALL.as_secs_f64() * 1_000.0 / 2.0;
    assert!(slow_ms(0.225) >= half_ms, "{}", slow_ms(0.225));
    let hidden_ms = closed.unwrap().latency_ms(1.0 - 0.225);
    assert!(hidden_ms < half_ms, "{hidden_ms}");
}

#[tokio::test]
async fn load_without_a_server_names_the_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = target(listener.local_addr().unwrap());
    drop(listener);
    let error = target.open_loop(1.0, DURATION).await.unwrap_err();
    assert!(
        error.to_string().contains("can't connect to 127.0.0.1"),
        "{error}"
    );
}
