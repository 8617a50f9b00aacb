//! Benchmark of subscribers: lags of webhooks and feeds while many accounts create links, and that of all other webhooks
//! while one receiver hangs. It fails if an event does not arrive.

use std::{
    collections::HashSet,
    future::pending,
    mem,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{bail, ensure};
use axum::{
    Router,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    routing::post,
};
use clap::Args;
use linkledger_core::{
    clock::{Clock as _, SystemClock},
    timestamp,
};
use linkledger_http::route_table;
use serde::Deserialize;
use time::OffsetDateTime;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    accounts::LoadAccount,
    bare_redirect::BareServer,
    bench::BenchContext,
    data_set::DataSet,
    figures::Figures,
    load::{HttpConnection, LoadOutcome, LoadTarget},
    report::Report,
    requests,
    stack::BrokerKind,
};

const WRITERS: usize = 64;
const CREATES_PER_SECOND: f64 = 250.0;
/// Events of a create: the link's, and its charge.
const EVENTS_EACH: u32 = 2;
/// Seconds for which a request for a page of a feed waits.
const FEED_WAIT: u32 = 25;
/// Number of the account whose receiver hangs in the second part of a round: the first one.
const HANGING: usize = 0;
/// Longest time from the last create until all its events have arrived.
const TIMEOUT: Duration = Duration::from_mins(1);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

const APPENDED: &str = "events appended";
const MESSAGES: &str = "messages received";
const LAGS: [[&str; 2]; 2] = [
    ["webhooks: p50", "webhooks: p99"],
    ["feeds: p50", "feeds: p99"],
];
const BESIDE: &str = "webhooks beside one that hangs: p99";
const REPEATS: &str = "repeats";

/// Options of the benchmark `subscribers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub struct SubscribersOptions {
    /// Number of accounts, each with a webhook.
    #[arg(long, default_value_t = Self::DEFAULT.accounts,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    accounts: u32,
    /// Number of readers of feeds, each of another account.
    #[arg(long, default_value_t = Self::DEFAULT.readers,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    readers: u32,
    /// Duration of the load in a round, in seconds, in place of --seconds; one receiver hangs for half as long again.
    #[arg(long, default_value_t = Self::DEFAULT.load_seconds,
          value_parser = clap::value_parser!(u64).range(2..=600))]
    load_seconds: u64,
}

impl SubscribersOptions {
    /// Options of the command `all`.
    pub const DEFAULT: Self = Self {
        accounts: 1_000,
        readers: 64,
        load_seconds: 60,
    };
}

pub(super) async fn run(
    bench: &BenchContext,
    options: SubscribersOptions,
) -> anyhow::Result<Report> {
    ensure!(
        options.readers <= options.accounts,
        "each reader needs an account of its own"
    );
    let mut figures = Figures::default();
    let mut all = LAGS.map(|_| LoadOutcome::default());
    for _ in bench.rounds("subscribers") {
        let lags = add_round(bench, options, &mut figures).await?;
        for (all, lags) in all.iter_mut().zip(&lags) {
            all.add(lags);
        }
    }
    let [[webhooks_p50, webhooks_p99], [feeds_p50, feeds_p99]] = LAGS;
    let beside = figures.ratio(BESIDE, "ms", webhooks_p99);
    let rows = [
        figures.row(APPENDED, "events/s"),
        figures.row(MESSAGES, "messages/s"),
        figures.row(webhooks_p50, "ms"),
        figures.row(webhooks_p99, "ms").at_most(1_000.0),
        figures.row(feeds_p50, "ms"),
        figures.row(feeds_p99, "ms").at_most(500.0),
        beside.to("when none hangs").at_most(1.5),
    ];
    let title = "Lag of webhooks and feeds behind the log";
    let mut report = Report::new("subscribers", title, rows);
    report.latencies = vec![all[0].curve("webhooks"), all[1].curve("feeds")];
    Ok(report.note(format!(
        "{} accounts, {} feeds, {CREATES_PER_SECOND} creates a second for {} s; none of their events is missing, \
         {:.0} came again.",
        options.accounts,
        options.readers,
        options.load_seconds,
        figures.of(REPEATS).iter().sum::<f64>()
    )))
}

