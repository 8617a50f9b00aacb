//! The baseline of redirects: an axum handler with a constant response, on threads of its own.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context as _;
use axum::{
    Router,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    routing::get,
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
    task::JoinSet,
};
use tower::ServiceExt as _;

use crate::load::HttpResponse;

/// Headers that hyper adds itself.
const ADDED_BY_HYPER: [HeaderName; 2] = [header::CONTENT_LENGTH, header::DATE];

/// Makes an app that answers every visit with a response of the service, byte for byte except
/// `Date`.
///
/// # Errors
/// Returns an error if the response is not text.
pub fn answering(response: HttpResponse<'_>) -> anyhow::Result<Router> {
    let head = std::str::from_utf8(response.head)?;
    let mut headers = HeaderMap::new();
    for line in head.lines().skip(1).filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(": ").context("a header is `name: value`")?;
        let name = HeaderName::try_from(name)?;
        if !ADDED_BY_HYPER.contains(&name) {
            // A static value, so that a clone only copies a pointer, as with a constant of the
            // program.
            headers.append(name, HeaderValue::from_static(value.to_owned().leak()));
        }
    }
    let body: &'static str = std::str::from_utf8(response.body)?.to_owned().leak();
    let redirect = move || async move { (StatusCode::FOUND, headers, body) };
    Ok(Router::new().route("/{slug}", get(redirect)))
}

/// Serves each connection until its client closes it; an error ends only its own connection.
pub(crate) async fn accept(listener: TcpListener, router: Router) -> anyhow::Result<()> {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        connections.spawn(serve_connection(stream, router.clone()));
    }
}

async fn serve_connection(stream: TcpStream, router: Router) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let service = service_fn(|request: hyper::Request<Incoming>| router.clone().oneshot(request));
    http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await?;
    Ok(())
}

/// A server in this process, of the baseline or of receivers; stopped when dropped.
#[derive(Debug)]
pub struct BareServer {
    runtime: Option<Runtime>,
    /// Address at which the server listens.
    pub address: SocketAddr,
}

impl BareServer {
    /// Serves the app on this number of threads, apart from those of the caller.
    ///
    /// # Errors
    /// Returns an error if no port can be bound.
    pub async fn start(app: Router, threads: usize) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        // A listener belongs to the runtime that has made it.
        let listener = listener.into_std()?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()?;
        drop(runtime.spawn(async move { accept(TcpListener::from_std(listener)?, app).await }));
        Ok(Self {
            runtime: Some(runtime),
            address,
        })
    }
}

impl Drop for BareServer {
    fn drop(&mut self) {
        // A runtime must not wait for its tasks while another runtime drops it.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Returns true if two responses are the same, except for `Date`.
pub fn are_alike(one: &HttpResponse<'_>, other: &HttpResponse<'_>) -> bool {
    let head = |response: &HttpResponse<'_>| -> Vec<String> {
        let text = String::from_utf8_lossy(response.head).into_owned();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.retain(|line| !line.starts_with("date: "));
        lines.sort();
        lines
    };
    one.body == other.body && one.head.len() == other.head.len() && head(one) == head(other)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::{accept, answering, are_alike};
    use crate::load::{HttpConnection, HttpResponse};

    const ANSWER: HttpResponse<'static> = HttpResponse {
        status: 302,
        head: b"HTTP/1.1 302 Found\r\nlocation: https://example.com/?a=b: c\r\n\
                cache-control: private, no-store\r\ncontent-type: text/plain; charset=utf-8\r\n\
                x-robots-tag: noindex\r\nx-request-id: req_01h455vb4pex5vsknk084sn02q\r\n\
                content-length: 13\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n",
        body: b"Redirecting.\n",
    };

    #[tokio::test]
    async fn bare_server_replays_the_response_except_the_date() {
        let app = answering(ANSWER).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = accept(listener, app);
        let asked = async {
            let mut connection = HttpConnection::open(address).await.unwrap();
            for _ in 0..2 {
                let request = b"GET /abc HTTP/1.1\r\nHost: localhost\r\n\r\n";
                let answer = connection.exchange(request).await.unwrap();
                let text = String::from_utf8_lossy(answer.head);
                assert!(are_alike(&answer, &ANSWER), "{text}");
            }
        };
        tokio::select! {
            ended = served => panic!("{ended:?}"),
            () = asked => {}
        }
    }

    #[test]
    fn different_responses_are_not_alike() {
        let other = |from: &str, to: &str| {
            let head = std::str::from_utf8(ANSWER.head).unwrap();
            head.replace(from, to).into_bytes()
        };
        for (from, to) in [
            ("302", "301"),
            ("noindex", "noondex"),
            ("-length: 13", "-length: 14"),
        ] {
            let head = other(from, to);
            let answer = HttpResponse {
                head: &head,
                ..ANSWER
            };
            assert!(!are_alike(&answer, &ANSWER), "{to}");
        }
        assert!(!are_alike(
            &HttpResponse {
                body: b"",
                ..ANSWER
            },
            &ANSWER
        ));
        let head = other("1970", "1971");
        assert!(are_alike(
            &HttpResponse {
                head: &head,
                ..ANSWER
            },
            &ANSWER
        ));
    }
}
