//! `GET /{slug}` on the short host: follows a short link.
//! `docs/api.md#redirects` describes the answers.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    body::Body,
    http::{
        HeaderValue, StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION},
    },
    response::Response,
};
use linkledger_core::{clock::Clock, link::Slug, projection::Projection};
use linkledger_event_store::{
    log::LinkEndState,
    slugs::{self, SlugHolder},
};
use linkledger_http::{
    dataloader::{BatchedRead, Dataloader},
    problem::{Code, Problem},
};
use linkledger_service::{databases::Databases, lifecycle::Tasks, metrics::CACHE_REQUESTS_TOTAL};
use metrics::{Counter, counter};
use sqlx::PgPool;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use crate::{
    checkpoint_watcher::CheckpointWatcher,
    clicks::{Clicks, Visit},
    consistency::VisibilityWait,
    read_model::{
        LogPosition,
        redirects::{Redirect, RedirectOf, RedirectTarget, VisibilityOf},
    },
    redirect_cache::{CacheLookup, LoadTicket, RedirectCache},
};

/// Timeout of reading a redirect from the read table, for which other requests wait, and again of asking the event
/// store: both end before an ingress gives up after 5 s.
const LOAD_TIME_MAX: Duration = Duration::from_secs(2);

/// Number of headers of a redirect, including the headers that all answers have.
const HEADERS: usize = 6;
const NOT_STORED: HeaderValue = HeaderValue::from_static("private, no-store");
const PLAIN_TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Lower-cased slug whose link is looked up in the event store, because the read table lacks the slug.
#[derive(Debug, Clone)]
struct HolderOf(String);

impl BatchedRead for HolderOf {
    type Value = Option<SlugHolder>;
    const TASK: &'static str = "slug reader";
    const REQUESTS_MAX: usize = 256;

    async fn read_each(pool: &PgPool, keys: &[Self]) -> sqlx::Result<Vec<Self::Value>> {
        let slug_keys: Vec<String> = keys.iter().map(|key| key.0.clone()).collect();
        slugs::find_holders(pool, &slug_keys).await
    }
}

/// Finds the redirects of slugs, in the cache or in the database.
pub(crate) struct Redirects {
    reads: Dataloader<RedirectOf>,
    holders: Dataloader<HolderOf>,
    /// Reads of the visibility of links that the log has and the read table lacked.
    visibilities: Dataloader<VisibilityOf>,
    watcher: Arc<CheckpointWatcher>,
    cache: Arc<RedirectCache>,
    /// Loads by slug. Two loads of one slug at once could store the older redirect last.
    flights: SingleFlight<String, RedirectLoad>,
    hits: Counter,
    misses: Counter,
    bypassed: Counter,
}

/// Result of a load, shared by all requests that waited for the load.
#[derive(Debug, Clone)]
struct RedirectLoad {
    ticket: LoadTicket,
    result: Result<Option<Redirect>, Problem>,
}

impl Redirects {
    /// Starts the background tasks that read the tables. `databases` are for the short host alone:
    /// requests for unknown slugs must not delay the API.
    pub(crate) fn start(
        databases: &Databases,
        watcher: Arc<CheckpointWatcher>,
        cache: Arc<RedirectCache>,
        tasks: &mut Tasks,
    ) -> Self {
        let lookups =
            |result| counter!(CACHE_REQUESTS_TOTAL, "cache" => "redirects", "result" => result);
        Self {
            reads: Dataloader::start(&databases.read, tasks),
            holders: Dataloader::start(&databases.log, tasks),
            visibilities: Dataloader::start(&databases.read, tasks),
            watcher,
            cache,
            flights: SingleFlight::default(),
            hits: lookups("hit"),
            misses: lookups("miss"),
            bypassed: lookups("bypassed"),
        }
    }

    /// Returns the redirect of a lower-cased slug; `None` if no link has the slug.
    async fn find_redirect(&self, slug_key: &str) -> Result<Option<Redirect>, Problem> {
        let redirect = match self.look_up(slug_key) {
            CacheLookup::Hit(redirect) => Some(redirect),
            CacheLookup::Miss => self.load_once(slug_key).await?,
            // The cached redirect may be stale, and must not be served after this answer.
            CacheLookup::Bypassed => {
                let redirect = self.read(slug_key).await?;
                self.cache.invalidate_slug(slug_key);
                redirect
            }
        };
        if redirect.is_some() {
            return Ok(redirect);
        }
        // The read table may lag: an existing link must not get 404.
        let finding = timeout(LOAD_TIME_MAX, self.find_in_event_store(slug_key)).await;
        let redirect = finding.unwrap_or_else(|_elapsed| Err(Problem::storage_unavailable()))?;
        if redirect.is_some() {
            // Another load may have stored an older redirect meanwhile.
            self.cache.invalidate_slug(slug_key);
        }
        Ok(redirect)
    }