/// Measures on a new stack, and returns the lags of webhooks and feeds.
async fn add_round(
    bench: &BenchContext,
    options: SubscribersOptions,
    figures: &mut Figures,
) -> anyhow::Result<[LoadOutcome; 2]> {
    let set = DataSet::new(options.accounts, 0);
    let stage = bench.stage(set, BrokerKind::Embedded).await?;
    let (stack, accounts) = (stage.stack, stage.accounts);
    let subscribers = Arc::new(Subscribers::default());
    let app = Router::new().route("/{account}", post(receive));
    let receiver = BareServer::start(app.with_state(Arc::clone(&subscribers)), 1).await?;
    let webhooks = requests::webhooks(&accounts, receiver.address).to(stack.api, WRITERS);
    webhooks.each_once(options.accounts.into()).await?;
    let mut readers = JoinSet::new();
    // The order of the accounts is random, so these are in any shards.
    for account in &accounts[..usize::try_from(options.readers)?] {
        let feed = Feed::open(stack.api, account.clone()).await?;
        readers.spawn(feed.follow(Arc::clone(&subscribers)));
    }
    let creates = requests::creates_in_step(&accounts).to(stack.api, WRITERS);
    let lags = tokio::select! {
        lags = measure(bench, options, &creates, &subscribers, figures) => lags?,
        ended = readers.join_next() => bail!("a feed can't be read any further: {ended:?}"),
    };
    // Otherwise the stack waits for the receiver that hangs before it stops.
    drop((readers, receiver));
    stack.stop().await?;
    Ok(lags)
}

/// Measures while all subscribers wait for events. The creates are for the accounts in turn, from the first one on.
async fn measure(
    bench: &BenchContext,
    options: SubscribersOptions,
    creates: &LoadTarget,
    subscribers: &Subscribers,
    figures: &mut Figures,
) -> anyhow::Result<[LoadOutcome; 2]> {
    // The dispatcher sees new webhooks within a second, so the first messages are late.
    let warm_up = creates.each_once(options.accounts.into()).await?;
    subscribers.lags_after(warm_up.answers, options).await?;
    bench.server.checkpoint().await?;

    let duration = Duration::from_secs(options.load_seconds);
    let begun = Instant::now();
    let mut load = creates.open_loop(CREATES_PER_SECOND, duration).await?;
    let appended = f64::from(EVENTS_EACH) * load.per_second();
    let lags = subscribers.lags_after(load.answers, options).await?;
    load.seconds = begun.elapsed().as_secs_f64();
    figures.add(APPENDED, appended);
    figures.add(MESSAGES, load.per_second());
    for ([p50, p99], lags) in LAGS.into_iter().zip(&lags) {
        figures.add(p50, lags.latency_ms(0.5));
        figures.add(p99, lags.latency_ms(0.99));
    }

    subscribers.is_hanging.store(true, Ordering::Relaxed);
    let load = creates.open_loop(CREATES_PER_SECOND, duration / 2).await?;
    let [beside, _] = subscribers.lags_after(load.answers, options).await?;
    figures.add(BESIDE, beside.latency_ms(0.99));
    let arrivals = subscribers.arrivals();
    figures.add(REPEATS, arrivals.iter().map(|it| it.repeats).sum());
    Ok(lags)
}

/// Events that have arrived, each counted once.
#[derive(Default)]
struct Arrivals {
    ids: HashSet<String>,
    /// Number of different events that are to arrive.
    expected: u64,
    repeats: f64,
    /// Times from events to their first arrivals.
    lags: LoadOutcome,
}

impl Arrivals {
    fn add(&mut self, id: &str, lag: time::Duration) {
        if self.ids.insert(id.to_owned()) {
            let lag = Duration::try_from(lag).unwrap_or_default();
            self.lags.record(200, 200, lag);
        } else {
            self.repeats += 1.0;
        }
    }

    fn got_and_expected(&self) -> (u64, u64) {
        (self.ids.len() as u64, self.expected)
    }
}

