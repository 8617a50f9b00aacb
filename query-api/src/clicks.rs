//! Clicks: recorded while redirects are answered, and published on a topic of their own
//! (`docs/clicks.md`).
//!
//! Invariant: a redirect never waits for a click to be recorded, and never fails because of it. The
//! client's address, the user agent and the full referrer leave neither this module nor the process: they
//! are in no log, trace, metric or record.

mod buffer;
mod classifier;
mod counters;
mod countries;
mod frame;
mod heartbeat;
mod merged;
mod outbox;
mod publisher;
mod recorder;
mod salts;
mod same_address;
mod settings;

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, atomic::AtomicI64},
    thread::available_parallelism,
};

use anyhow::Context as _;
use axum::http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{DNT, FORWARDED, REFERER, USER_AGENT},
};
use linkledger_clicks::{
    BotPatterns, RecorderId, TrustedProxy, asks_for_privacy, client_address, cut, is_prefetch,
    is_unlisted_proxy,
};
use linkledger_core::{
    clock::{Clock, new_uuid},
    cloud_event::RecordKey,
    fair_share::FairShare,
    id::{AccountId, LinkId},
};
use linkledger_event_store::{
    SessionKind, log_meta,
    time_limit::{ANSWER_TIME_MAX, within},
};
use linkledger_service::{
    databases::DatabaseSettings,
    lifecycle::Tasks,
    metrics::{CLICKS_HEARTBEAT_AGE_SECONDS, CLICKS_SAME_ADDRESS},
};
use metrics::gauge;
use sqlx::PgPool;
use time::Date;
use tokio::sync::{Mutex, watch};

use self::{
    buffer::{Buffer, ClickBuffers},
    classifier::{Agents, Classifier},
    counters::ClickCounters,
    frame::{RawClick, RequestFacts},
    heartbeat::Heartbeats,
    merged::milliseconds_of,
    outbox::{Outbox, PerPartition},
    publisher::ClickPublisher,
    recorder::{Recorder, RecordingProgress},
    salts::Salts,
    same_address::SameAddress,
};

pub use self::settings::ClickSettings;
pub(crate) use self::{publisher::check as check_kafka, same_address::suspicious_recorders};

/// Memory for waiting clicks that an account may have: a flood of clicks of one account is merged before the clicks of
/// the others are.
const ACCOUNT_SHARE: FairShare = FairShare { own: 7, free: 1 };

/// Maximum number of database sessions for heartbeats: one, and one more while the server does not answer
/// the ping of the other ([`linkledger_event_store::pool`]).
pub(crate) const RECORDER_CONNECTIONS: u32 = 2;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Headers that say why a page is loaded.
const PURPOSES: [HeaderName; 4] = [
    HeaderName::from_static("sec-purpose"),
    HeaderName::from_static("purpose"),
    HeaderName::from_static("x-purpose"),
    HeaderName::from_static("x-moz"),
];
const SEC_GPC: HeaderName = HeaderName::from_static("sec-gpc");

/// Handle with which requests record clicks; does nothing if clicks are switched off.
#[derive(Clone, Default)]
pub(crate) struct Clicks(Option<Arc<Recording>>);

/// Parts of the recording that requests use.
struct Recording {
    buffers: ClickBuffers,
    trusted_proxies: Vec<TrustedProxy>,
    bots: BotPatterns,
}

/// A request for a short link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visit<'a> {
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) peer: Option<SocketAddr>,
}

impl Clicks {
    /// Starts the recording, unless it is switched off. Returns after the recorder is registered in the
    /// database of the read tables. Referrers of the host `short_host` are of the service itself.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid or the database fails.
    pub(crate) async fn start(
        settings: &ClickSettings,
        databases: &DatabaseSettings,
        short_host: Option<&str>,
        clock: &Arc<dyn Clock>,
        tasks: &mut Tasks,
    ) -> anyhow::Result<Self> {
        let Some(kafka) = settings.kafka()? else {
            return Ok(Self(None));
        };
        let files = settings.read_files()?;
        let started_at = clock.now();
        let recorder_id = RecorderId(new_uuid(started_at));
        let salts = Salts::default();
        let started_at_ms = milliseconds_of(started_at);
        let claimed_until_ms = Arc::new(AtomicI64::new(started_at_ms));
        let (progress, receiver) = watch::channel(RecordingProgress {
            recorded_until_ms: started_at_ms,
            sequences: PerPartition::default(),
            has_same_address: false,
            is_flushed: None,
        });
        let threads = available_parallelism().map_or(1, usize::from);
        let recording = Arc::new(Recording {
            buffers: ClickBuffers::new(threads, Arc::clone(clock)),
            trusted_proxies: settings.trusted_proxies.clone(),
            bots: files.bots.clone(),
        });
        let heartbeats = Heartbeats {
            pool: linkledger_event_store::pool(
                databases.read_url(),
                SessionKind::Reader,
                RECORDER_CONNECTIONS,
            )?,
            recorder_id,
            started_at,
            clock: Arc::clone(clock),
            salts: salts.clone(),
            progress: receiver,
            claimed_until_ms: Arc::clone(&claimed_until_ms),
        };
        heartbeats.begin().await?;
        let record_key = read_record_key(databases.log_url()).await?;
        let publisher = ClickPublisher::new(&kafka, recorder_id, record_key, Arc::clone(clock))?;
        let recorder = Recorder {
            recording: Arc::clone(&recording),
            classifier: Classifier {
                bots: files.bots,
                countries: files.countries,
                salts,
                short_host: short_host.map(str::to_owned),
                agents: Agents::default(),
            },
            outbox: Outbox::new(settings.buffer_bytes()),
            publisher: Some(publisher),
            progress,
            claimed_until_ms,
            counters: ClickCounters::default(),
            same_address: SameAddress::default(),
            drained: Buffer::default(),
            stopped_at: None,
        };
        spawn(recorder, heartbeats, tasks);
        Ok(Self(Some(recording)))
    }

