//! Load over HTTP/1.1, on keep-alive connections.
//!
//! A [closed loop](LoadTarget::closed_loop) sends the next request as soon as a response arrives:
//! it finds the maximum rate, but not the latencies, because a stalled server gets fewer requests.
//! An [open loop](LoadTarget::open_loop) has a schedule and measures each latency from the time at
//! which the request was due, so that a stall shows on every request that was due meanwhile
//! (coordinated omission, Gil Tene).

mod connection;
mod outcome;
mod visibility;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};

pub use connection::{HttpConnection, HttpResponse};
pub use outcome::LoadOutcome;
pub use visibility::{FollowedCreates, POLL_INTERVAL, Visibility};

/// Warm-up before a maximum rate is measured.
pub const WARM_UP: Duration = Duration::from_secs(1);
/// Seed of the random numbers, so that every run has the same arrivals.
const SEED: u64 = 1;
/// Longest duration of a load with a fixed number of requests.
const DURATION_MAX: Duration = Duration::from_mins(10);
/// Longest wait for the last responses after the end of a load.
const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_mins(1);

/// Appends the request with this number, head and body, to the buffer.
type RequestWriter = Arc<dyn Fn(u64, &mut Vec<u8>) + Send + Sync>;

/// Requests of one kind.
#[derive(Clone)]
pub struct Requests {
    /// Appends the request with this number to the buffer.
    pub write: RequestWriter,
    /// Status of a right response.
    pub status: u16,
}

impl Requests {
    /// Makes requests that are answered with this status.
    pub fn new(status: u16, write: impl Fn(u64, &mut Vec<u8>) + Send + Sync + 'static) -> Self {
        let write = Arc::new(write);
        Self { write, status }
    }

    /// Sends the requests to a server, so many of them at the same time.
    pub fn to(&self, address: SocketAddr, connections: usize) -> LoadTarget {
        LoadTarget {
            address,
            connections,
            requests: self.clone(),
        }
    }
}

/// The server of a load, and the requests to the server.
#[derive(Clone)]
pub struct LoadTarget {
    /// Address of the server.
    pub address: SocketAddr,
    /// Number of requests that may be under way at the same time.
    pub connections: usize,
    /// Requests.
    pub requests: Requests,
}

impl LoadTarget {
    /// Sends requests on every connection without a pause, and counts the responses after the
    /// warm-up.
    ///
    /// # Errors
    /// Returns an error if a response does not come, or has another status than expected.
    pub async fn closed_loop(
        &self,
        warm_up: Duration,
        duration: Duration,
    ) -> anyhow::Result<LoadOutcome> {
        let connections = self.connect().await?;
        let begin = Instant::now() + warm_up;
        let pace = Pace::Between(begin, begin + duration);
        let mut outcome = self.run(connections, pace, warm_up + duration).await?;
        outcome.seconds = duration.as_secs_f64();
        Ok(outcome)
    }

    /// Sends requests like [`LoadTarget::closed_loop`], after the usual warm-up.
    ///
    /// # Errors
    /// Returns an error if a response does not come, or has another status than expected.
    pub async fn maximum(&self, duration: Duration) -> anyhow::Result<LoadOutcome> {
        self.closed_loop(WARM_UP, duration).await
    }

    /// Sends `per_second` requests a second on average, at times that do not depend on responses (a
    /// Poisson process), and measures each latency from the time at which the request was due. A
    /// request that is due while every connection is busy waits, and the wait counts.
    ///
    /// The timer wakes up to a millisecond late; this delay counts as well.
    ///
    /// # Errors
    /// Returns an error if a response does not come, or has another status than expected.
    pub async fn open_loop(
        &self,
        per_second: f64,
        duration: Duration,
    ) -> anyhow::Result<LoadOutcome> {
        let connections = self.connect().await?;
        let pace = Pace::arrivals(per_second, duration);
        self.run(connections, pace, duration).await
    }

    /// Sends the first `count` requests, on every connection without a pause.
    ///
    /// # Errors
    /// Returns an error if a response does not come, or has another status than expected.
    pub async fn each_once(&self, count: u64) -> anyhow::Result<LoadOutcome> {
        let connections = self.connect().await?;
        self.run(connections, Pace::Count(count), DURATION_MAX)
            .await
    }

