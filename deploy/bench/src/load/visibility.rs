//! Time from a create until the list of the account contains the link, as the owner sees it over
//! HTTP.
//!
//! Some creates, which are due at times of their own, are followed: after the response to the
//! create, the list is requested without a consistency token until the list contains the link. The
//! end of the response with the link counts, so a figure is too high by the time of one list, and
//! by up to [`POLL_INTERVAL`] or, for long waits, by a tenth of the figure.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use super::{HttpConnection, LoadOutcome, RequestWriter, open_loop::arrivals};

/// Pause between two requests for a list: short beside the measured time, and long enough that
/// there are few lists beside the creates.
pub const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Part of the elapsed wait that is added to the pause. Lists at a constant rate would slow down a
/// server that is slow already.
const PAUSE_PART: u32 = 10;
/// Longest wait for a link; after this time the link counts as lost.
const PATIENCE: Duration = Duration::from_secs(20);
/// Number of creates that are followed at the same time; a create that is due above this number
/// waits, and the wait shows.
const FOLLOWERS: usize = 64;

/// Creates that are followed.
#[derive(Clone)]
pub struct FollowedCreates {
    /// Address for creates and lists.
    pub address: SocketAddr,
    /// The create with this number.
    pub creates: RequestWriter,
    /// A list of the newest links of the account of the create with this number: more links than
    /// the account creates during the wait.
    pub lists: RequestWriter,
}

/// Outcome of the creates that were followed.
#[derive(Debug, Clone, Default)]
pub struct Visibility {
    /// Time from the response to the create until the link is in the list.
    pub from_answer: LoadOutcome,
    /// Time from the instant at which the create was due until the link is in the list.
    pub from_due: LoadOutcome,
    /// Latencies of the lists, which are part of the measured time.
    pub lists: LoadOutcome,
}

impl Visibility {
    /// Adds the outcome of other followers.
    pub fn add(&mut self, other: &Self) {
        self.from_answer.add(&other.from_answer);
        self.from_due.add(&other.from_due);
        self.lists.add(&other.lists);
    }
}

/// Follows `per_second` creates a second on average, due as in an open loop.
///
/// # Errors
/// Returns an error if a connection breaks, if a request is refused, or if a link does not become
/// visible.
pub async fn follow(
    followed: &FollowedCreates,
    per_second: f64,
    duration: Duration,
) -> anyhow::Result<Visibility> {
    let arrivals: Arc<[Duration]> = arrivals(per_second, duration).into();
    let next = Arc::new(AtomicUsize::new(0));
    let begin = Instant::now();
    let mut followers = JoinSet::new();
    for _ in 0..FOLLOWERS {
        let schedule = (Arc::clone(&arrivals), Arc::clone(&next));
        followers.spawn(follow_next(followed.clone(), schedule, begin));
    }
    let mut visibility = Visibility::default();
    while let Some(seen) = followers.join_next().await {
        visibility.add(&seen.context("the task of a follower failed")??);
    }
    Ok(visibility)
}

async fn follow_next(
    followed: FollowedCreates,
    (arrivals, next): (Arc<[Duration]>, Arc<AtomicUsize>),
    begin: Instant,
) -> anyhow::Result<Visibility> {
    let mut connection = HttpConnection::open(followed.address).await?;
    let mut visibility = Visibility::default();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some(arrival) = arrivals.get(number) else {
            return Ok(visibility);
        };
        let number = number as u64;
        let (mut create, mut list) = (Vec::new(), Vec::new());
        (followed.creates)(number, &mut create);
        (followed.lists)(number, &mut list);
        let due = begin + *arrival;
        sleep_until(due).await;
        let link_id = created(&mut connection, &create).await?;
        let answered = Instant::now();
        until_listed(&mut connection, &list, &link_id, &mut visibility.lists).await?;
        visibility.from_answer.record(200, 200, answered.elapsed());
        visibility.from_due.record(200, 200, due.elapsed());
    }
}

/// Members of a link in the response.
#[derive(Deserialize)]
struct CreatedLink {
    id: String,
}

async fn created(connection: &mut HttpConnection, request: &[u8]) -> anyhow::Result<String> {
    let response = connection.exchange(request).await?;
    ensure!(
        response.status == 201,
        "a create that was to be followed was answered {}: {}",
        response.status,
        String::from_utf8_lossy(response.body)
    );
    let link: CreatedLink =
        serde_json::from_slice(response.body).context("the answer of a create is no link")?;
    Ok(link.id)
}

async fn until_listed(
    connection: &mut HttpConnection,
    request: &[u8],
    link_id: &str,
    lists: &mut LoadOutcome,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let asked = Instant::now();
        let response = connection.exchange(request).await?;
        let is_listed = String::from_utf8_lossy(response.body).contains(link_id);
        ensure!(
            response.status == 200,
            "a list was answered {}",
            response.status
        );
        lists.record(200, 200, asked.elapsed());
        if is_listed {
            return Ok(());
        }
        let waited = begun.elapsed();
        ensure!(
            waited < PATIENCE,
            "link {link_id} was not in the list of its account for {PATIENCE:?}"
        );
        sleep_until(asked + POLL_INTERVAL.max(waited / PAUSE_PART)).await;
    }
}

#[cfg(test)]
mod tests;