    /// Records the click of a request that is answered with a redirect to a link: copies a few hundred bytes.
    pub(crate) fn record(&self, visit: &Visit<'_>, link: (LinkId, AccountId), slug_key: &str) {
        let Some(recording) = &self.0 else {
            return;
        };
        let (link_id, account_id) = link;
        let headers = visit.headers;
        let value = |name: &HeaderName| headers.get(name).map(HeaderValue::as_bytes);
        let click = RawClick {
            facts: RequestFacts {
                link_id,
                account_id,
                is_head: visit.method == Method::HEAD,
                is_prefetch: is_prefetch(PURPOSES.iter().map(value)),
                wants_privacy: asks_for_privacy(value(&DNT), value(&SEC_GPC)),
                client_address: recording.client_address(visit),
                is_of_unlisted_proxy: recording.is_of_unlisted_proxy(visit),
            },
            slug: slug_key,
            user_agent: cut(value(&USER_AGENT).unwrap_or_default()),
            referer: cut(value(&REFERER).unwrap_or_default()),
        };
        recording.buffers.record(&click, &recording.bots);
    }
}

impl Recording {
    fn client_address(&self, visit: &Visit<'_>) -> Option<IpAddr> {
        let lines = |name: &HeaderName| {
            let lines = visit.headers.get_all(name).iter();
            lines.map(HeaderValue::as_bytes)
        };
        let (forwarded, x_forwarded_for) = (lines(&FORWARDED), lines(&X_FORWARDED_FOR));
        let peer = visit.peer?.ip();
        let trusted = &self.trusted_proxies;
        Some(client_address(peer, trusted, forwarded, x_forwarded_for))
    }

    fn is_of_unlisted_proxy(&self, visit: &Visit<'_>) -> bool {
        let has = |name: &HeaderName| visit.headers.contains_key(name);
        let is_forwarded = has(&FORWARDED) || has(&X_FORWARDED_FOR);
        visit
            .peer
            .is_some_and(|peer| is_unlisted_proxy(peer.ip(), &self.trusted_proxies, is_forwarded))
    }
}

async fn read_record_key(log_url: &str) -> anyhow::Result<RecordKey> {
    let log = linkledger_event_store::pool(log_url, SessionKind::Reader, 1)?;
    let key = within(ANSWER_TIME_MAX, log_meta::click_record_key(&log)).await;
    log.close().await;
    key.context(
        "cannot read the key of the records of clicks; if a right is missing, run deploy/postgres/roles.sql",
    )
}

/// Starts the tasks, which outlive the requests.
fn spawn(recorder: Recorder, heartbeats: Heartbeats, tasks: &mut Tasks) {
    gauge!(CLICKS_HEARTBEAT_AGE_SECONDS).set(0.0);
    gauge!(CLICKS_SAME_ADDRESS).set(0.0);
    let (recorder, heartbeats) = (Arc::new(Mutex::new(recorder)), Arc::new(heartbeats));
    let shutdown = tasks.shutdown();
    tasks.spawn_housekeeping_until_drained("click recorder", move |drained| {
        let (recorder, shutdown) = (Arc::clone(&recorder), shutdown.clone());
        async move { recorder.lock().await.run(shutdown, drained).await }
    });
    tasks.spawn_housekeeping_until_drained("click heartbeats", move |drained| {
        let heartbeats = Arc::clone(&heartbeats);
        async move { heartbeats.run(drained).await }
    });
}

/// Returns true if the database has the salt of a UTC day.
pub(crate) async fn has_salt(pool: &PgPool, day: Date) -> sqlx::Result<bool> {
    let salts = Salts::default();
    salts.read(pool, day).await?;
    Ok(salts.of(day).is_some())
}
