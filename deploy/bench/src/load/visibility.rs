//! When a link that was created is in the list of its account: what its owner sees over HTTP.
//!
//! Some creates, due at times of their own, are followed: right after the answer, and again and
//! again after that, the list is asked for without a consistency token, until the link is in it.
//! The end of the answer that has it counts, so a figure is too high by the time of one list, and by
//! up to [`POLL_INTERVAL`] or, of long waits, a tenth of itself.

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

use super::{Connection, Outcome, Requests, open_loop::arrivals};

/// Between two lists that are asked for: short beside what is measured, and long enough that lists
/// are few beside the creates.
pub const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// The longer it takes the less often it is looked, after this part of what was waited for: lists
/// that came as often as ever would slow down what is slow already.
const PAUSE_PART: u32 = 10;
/// A link that is not there by then is lost.
const PATIENCE: Duration = Duration::from_secs(20);
/// How many creates may be followed at once; what is due above that waits, which shows.
const FOLLOWERS: usize = 64;

/// Creates to follow.
#[derive(Clone)]
pub struct Followed {
    /// Of creates and lists.
    pub address: SocketAddr,
    /// The create of that number.
    pub creates: Requests,
    /// The newest links of the account for which the create of that number is: more of them than
    /// the account creates while one is waited for.
    pub lists: Requests,
}

/// What was seen of creates that were followed.
#[derive(Debug, Clone, Default)]
pub struct Visibility {
    /// From the answer of the create to the link in the list.
    pub from_answer: Outcome,
    /// From the time at which the create was due.
    pub from_due: Outcome,
    /// Of each list that was asked for: what the look itself takes.
    pub lists: Outcome,
}

impl Visibility {
    /// Adds what others have seen.
    pub fn add(&mut self, other: &Self) {
        self.from_answer.add(&other.from_answer);
        self.from_due.add(&other.from_due);
        self.lists.add(&other.lists);
    }
}

/// Follows `per_second` creates a second on average, due as in an open loop.
///
/// # Errors
/// When a connection breaks, something is refused, or a link does not become visible.
pub async fn follow(
    followed: &Followed,
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
        visibility.add(&seen.context("the task of a follower has failed")??);
    }
    Ok(visibility)
}

async fn follow_next(
    followed: Followed,
    (arrivals, next): (Arc<[Duration]>, Arc<AtomicUsize>),
    begin: Instant,
) -> anyhow::Result<Visibility> {
    let mut connection = Connection::open(followed.address).await?;
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

/// The members of a link that count here.
#[derive(Deserialize)]
struct CreatedLink {
    id: String,
}

async fn created(connection: &mut Connection, request: &[u8]) -> anyhow::Result<String> {
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
    connection: &mut Connection,
    request: &[u8],
    link_id: &str,
    lists: &mut Outcome,
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
