//! The baseline of redirects: an axum handler with a constant response, in a process of its own.

use std::{io::Read as _, net::Ipv4Addr, net::SocketAddr, process::Stdio};

use anyhow::Context as _;
use axum::{
    Router,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    routing::get,
};
use clap::Args;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use nix::unistd::Pid;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    runtime::Builder,
    task::{JoinSet, spawn_blocking},
};
use tower::ServiceExt as _;

use crate::load::HttpResponse;

/// Headers that hyper adds itself.
const ADDED_BY_HYPER: [HeaderName; 2] = [header::CONTENT_LENGTH, header::DATE];

/// The response of the baseline to every request.
#[derive(Debug, Clone, Args)]
pub struct BareRedirect {
    /// Number of threads of the runtime.
    #[arg(long)]
    threads: usize,
    /// A header of the response, as `name: value`.
    #[arg(long = "header")]
    headers: Vec<String>,
    /// Body of the response.
    #[arg(long)]
    body: String,
}

impl BareRedirect {
    /// Makes a baseline that repeats a response of the service, byte for byte except `Date`.
    ///
    /// # Errors
    /// Returns an error if the response is not text.
    pub fn answering(response: HttpResponse<'_>, threads: usize) -> anyhow::Result<Self> {
        let head = std::str::from_utf8(response.head)?;
        let headers = head.lines().skip(1).filter(|line| {
            let name = line.split(':').next().unwrap_or_default();
            !line.is_empty() && !ADDED_BY_HYPER.iter().any(|added| added == name)
        });
        Ok(Self {
            threads,
            headers: headers.map(str::to_owned).collect(),
            body: std::str::from_utf8(response.body)?.to_owned(),
        })
    }

    /// Prints the address, and serves until standard input ends, which happens when the parent
    /// process ends.
    ///
    /// # Errors
    /// Returns an error if no port can be bound.
    pub fn serve(self) -> anyhow::Result<()> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(self.threads)
            .enable_all()
            .build()?;
        let ended = runtime.block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            say(listener.local_addr()?);
            tokio::select! {
                ended = accept(listener, self.router()?) => ended,
                // Standard input never contains data; the read returns at its end.
                end = spawn_blocking(|| std::io::stdin().read(&mut [0])) => Ok(end?.map(drop)?),
            }
        });
        runtime.shutdown_background();
        ended
    }

    pub(crate) fn router(&self) -> anyhow::Result<Router> {
        let mut headers = HeaderMap::new();
        for line in &self.headers {
            let (name, value) = line.split_once(": ").context("a header is `name: value`")?;
            // A static value, so that a clone only copies a pointer, as with a constant of the
            // program.
            let value = HeaderValue::from_static(value.to_owned().leak());
            headers.append(HeaderName::try_from(name)?, value);
        }
        let answer = (headers, &*self.body.clone().leak());
        Ok(Router::new()
            .route("/{slug}", get(redirect))
            .with_state(answer))
    }
}

async fn redirect(
    State((headers, body)): State<(HeaderMap, &'static str)>,
) -> (StatusCode, HeaderMap, &'static str) {
    (StatusCode::FOUND, headers, body)
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

#[expect(clippy::print_stdout, reason = "the parent process reads the address")]
fn say(address: SocketAddr) {
    println!("{address}");
}

/// The process of the baseline; killed when dropped.
#[derive(Debug)]
pub struct BareServer {
    child: Child,
    /// Address at which the process listens.
    pub address: SocketAddr,
}

impl BareServer {
    /// Starts this program again, with the command that serves the baseline.
    ///
    /// # Errors
    /// Returns an error if the process does not print its address.
    pub async fn start(answer: &BareRedirect) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("bare-redirect")
            .arg(format!("--threads={}", answer.threads))
            .arg(format!("--body={}", answer.body));
        for header in &answer.headers {
            command.arg(format!("--header={header}"));
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("can't start the bare server")?;
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).await?;
        let address = line.trim().parse();
        Ok(Self {
            address: address.context("the bare server prints no address")?,
            child,
        })
    }

    /// Returns the id of the process.
    ///
    /// # Errors
    /// Returns an error if the process has ended.
    pub fn pid(&self) -> anyhow::Result<Pid> {
        let id = self.child.id().context("the bare server has ended")?;
        Ok(Pid::from_raw(i32::try_from(id)?))
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

    use super::{BareRedirect, accept, are_alike};
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
        let bare = BareRedirect::answering(ANSWER, 1).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = accept(listener, bare.router().unwrap());
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