    /// Opens all connections before the load begins.
    async fn connect(&self) -> anyhow::Result<Vec<HttpConnection>> {
        let mut connections = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            let opened = HttpConnection::open(self.address).await;
            connections.push(opened.with_context(|| format!("can't connect to {}", self.address))?);
        }
        Ok(connections)
    }

    /// Sends the requests, and sums the outcomes of all connections.
    async fn run(
        &self,
        connections: Vec<HttpConnection>,
        pace: Pace,
        duration: Duration,
    ) -> anyhow::Result<LoadOutcome> {
        let begun = Instant::now();
        let numbers = Arc::new(AtomicU64::new(0));
        let mut loads = JoinSet::new();
        for connection in connections {
            let (pace, numbers) = (pace.clone(), Arc::clone(&numbers));
            loads.spawn(send(connection, self.requests.clone(), pace, numbers));
        }
        let sum = async {
            let mut outcome = LoadOutcome::default();
            while let Some(seen) = loads.join_next().await {
                outcome.add(&seen.context("the task of a connection failed")??);
            }
            anyhow::Ok(outcome)
        };
        let sum = timeout(duration + LAST_ANSWERS_TIMEOUT, sum).await;
        let mut outcome = sum.context("the last requests are not answered within 1 min")??;
        outcome.seconds = begun.elapsed().as_secs_f64();
        outcome.all_expected()
    }
}

/// Times at which the requests of a load are sent.
#[derive(Clone)]
enum Pace {
    /// Without a pause; responses between these instants count.
    Between(Instant, Instant),
    /// Without a pause, this number of requests.
    Count(u64),
    /// At these times after the instant.
    Due(Instant, Arc<[Duration]>),
}

impl Pace {
    /// Draws the times at which requests are due, from now on.
    fn arrivals(per_second: f64, duration: Duration) -> Self {
        let mut random = SmallRng::seed_from_u64(SEED);
        let mut due = 0.0;
        let arrivals = std::iter::from_fn(|| {
            // The time between two arrivals of a Poisson process has an exponential distribution.
            due -= (1.0 - random.random::<f64>()).ln() / per_second;
            (due < duration.as_secs_f64()).then(|| Duration::from_secs_f64(due))
        });
        let arrivals = arrivals.collect();
        Self::Due(Instant::now(), arrivals)
    }

    /// Returns true if the load has a request with this number.
    fn has(&self, number: u64) -> bool {
        match self {
            Self::Between(..) => true,
            Self::Count(count) => number < *count,
            Self::Due(_, arrivals) => number < arrivals.len() as u64,
        }
    }

    /// Waits until the request is due, and returns the instant from which its latency counts.
    async fn until_due(&self, number: u64) -> Instant {
        let Self::Due(begin, arrivals) = self else {
            return Instant::now();
        };
        let due = *begin + arrivals[usize::try_from(number).expect("64 bits")];
        sleep_until(due).await;
        due
    }
}

async fn send(
    mut connection: HttpConnection,
    requests: Requests,
    pace: Pace,
    numbers: Arc<AtomicU64>,
) -> anyhow::Result<LoadOutcome> {
    let mut request = Vec::new();
    let mut outcome = LoadOutcome::default();
    loop {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        if !pace.has(number) {
            return Ok(outcome);
        }
        request.clear();
        (requests.write)(number, &mut request);
        let due = pace.until_due(number).await;
        let answer = connection.exchange(&request).await;
        let status = answer.context("a request is not answered")?.status;
        let answered = Instant::now();
        if let Pace::Between(begin, end) = pace {
            if answered >= end {
                return Ok(outcome);
            }
            if answered < begin {
                continue;
            }
        }
        outcome.record(status, requests.status, answered - due);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Pace;

    #[test]
    fn arrivals_have_the_wanted_rate_and_jitter() {
        let Pace::Due(_, arrivals) = Pace::arrivals(1_000.0, Duration::from_secs(10)) else {
            panic!("requests are due at certain times");
        };
        let count = arrivals.len();
        assert!((9_500..10_500).contains(&count), "{count}");
        assert!(arrivals.is_sorted());
        let gaps = arrivals
            .windows(2)
            .map(|pair| pair[1].saturating_sub(pair[0]));
        let long = gaps.filter(|gap| gap.as_micros() > 2_000).count();
        // e^-2 of them are longer than twice their mean.
        assert!((1_200..1_500).contains(&long), "{long}");
    }
}
