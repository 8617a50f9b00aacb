//! One HTTP/1 connection, from the first byte to the end.

mod watched;

use std::{
    convert::Infallible,
    future::{Future as _, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use axum::{
    body::Body,
    http::{HeaderValue, header::CONNECTION},
};
use hyper::{
    Request, Response,
    body::{Body as _, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpStream,
    task::coop::unconstrained,
    time::{Instant, Sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{ConnectionLimits, Serve, progress::Progress};
use watched::{Message, WatchedBody, WatchedStream};

/// Maximal length of a request's head, and of buffered input, in bytes. For longer heads, or more
/// than 100 headers, the HTTP library answers 431. `linkledger_http::request` refuses far shorter
/// heads with a problem.
const HEAD_LENGTH_MAX: usize = 64 * 1024;

/// Progress of a connection, shared by stream, bodies and timer.
#[derive(Debug, Clone)]
struct SharedProgress(Arc<Mutex<Progress>>);

impl SharedProgress {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        // No update of a progress can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves a connection until one side closes it, a limit is exceeded, or the last request of the
/// shutdown is answered. Requests are accepted until `idle_drained`.
pub(super) async fn run(
    stream: TcpStream,
    site: impl Serve,
    limits: ConnectionLimits,
    shutdown: CancellationToken,
    idle_drained: CancellationToken,
) {
    // Small answers are sent immediately.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(
            error = &error as &dyn std::error::Error,
            "cannot set TCP_NODELAY"
        );
    }
    let begin = Instant::now();
    let progress = SharedProgress(Arc::new(Mutex::new(Progress::new(limits, begin))));
    let io = TokioIo::new(WatchedStream::new(stream, progress.clone()));
    let is_last = AtomicBool::new(false);
    let service = service_fn(|request| {
        let answer = answer(site.clone(), progress.clone(), request);
        async { answer.await.map(|response| closing(response, &is_last)) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .max_header_size(HEAD_LENGTH_MAX)
            .max_buf_size(HEAD_LENGTH_MAX)
            // Disabled: this timeout does not distinguish a head in progress from an idle
            // connection.
            .header_read_timeout(None)
            .serve_connection(io, service)
    );
    let mut timer = pin!(sleep_until(begin + limits.idle_time_max));
    let mut is_closing = false;
    loop {
        tokio::select! {
            // The connection is polled first: its progress moves the deadline.
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(
                        error = &error as &dyn std::error::Error,
                        "a connection failed"
                    );
                }
                return;
            }
            () = poll_fn(|context| poll_overdue(&progress, timer.as_mut(), context)) => {
                tracing::debug!(?progress, "closed a connection that was too slow");
                return;
            }
            () = shutdown.cancelled(), if !is_last.load(Ordering::Relaxed) => {
                is_last.store(true, Ordering::Relaxed);
            }
            () = idle_drained.cancelled(), if !is_closing => {
                is_closing = true;
                // Ends at once if no request is in progress.
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// During the shutdown, adds `Connection: close`, which ends the connection after this answer.
fn closing<B>(mut response: Response<B>, is_last: &AtomicBool) -> Response<B> {
    if is_last.load(Ordering::Relaxed) {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

async fn answer(
    site: impl Serve,
    progress: SharedProgress,
    request: Request<Incoming>,
) -> Result<Response<WatchedBody<Body>>, Infallible> {
    let has_body = !request.body().is_end_stream();
    progress.lock().head_is_read(has_body, Instant::now);
    let request = request.map(|body| {
        if has_body {
            Body::new(WatchedBody::new(body, Message::Request, progress.clone()))
        } else {
            Body::empty()
        }
    });
    let response = site.answer(request).await;
    Ok(response.map(|body| WatchedBody::new(body, Message::Answer, progress)))
}

/// Becomes ready when the deadline has passed. The timer is reset only for an earlier deadline; a
/// later deadline is checked when the timer fires, which saves a reset on most requests.
fn poll_overdue(
    progress: &SharedProgress,
    mut timer: Pin<&mut Sleep>,
    context: &mut Context<'_>,
) -> Poll<()> {
    // Without a deadline, the connection itself wakes this task and sets one.
    let Some(deadline) = progress.lock().deadline() else {
        return Poll::Pending;
    };
    if deadline < timer.deadline() {
        timer.as_mut().reset(deadline);
    }
    // Unconstrained: a connection with endless input must not use up the timer's budget.
    while pin!(unconstrained(timer.as_mut())).poll(context).is_ready() {
        if timer.deadline() >= deadline {
            return Poll::Ready(());
        }
        timer.as_mut().reset(deadline);
    }
    Poll::Pending
}
