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
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use super::{HttpConnection, LoadOutcome, Pace, Requests};

/// Pause between two requests for a list: short beside the measured time, and long enough that
/// there are few lists beside the creates.
pub const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Part of the elapsed wait that is added to the pause. Lists at a constant rate would slow down a
/// server that is slow already.
const PAUSE_PART: u32 = 10;
/// Longest wait for a link; after this time the link counts as lost.
const PATIENCE: Duration = Duration::from_secs(20);
/// Number of creates that are followed at the same time; a create that is due above this number
/// waits.
const FOLLOWERS: usize = 64;

/// Creates that are followed.
#[derive(Clone)]
pub struct FollowedCreates {
    /// Address for creates and lists.
    pub address: SocketAddr,
    /// The create with this number.
    pub creates: Requests,
    /// A list of the newest links of the account of the create with this number: more links than
    /// the account creates during the wait.
    pub lists: Requests,
}

/// Outcome of the creates that were followed.
#[derive(Debug, Clone, Default)]
pub struct Visibility {
    /// Time from the response to the create until the link is in the list.
    pub waits: LoadOutcome,
    /// Latencies of the lists, which are part of the measured time.
    pub lists: LoadOutcome,
}

impl Visibility {
    /// Adds the outcome of other followers.
    pub fn add(&mut self, other: &Self) {
        self.waits.add(&other.waits);
        self.lists.add(&other.lists);
    }
}

/// Members of a link in the response.
#[derive(Deserialize)]
struct CreatedLink {
    id: String,
}

impl FollowedCreates {
    /// Follows `per_second` creates a second on average, due as in an open loop.
    ///
    /// # Errors
    /// Returns an error if a request is refused, or if a link does not become visible.
    pub async fn follow(&self, per_second: f64, duration: Duration) -> anyhow::Result<Visibility> {
        let pace = Pace::arrivals(per_second, duration);
        let numbers = Arc::new(AtomicU64::new(0));
        let mut followers = JoinSet::new();
        for _ in 0..FOLLOWERS {
            let (pace, numbers) = (pace.clone(), Arc::clone(&numbers));
            followers.spawn(self.clone().follow_each(pace, numbers));
        }
        let mut visibility = Visibility::default();
        while let Some(seen) = followers.join_next().await {
            visibility.add(&seen.context("the task of a follower failed")??);
        }
        Ok(visibility)
    }

    async fn follow_each(self, pace: Pace, numbers: Arc<AtomicU64>) -> anyhow::Result<Visibility> {
        let mut connection = HttpConnection::open(self.address).await?;
        let mut visibility = Visibility::default();
        loop {
            let number = numbers.fetch_add(1, Ordering::Relaxed);
            if !pace.has(number) {
                return Ok(visibility);
            }
            let (mut create, mut list) = (Vec::new(), Vec::new());
            (self.creates.write)(number, &mut create);
            (self.lists.write)(number, &mut list);
            pace.until_due(number).await;
            let link: CreatedLink = connection.json(&create, self.creates.status).await?;
            let answered = Instant::now();
            until_listed(&mut connection, &list, &link.id, &mut visibility.lists).await?;
            visibility.waits.record(200, 200, answered.elapsed());
        }
    }
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
