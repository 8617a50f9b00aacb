//! `GET /{slug}` on the short host: follows a short link (contract §11).

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{
        HeaderValue,
        header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION},
    },
    response::Response,
};
use linkledger_core::{
    event_store::{log::LinkEndState, slugs, time_limit::within},
    link::Slug,
    metrics::CACHE_REQUESTS_TOTAL,
    problem::{Code, Problem},
    single_flight::{LoadRole, SingleFlight},
};
use metrics::{Counter, counter};
use sqlx::PgPool;
use tokio::time::Instant;

use crate::{
    checkpoint_watcher::{CheckpointWatcher, Projection},
    config::RedirectStatus,
    consistency::{Wait, read_model_behind},
    read_model::{
        Place, available,
        redirects::{self, Redirect, Target},
    },
    redirect_cache::{LookUp, RedirectCache, Ticket},
};

/// Longest time that a look into the read table may take: others wait for the same.
const LOAD_TIME_MAX: Duration = Duration::from_secs(2);

/// Headers of a redirect, those included that are the same for all answers.
const HEADERS: usize = 5;

/// Finds out where slugs lead to.
pub(crate) struct Redirects {
    pool: PgPool,
    watcher: Arc<CheckpointWatcher>,
    cache: Arc<RedirectCache>,
    flights: SingleFlight<String, Load>,
    look_ups: LookUps,
}

/// What the cache has said so far.
struct LookUps {
    hits: Counter,
    misses: Counter,
    bypassed: Counter,
}

impl LookUps {
    fn new() -> Self {
        let counter =
            |result| counter!(CACHE_REQUESTS_TOTAL, "cache" => "redirects", "result" => result);
        Self {
            hits: counter("hit"),
            misses: counter("miss"),
            bypassed: counter("bypassed"),
        }
    }
}

/// What a load has found, for all who waited for it.
#[derive(Debug, Clone)]
struct Load {
    ticket: Ticket,
    found: Result<Option<Redirect>, Problem>,
}

impl Redirects {
    pub(crate) fn new(
        pool: PgPool,
        watcher: Arc<CheckpointWatcher>,
        cache: Arc<RedirectCache>,
    ) -> Self {
        Self {
            pool,
            watcher,
            cache,
            flights: SingleFlight::default(),
            look_ups: LookUps::new(),
        }
    }

    /// What becomes of a visitor of this slug; `None` when nobody has it. Every look-up of a
    /// redirect is here.
    async fn redirect_of(&self, slug: &Slug) -> Result<Option<Redirect>, Problem> {
        let folded = slug.folded();
        let found = match self.look_up(&folded) {
            LookUp::Hit(redirect) => Some(redirect),
            LookUp::Miss => self.load_once(slug, &folded).await?,
            LookUp::Bypassed => {
                let found = self.find(slug).await?;
                self.cache.forget_slug(&folded);
                found
            }
        };
        if found.is_some() {
            return Ok(found);
        }
        let found = self.missing(slug).await?;
        if found.is_some() {
            self.cache.forget_slug(&folded);
        }
        Ok(found)
    }

    /// The redirect, if the read table has it; of requests for one slug, one asks.
    async fn load_once(&self, slug: &Slug, folded: &str) -> Result<Option<Redirect>, Problem> {
        let mut has_waited = false;
        // Ends with the first load that is not given up by its client.
        loop {
            let result = match self.flights.join(folded.to_owned()) {
                LoadRole::Load(flight) => {
                    let load = self.load(slug, folded).await;
                    flight.finish(load.clone());
                    return load.found;
                }
                LoadRole::Wait(result) => result,
            };
            if let Some(load) = result.outcome().await {
                // Begun before this request, it is good as long as the cache would have it; whatever
                // comes after the first wait has begun later.
                let is_good = has_waited || self.cache.is_current(load.ticket, Instant::now());
                if is_good || load.found.is_err() {
                    return load.found;
                }
            }
            has_waited = true;
        }
    }

    async fn load(&self, slug: &Slug, folded: &str) -> Load {
        let ticket = self.cache.ticket();
        let found = self.find(slug).await;
        if let Ok(Some(redirect)) = &found {
            self.cache.store(ticket, folded, redirect.clone());
        }
        Load { ticket, found }
    }

    async fn find(&self, slug: &Slug) -> Result<Option<Redirect>, Problem> {
        available(within(LOAD_TIME_MAX, redirects::find(&self.pool, slug))).await
    }

    fn look_up(&self, folded: &str) -> LookUp {
        let look_up = self.cache.look_up(folded, Instant::now());
        let count = match &look_up {
            LookUp::Hit(_) => &self.look_ups.hits,
            LookUp::Miss => &self.look_ups.misses,
            LookUp::Bypassed => &self.look_ups.bypassed,
        };
        count.increment(1);
        look_up
    }

    /// A miss is judged by the event store: what exists there is never answered with 404.
    async fn missing(&self, slug: &Slug) -> Result<Option<Redirect>, Problem> {
        let Some(holder) = available(slugs::find_holder(&self.pool, slug)).await? else {
            return Ok(None);
        };
        match holder.extent.end_state {
            LinkEndState::Deleted | LinkEndState::Disabled => {
                return Ok(Some(Redirect {
                    account_id: holder.account_id,
                    target: Target::Gone,
                }));
            }
            LinkEndState::Undetermined => {}
        }
        let created_at = Place {
            epoch: self.watcher.log_epoch(),
            position: holder.extent.created_at,
        };
        let seen = Wait::begin(&self.watcher, Projection::Redirects, holder.shard)
            .read_containing(created_at, || {
                available(redirects::find_of_owner(
                    &self.pool,
                    slug,
                    holder.account_id,
                ))
            })
            .await?;
        // Still missing although the checkpoint is past it: it exists all the same.
        seen.value.map(Some).ok_or_else(read_model_behind)
    }
}

/// What following a link needs.
#[derive(Clone)]
pub(crate) struct FollowLink {
    pub(crate) redirects: Arc<Redirects>,
    pub(crate) status: RedirectStatus,
}

/// Sends the visitor on. The query of the request is neither looked at nor passed on.
pub(crate) async fn follow_link(follow: &FollowLink, slug: &str) -> Result<Response, Problem> {
    // A name that has been reserved since is still that of its link.
    let slug = Slug::parse_stored(slug).map_err(|_| no_such_short_link())?;
    let redirect = follow.redirects.redirect_of(&slug).await?;
    let destination = match redirect.ok_or_else(no_such_short_link)?.target {
        Target::Destination(destination) => destination,
        Target::Gone => return Err(short_link_gone()),
    };
    let location = HeaderValue::try_from(String::from(destination)).map_err(|_| {
        tracing::error!("a stored destination is no header value");
        Problem::internal()
    })?;
    let mut response = Response::new(Body::from("Redirecting.\n"));
    *response.status_mut() = follow.status.code();
    let headers = response.headers_mut();
    headers.reserve(HEADERS);
    headers.insert(LOCATION, location);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, content_type);
    Ok(response)
}

/// The same for a malformed and an unknown slug.
fn no_such_short_link() -> Problem {
    let detail = "Check the address; there is no such short link.";
    Problem::new(Code::LinkNotFound, detail)
}

/// The same for a deleted, a disabled and a stopped link: a visitor need not know which.
fn short_link_gone() -> Problem {
    let detail = "The link was deleted or taken out of service; it can't be followed.";
    Problem::new(Code::ShortLinkGone, detail)
}