    /// Loads the redirect from the read table, if the table has the slug. Concurrent requests for
    /// one slug share one load.
    async fn load_once(&self, slug_key: &str) -> Result<Option<Redirect>, Problem> {
        let mut has_waited = false;
        // At most one joined load is discarded as stale. After that, only a load whose client disconnects
        // causes another turn.
        loop {
            let joined = match self.flights.join(slug_key.to_owned()).await {
                Ok(flight) => {
                    let load = self.load(slug_key).await;
                    flight.finish(load.clone());
                    return load.result;
                }
                Err(joined) => joined,
            };
            if let Some(load) = joined {
                // The first load began before this request, so its result may only be used while the
                // cache would still store that result. Every later load began after this request.
                let is_usable = has_waited || self.cache.is_current(load.ticket, Instant::now());
                if is_usable || load.result.is_err() {
                    return load.result;
                }
            }
            has_waited = true;
        }
    }

    async fn load(&self, slug_key: &str) -> RedirectLoad {
        let ticket = self.cache.ticket();
        let result = self.read(slug_key).await;
        if let Ok(Some(redirect)) = &result {
            self.cache.store(ticket, slug_key, redirect.clone());
        }
        RedirectLoad { ticket, result }
    }

    async fn read(&self, slug_key: &str) -> Result<Option<Redirect>, Problem> {
        let reading = self.reads.read(RedirectOf(slug_key.to_owned()));
        let read = timeout(LOAD_TIME_MAX, reading).await;
        read.unwrap_or_else(|_elapsed| Err(Problem::storage_unavailable()))
    }

    fn look_up(&self, slug_key: &str) -> CacheLookup {
        let look_up = self.cache.look_up(slug_key, Instant::now());
        let count = match &look_up {
            CacheLookup::Hit(_) => &self.hits,
            CacheLookup::Miss => &self.misses,
            CacheLookup::Bypassed => &self.bypassed,
        };
        count.increment(1);
        look_up
    }

    /// Asks the event store for a slug that the read table lacks: an existing link must not get 404.
    async fn find_in_event_store(&self, slug_key: &str) -> Result<Option<Redirect>, Problem> {
        let Some(holder) = self.holders.read(HolderOf(slug_key.to_owned())).await? else {
            return Ok(None);
        };
        match holder.extent.end_state {
            LinkEndState::Deleted | LinkEndState::Disabled => {
                return Ok(Some(Redirect {
                    account_id: holder.account_id,
                    target: RedirectTarget::Gone,
                }));
            }
            LinkEndState::Undetermined => {}
        }
        let created_at = LogPosition {
            epoch: self.watcher.log_epoch(),
            position: holder.extent.created_at,
        };
        VisibilityWait::begin(&self.watcher, Projection::Redirects, holder.shard)
            .read_containing(created_at, || {
                self.visibilities.read(VisibilityOf(holder.account_id))
            })
            .await?;
        // The link exists, although the read table may lack it at a later checkpoint.
        let redirect = self.read(slug_key).await?;
        redirect.map(Some).ok_or_else(Problem::read_model_behind)
    }
}

/// State for following short links.
#[derive(Clone)]
pub(crate) struct FollowLink {
    pub(crate) redirects: Arc<Redirects>,
    pub(crate) status: StatusCode,
    pub(crate) clicks: Clicks,
    /// Clock that expiries are compared with. Caches keep the instant with the link, so that all processes obey the
    /// instant without a change of a row.
    pub(crate) clock: Arc<dyn Clock>,
}

/// Redirects the visitor, and records the click. The query of the request is neither checked nor added to
/// the destination.
pub(crate) async fn follow_link(
    follow: &FollowLink,
    slug: &Slug,
    visit: Visit<'_>,
) -> Result<Response, Problem> {
    let slug_key = slug.key();
    let redirect = follow.redirects.find_redirect(&slug_key).await?;
    let redirect = redirect.ok_or_else(no_such_short_link)?;
    let (link_id, url) = match redirect.target {
        RedirectTarget::Destination {
            expiry: Some(expiry),
            ..
        } if expiry.expires_at <= follow.clock.now() => {
            let url = expiry.expired_url.ok_or_else(Problem::short_link_gone)?;
            // Not a click: the link no longer leads to its destination.
            return redirect_to(url, StatusCode::FOUND, slug);
        }
        RedirectTarget::Destination { link_id, url, .. } => (link_id, url),
        RedirectTarget::Gone => return Err(Problem::short_link_gone()),
    };
    let response = redirect_to(url, follow.status, slug)?;
    let link = (link_id, redirect.account_id);
    follow.clicks.record(&visit, link, &slug_key);
    Ok(response)
}

