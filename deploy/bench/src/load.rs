//! Load over HTTP/1.1, on connections that are kept alive.
//!
//! A [`closed_loop`] asks again as soon as it is answered: it finds the maximum and says nothing of
//! latencies, because a server that stalls is asked less. An [`open_loop`] has a schedule and takes
//! each latency from the time at which the request should have been sent, so a stall shows on every
//! request that was due meanwhile (coordinated omission, Gil Tene).

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
pub use connection::{Connection, Response};
pub use each_once::each_once;
pub use open_loop::open_loop;
pub use outcome::Outcome;
pub use stall::Stall;
pub use visibility::{Followed, POLL_INTERVAL, Visibility, follow};

/// How long after its end a load may wait for what it has asked.
const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_mins(1);

/// Writes the request of that number, head and body, behind what the buffer holds.
pub type Requests = Arc<dyn Fn(u64, &mut Vec<u8>) + Send + Sync>;

/// Whom to ask what.
#[derive(Clone)]
pub struct Target {
    /// The server.
    pub address: SocketAddr,
    /// How many requests may be under way at once.
    pub connections: usize,
    /// What is asked.
    pub requests: Requests,
    /// The status of a right answer.
    pub expected_status: u16,
}

impl Target {
    /// All of its connections, before the load begins.
    async fn connect(&self) -> anyhow::Result<Vec<Connection>> {
        let mut connections = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            let opened = Connection::open(self.address).await;
            connections.push(opened.with_context(|| format!("can't connect to {}", self.address))?);
        }
        Ok(connections)
    }
}

/// What all connections have seen of a load of that duration.
async fn all_seen(
    mut connections: JoinSet<anyhow::Result<Outcome>>,
    duration: Duration,
) -> anyhow::Result<Outcome> {
    let join = async {
        let mut outcome = Outcome::default();
        while let Some(seen) = connections.join_next().await {
            outcome.add(&seen.context("a connection's task has failed")??);
        }
        Ok(outcome)
    };
    timeout(duration + LAST_ANSWERS_TIMEOUT, join)
        .await
        .context("the last requests are not answered")?
}
