//! Receivers of messages: HTTP servers that answer as a test says, and remember what came.

use std::{
    collections::BTreeSet,
    future::pending,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use futures::stream;
use linkledger_core::id::EventId;
use linkledger_service::lifecycle::{self, Tasks, listen};
use linkledger_testing::eventually;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Bytes of each part of an endless answer.
const PART: usize = 64 * 1024;
/// Parts of an endless answer: 1 GiB.
const PARTS: usize = 16 * 1024;

/// Answer of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Status(u16),
    /// A status with `Retry-After`, in seconds.
    RetryAfter(u16, u32),
    /// 302 to this address.
    Redirect(SocketAddr),
    /// None at all.
    Hang,
    /// 200, with 1 GiB.
    Endless,
    /// 200, with a byte every 50 ms.
    Drip,
}

/// A request that came.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) event_id: EventId,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    pub(crate) answer: Answer,
}

type Decide = Box<dyn FnMut(&str, &Value) -> Answer + Send>;

struct Shared {
    decide: Mutex<Decide>,
    received: Mutex<Vec<Received>>,
    open: AtomicUsize,
    open_max: AtomicUsize,
    parts_sent: AtomicUsize,
}

/// A receiver.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    _tasks: Tasks,
}

impl Received {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn message_type(&self) -> String {
        self.json()["type"].as_str().unwrap().to_owned()
    }

    pub(crate) fn is_accepted(&self) -> bool {
        matches!(
            self.answer,
            Answer::Status(200..=299) | Answer::Endless | Answer::Drip
        )
    }
}

impl Receiver {
    /// Starts a receiver that accepts everything.
    pub(crate) async fn accepting() -> Self {
        Self::answering(|_, _| Answer::Status(204)).await
    }

    /// Starts a receiver that answers as `decide` says: of the id of the event, and the body.
    pub(crate) async fn answering(
        decide: impl FnMut(&str, &Value) -> Answer + Send + 'static,
    ) -> Self {
        Self::on("127.0.0.1:0", decide).await
    }

    pub(crate) async fn on(
        address: &str,
        decide: impl FnMut(&str, &Value) -> Answer + Send + 'static,
    ) -> Self {
        let listener = listen(address.parse().unwrap()).await.unwrap();
        let shared = Arc::new(Shared {
            decide: Mutex::new(Box::new(decide)),
            received: Mutex::default(),
            open: AtomicUsize::new(0),
            open_max: AtomicUsize::new(0),
            parts_sent: AtomicUsize::new(0),
        });
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .fallback(receive)
            .with_state(Arc::clone(&shared));
        let mut tasks = Tasks::new(CancellationToken::new());
        lifecycle::serve(&mut tasks, "receiver", listener, router);
        Self {
            address,
            shared,
            _tasks: tasks,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook?secret-of-the-address", self.address)
    }

    /// Answers otherwise from now on.
    pub(crate) fn answer(&self, decide: impl FnMut(&str, &Value) -> Answer + Send + 'static) {
        *self.shared.decide.lock().unwrap() = Box::new(decide);
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.shared.received.lock().unwrap().clone()
    }

    pub(crate) fn accepted(&self) -> Vec<EventId> {
        let received = self.received().into_iter();
        let accepted = received.filter(Received::is_accepted);
        accepted.map(|it| it.event_id).collect()
    }

    /// Returns the number of requests that wait for an answer.
    pub(crate) fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// Returns the highest number of requests that waited at a time, and begins to count anew.
    pub(crate) fn take_open_max(&self) -> usize {
        self.shared.open_max.swap(0, Ordering::SeqCst)
    }

    pub(crate) fn bytes_sent(&self) -> usize {
        self.shared.parts_sent.load(Ordering::SeqCst) * PART
    }

    /// Waits until all these events are accepted; other ones may be too.
    pub(crate) async fn eventually_accepts(&self, events: &[EventId]) {
        let wanted: BTreeSet<EventId> = events.iter().copied().collect();
        eventually("the receiver has accepted the events", async || {
            let accepted: BTreeSet<EventId> = self.accepted().into_iter().collect();
            wanted.is_subset(&accepted).then_some(())
        })
        .await;
    }

    /// Waits until at least this number of requests came.
    pub(crate) async fn eventually_receives(&self, requests: usize) {
        eventually("the receiver has requests", async || {
            (self.received().len() >= requests).then_some(())
        })
        .await;
    }
}

/// Counts an open request until it is dropped.
struct OpenRequest(Arc<Shared>);

impl OpenRequest {
    fn begin(shared: &Arc<Shared>) -> Self {
        let open = shared.open.fetch_add(1, Ordering::SeqCst) + 1;
        shared.open_max.fetch_max(open, Ordering::SeqCst);
        Self(Arc::clone(shared))
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn receive(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: String) -> Response {
    let _open = OpenRequest::begin(&shared);
    let id = headers["webhook-id"].to_str().unwrap().to_owned();
    let json = serde_json::from_str(&body).unwrap();
    let answer = (shared.decide.lock().unwrap())(&id, &json);
    shared.received.lock().unwrap().push(Received {
        event_id: id.parse().unwrap(),
        headers,
        body,
        answer,
    });
    match answer {
        Answer::Status(status) => response(status, [], "an answer for people"),
        Answer::RetryAfter(status, seconds) => {
            let retry_after = [("retry-after", seconds.to_string())];
            response(status, retry_after, "later")
        }
        Answer::Redirect(to) => response(302, [("location", format!("http://{to}/"))], "there"),
        Answer::Hang => pending().await,
        Answer::Endless => Body::from_stream(endless(shared)).into_response(),
        Answer::Drip => Body::from_stream(drip()).into_response(),
    }
}

fn response<const N: usize>(
    status: u16,
    headers: [(&'static str, String); N],
    body: &'static str,
) -> Response {
    let status = StatusCode::from_u16(status).unwrap();
    let body = if status == StatusCode::NO_CONTENT {
        ""
    } else {
        body
    };
    let mut response = (status, body).into_response();
    for (name, value) in headers {
        let value = value.parse().unwrap();
        response.headers_mut().insert(name, value);
    }
    response
}

fn endless(shared: Arc<Shared>) -> impl futures::Stream<Item = std::io::Result<Bytes>> {
    stream::unfold(0, move |parts| {
        let shared = Arc::clone(&shared);
        async move {
            if parts == PARTS {
                return None;
            }
            shared.parts_sent.fetch_add(1, Ordering::SeqCst);
            Some((Ok(Bytes::from(vec![b'x'; PART])), parts + 1))
        }
    })
}

fn drip() -> impl futures::Stream<Item = std::io::Result<Bytes>> {
    stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Some((Ok(Bytes::from_static(b"x")), ()))
    })
}