fn redirect_to(url: Box<str>, status: StatusCode, slug: &Slug) -> Result<Response, Problem> {
    let location = HeaderValue::try_from(String::from(url)).map_err(|_| {
        tracing::error!(%slug, "the stored destination of the short link is no valid header value");
        Problem::internal()
    })?;
    let mut response = Response::new(Body::from("Redirecting.\n"));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.reserve(HEADERS);
    headers.insert(LOCATION, location);
    headers.insert(CACHE_CONTROL, NOT_STORED);
    headers.insert(CONTENT_TYPE, PLAIN_TEXT);
    // No `Referrer-Policy`: it would hold for the request to the destination, and hide there whose page the visitor
    // came from.
    Ok(response)
}

/// Returns the problem for a malformed slug and for an unknown slug.
pub(crate) fn no_such_short_link() -> Problem {
    let detail = "Check the address; there is no such short link.";
    Problem::new(Code::LinkNotFound, detail)
}

/// Loads in progress, by key: concurrent requests for one key share one load.
#[derive(Debug)]
struct SingleFlight<K: Eq + Hash, T>(Mutex<Receivers<K, T>>);

type Receivers<K, T> = HashMap<K, watch::Receiver<Option<T>>>;

/// A load in progress. Dropping it ends the load, also if the request is cancelled.
#[derive(Debug)]
struct LoadInProgress<'a, K: Eq + Hash, T> {
    flights: &'a SingleFlight<K, T>,
    key: K,
    sender: watch::Sender<Option<T>>,
}

impl<K: Eq + Hash, T> Default for SingleFlight<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash, T: Clone> SingleFlight<K, T> {
    /// Starts a load, which the caller has to finish, or waits for the load in progress.
    ///
    /// # Errors
    /// Returns the result of the load in progress; `None` if the load was cancelled.
    async fn join(&self, key: K) -> Result<LoadInProgress<'_, K, T>, Option<T>> {
        let mut receiver = match self.lock().entry(key) {
            Entry::Occupied(flight) => flight.get().clone(),
            Entry::Vacant(place) => {
                let (sender, receiver) = watch::channel(None);
                let key = place.key().clone();
                place.insert(receiver);
                return Ok(LoadInProgress {
                    flights: self,
                    key,
                    sender,
                });
            }
        };
        let result = receiver.wait_for(Option::is_some).await;
        Err(result.ok().and_then(|result| result.clone()))
    }
}

impl<K: Eq + Hash, T> SingleFlight<K, T> {
    fn lock(&self) -> MutexGuard<'_, Receivers<K, T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash, T> LoadInProgress<'_, K, T> {
    /// Ends the load and publishes the result.
    fn finish(self, outcome: T) {
        let sender = self.sender.clone();
        // Removed first: a request that arrives after the end must start another load.
        drop(self);
        sender.send_replace(Some(outcome));
    }
}

impl<K: Eq + Hash, T> Drop for LoadInProgress<'_, K, T> {
    fn drop(&mut self) {
        let removed = self.flights.lock().remove(&self.key);
        debug_assert!(removed.is_some(), "only the flight removes its key");
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn waiting_requests_share_one_result() {
        let flights = SingleFlight::<char, u8>::default();
        let first = flights.join('a').await.unwrap();
        let mut waiting = [(); 3].map(|()| Box::pin(flights.join('a')));
        for request in &mut waiting {
            assert!(request.now_or_never().is_none(), "two loads at once");
        }
        assert!(flights.join('b').await.is_ok());
        first.finish(7);
        for request in waiting {
            assert_eq!(request.await.unwrap_err(), Some(7));
        }
        // A later request needs a load of its own.
        assert!(flights.join('a').await.is_ok());
    }

    #[tokio::test]
    async fn cancelled_load_ends_the_wait() {
        let flights = SingleFlight::<char, u8>::default();
        let first = flights.join('a').await.unwrap();
        let mut waiting = Box::pin(flights.join('a'));
        assert!((&mut waiting).now_or_never().is_none(), "two loads at once");
        drop(first);
        assert_eq!(waiting.await.unwrap_err(), None);
        assert!(flights.join('a').await.is_ok());
    }
}