/// Receivers of webhooks and readers of feeds.
#[derive(Default)]
struct Subscribers {
    /// Events that webhooks and feeds have got.
    arrivals: Mutex<[Arrivals; 2]>,
    /// True while the receiver of [`HANGING`] does not answer.
    is_hanging: AtomicBool,
}

impl Subscribers {
    fn arrivals(&self) -> MutexGuard<'_, [Arrivals; 2]> {
        self.arrivals.lock().expect("no task has panicked")
    }

    /// Waits until all events of a load have arrived, and returns their lags. Messages of the account whose receiver
    /// hangs do not count.
    async fn lags_after(
        &self,
        creates: u64,
        options: SubscribersOptions,
    ) -> anyhow::Result<[LoadOutcome; 2]> {
        let accounts = u64::from(options.accounts);
        let of_first = |count: u64| creates / accounts * count + (creates % accounts).min(count);
        let hanging = of_first(self.is_hanging.load(Ordering::Relaxed).into());
        let read = of_first(options.readers.into());
        self.arrivals()[0].expected += creates - hanging;
        self.arrivals()[1].expected += read * u64::from(EVENTS_EACH);
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let got = self.arrivals().each_ref().map(Arrivals::got_and_expected);
            if got.iter().all(|(got, expected)| got == expected) {
                let mut arrivals = self.arrivals();
                return Ok(arrivals.each_mut().map(|it| mem::take(&mut it.lags)));
            }
            ensure!(
                Instant::now() < deadline,
                "events that have arrived at webhooks and feeds, and those expected: {got:?}"
            );
            sleep(POLL_INTERVAL).await;
        }
    }
}

/// Body of a message.
#[derive(Deserialize)]
struct Message {
    #[serde(deserialize_with = "timestamp::deserialize")]
    timestamp: OffsetDateTime,
}

/// Receives a message to the webhook of the account with this number.
async fn receive(
    State(subscribers): State<Arc<Subscribers>>,
    Path(account): Path<usize>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let now = SystemClock.now();
    if account == HANGING && subscribers.is_hanging.load(Ordering::Relaxed) {
        pending::<()>().await;
    }
    let id = headers.get("webhook-id").and_then(|id| id.to_str().ok());
    let (Some(id), Ok(message)) = (id, serde_json::from_slice::<Message>(&body)) else {
        return StatusCode::BAD_REQUEST;
    };
    subscribers.arrivals()[0].add(id, now - message.timestamp);
    StatusCode::NO_CONTENT
}

/// A reader of the feed of an account.
struct Feed {
    connection: HttpConnection,
    account: LoadAccount,
    /// Query of the next page.
    query: String,
}

/// A page of a feed.
#[derive(Deserialize)]
struct FeedPage {
    items: Vec<FeedEvent>,
    next_cursor: String,
}

#[derive(Deserialize)]
struct FeedEvent {
    id: String,
    #[serde(deserialize_with = "timestamp::deserialize")]
    time: OffsetDateTime,
}

impl Feed {
    /// Opens a reader of the events from now on.
    async fn open(api: SocketAddr, account: LoadAccount) -> anyhow::Result<Self> {
        let mut feed = Self {
            connection: HttpConnection::open(api).await?,
            account,
            query: "from=now".to_owned(),
        };
        feed.next_page().await?;
        Ok(feed)
    }

    async fn next_page(&mut self) -> anyhow::Result<Vec<FeedEvent>> {
        let path = format!("{}?{}", route_table::EVENTS, self.query);
        let request = requests::get(&self.account, &path);
        let page: FeedPage = self.connection.json(request.as_bytes(), 200).await?;
        self.query = format!("after={}&wait={FEED_WAIT}", page.next_cursor);
        Ok(page.items)
    }

    /// Reads until a page is refused.
    async fn follow(mut self, subscribers: Arc<Subscribers>) -> anyhow::Result<()> {
        loop {
            let events = self.next_page().await?;
            let now = SystemClock.now();
            let mut arrivals = subscribers.arrivals();
            for event in events {
                arrivals[1].add(&event.id, now - event.time);
            }
        }
    }
}
