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

/// A message that came, alone or in a request with several.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) event_id: EventId,
    pub(crate) message: Value,
    /// Number of messages of the request; 0 if the body is the message itself.
    pub(crate) items: usize,
    pub(crate) headers: HeaderMap,
    /// Body of the request.
    pub(crate) body: String,
    pub(crate) answer: Answer,
}

type Decide = Box<dyn FnMut(&str, &Value) -> Answer + Send>;

struct Shared {
    decide: Mutex<Decide>,
    items_max: AtomicUsize,
    received: Mutex<Vec<Received>>,
    open: AtomicUsize,
    open_max: AtomicUsize,
    parts_sent: AtomicUsize,
}

impl Shared {
    fn decide(&self, messages: &[(EventId, Value)]) -> Answer {
        let mut decide = self.decide.lock().unwrap();
        let answers = messages
            .iter()
            .map(|(id, message)| decide(&id.to_string(), message));
        let decisive = |first: Answer, next| if first.accepts() { next } else { first };
        answers.reduce(decisive).unwrap()
    }
}

/// A receiver.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    _tasks: Tasks,
}

impl Received {
    pub(crate) fn message_type(&self) -> String {
        self.message["type"].as_str().unwrap().to_owned()
    }

    pub(crate) fn is_accepted(&self) -> bool {
        self.answer.accepts()
    }
}

impl Answer {
    fn accepts(self) -> bool {
        matches!(self, Self::Status(200..=299) | Self::Endless | Self::Drip)
    }
}

impl Receiver {
    /// Starts a receiver that accepts everything.
    pub(crate) async fn accepting() -> Self {
        Self::answering(|_, _| Answer::Status(204)).await
    }

    /// Starts a receiver that answers as `decide` says: of the id of the event, and the message. A request with several
    /// messages is answered like the first one that is not accepted.
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
            items_max: AtomicUsize::new(usize::MAX),
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

    /// From now on answers 500 to requests with more messages.
    pub(crate) fn fail_beyond(&self, items_max: usize) {
        self.shared.items_max.store(items_max, Ordering::SeqCst);
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

    /// Waits until at least this number of messages came.
    pub(crate) async fn eventually_receives(&self, messages: usize) {
        eventually("the receiver has messages", async || {
            (self.received().len() >= messages).then_some(())
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
    let (messages, items) = messages(&id, &body);
    let answer = if items > shared.items_max.load(Ordering::SeqCst) {
        Answer::Status(500)
    } else {
        shared.decide(&messages)
    };
    let received = messages.into_iter().map(|(event_id, message)| Received {
        event_id,
        message,
        items,
        headers: headers.clone(),
        body: body.clone(),
        answer,
    });
    shared.received.lock().unwrap().extend(received);
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

/// Returns the messages of a request, and their number if they are a list, as for a webhook that gets them in order.
fn messages(id: &str, body: &str) -> (Vec<(EventId, Value)>, usize) {
    let body: Value = serde_json::from_str(body).unwrap();
    if body["type"] != "events" {
        return (vec![(id.parse().unwrap(), body)], 0);
    }
    let items = body["data"]["items"].as_array().unwrap().iter();
    let id_of = |item: &Value| -> EventId { item["id"].as_str().unwrap().parse().unwrap() };
    let items: Vec<(EventId, Value)> = items.map(|item| (id_of(item), item.clone())).collect();
    let ((first, _), (last, message)) = (items.first().unwrap(), items.last().unwrap());
    let count = items.len();
    // One keeps its own id.
    let wanted = if count == 1 {
        last.to_string()
    } else {
        format!("{first}:{last}:{count}")
    };
    assert_eq!(id, wanted);
    assert_eq!(body["timestamp"], message["timestamp"]);
    (items, count)
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
