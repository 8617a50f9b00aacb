//! Load over HTTP/1.1, on keep-alive connections.
//!
//! A [`closed_loop`] sends the next request as soon as a response arrives: it finds the maximum
//! rate, but not the latencies, because a stalled server gets fewer requests. An [`open_loop`] has
//! a schedule and measures each latency from the time at which the request was due, so that a stall
//! shows on every request that was due meanwhile (coordinated omission, Gil Tene).

mod closed_loop;
mod connection;
mod each_once;
mod open_loop;
mod outcome;
mod stall;
mod visibility;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use tokio::{task::JoinSet, time::timeout};

pub use closed_loop::closed_loop;
pub use connection::{HttpConnection, HttpResponse};
pub use each_once::each_once;
pub use open_loop::open_loop;
pub use outcome::LoadOutcome;
pub use stall::Stall;
pub use visibility::{FollowedCreates, POLL_INTERVAL, Visibility, follow};

/// Longest wait for the last responses after the end of a load.
const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_mins(1);

/// Appends the request with this number, head and body, to the buffer.
pub type RequestWriter = Arc<dyn Fn(u64, &mut Vec<u8>) + Send + Sync>;

/// The server of a load, and the requests to the server.
#[derive(Clone)]
pub struct LoadTarget {
    /// Address of the server.
    pub address: SocketAddr,
    /// Number of requests that may be under way at the same time.
    pub connections: usize,
    /// Requests.
    pub requests: RequestWriter,
    /// Status of a right response.
    pub expected_status: u16,
}

impl LoadTarget {
    /// Opens all connections before the load begins.
    async fn connect(&self) -> anyhow::Result<Vec<HttpConnection>> {
        let mut connections = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            let opened = HttpConnection::open(self.address).await;
            connections.push(opened.with_context(|| format!("can't connect to {}", self.address))?);
        }
        Ok(connections)
    }
}

/// Sums the outcomes of all connections of a load.
async fn all_seen(
    mut connections: JoinSet<anyhow::Result<LoadOutcome>>,
    duration: Duration,
) -> anyhow::Result<LoadOutcome> {
    let join = async {
        let mut outcome = LoadOutcome::default();
        while let Some(seen) = connections.join_next().await {
            outcome.add(&seen.context("the task of a connection failed")??);
        }
        Ok(outcome)
    };
    timeout(duration + LAST_ANSWERS_TIMEOUT, join)
        .await
        .context("the last requests are not answered within 1 min")?
}
