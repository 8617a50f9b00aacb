//! Health check of a process by its own program, for images without a shell.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use axum::{
    body::Body,
    http::{Request, StatusCode, header::HOST},
};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};

/// Timeout for the connection and the answer, in seconds; shorter than the usual timeout of the
/// health check itself.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);

/// Checks that the process with this internal listener is ready.
///
/// # Errors
/// Returns an error if the process is not ready or does not answer within two seconds.
pub async fn check(internal: SocketAddr) -> anyhow::Result<()> {
    let address = reachable(internal);
    let status = timeout(ANSWER_TIME_MAX, readiness(address))
        .await
        .with_context(|| format!("no answer from http://{address}/readyz"))??;
    ensure!(
        status == StatusCode::OK,
        "not ready: http://{address}/readyz answers {status}"
    );
    Ok(())
}

async fn readiness(address: SocketAddr) -> anyhow::Result<StatusCode> {
    let stream = TcpStream::connect(address)
        .await
        .with_context(|| format!("no process listens on {address}"))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get("/readyz").header(HOST, address.to_string());
    let answer = sender.send_request(request.body(Body::empty())?);
    // The connection must be polled to make progress. Its result after the head of the answer is
    // irrelevant.
    let answer = tokio::select! {
        answer = answer => answer,
        ended = connection => Err(ended.err().context("the connection ended without an answer")?),
    };
    Ok(answer.context("no answer")?.status())
}

/// Returns the address of a listener; loopback for a listener on all addresses.
fn reachable(listener: SocketAddr) -> SocketAddr {
    let ip = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, listener.port())
}

#[cfg(test)]
mod tests {
    use axum::{Router, routing::get};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::lifecycle::{Tasks, listen, serve};

    async fn process_that_answers(status: StatusCode) -> (Tasks, SocketAddr) {
        let everywhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        let listener = listen(everywhere).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = Tasks::new(CancellationToken::new());
        let router = Router::new().route("/readyz", get(move || async move { status }));
        serve(&mut tasks, "internal", listener, router);
        (tasks, address)
    }

    #[tokio::test]
    async fn a_process_that_is_ready_is_healthy() {
        let (_tasks, address) = process_that_answers(StatusCode::OK).await;
        check(address).await.unwrap();
    }

    #[tokio::test]
    async fn a_process_that_is_not_ready_is_not_healthy() {
        let (_tasks, address) = process_that_answers(StatusCode::SERVICE_UNAVAILABLE).await;
        let error = check(address).await.unwrap_err().to_string();
        let port = address.port();
        assert_eq!(
            error,
            format!("not ready: http://127.0.0.1:{port}/readyz answers 503 Service Unavailable")
        );
    }

    #[tokio::test]
    async fn health_check_names_a_closed_port() {
        let free_port = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let address = listen(free_port).await.unwrap().local_addr().unwrap();
        let error = check(address).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("no process listens on {address}")
        );
    }
}
