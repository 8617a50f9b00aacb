//! Two query-apis under visitors while links expire: each process obeys the instants by its clock,
//! although both have the links in their caches.

use std::{
    sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use futures::future::join_all;
use linkledger_core::{
    clock::{Clock as _, SystemClock},
    timestamp,
};
use linkledger_testing::{eventually, eventually_within};
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::{
    http::Http,
    scrape::Scrape,
    services::{free_address, program},
    settings::{OWNER, Settings, until_listens},
};

const LINKS: usize = 200;
const BATCH: usize = 100;
/// Time from the creation to the first expiry at the first attempt; twice as long at each of the next ones.
const LEAD: Duration = Duration::from_secs(2);
const LEAD_DOUBLINGS_MAX: usize = 3;
/// Longest wait for enough answers.
const DEADLINE: Duration = Duration::from_mins(6);
/// Time between two expiries.
const INTERVAL: Duration = Duration::from_millis(20);
/// Time after an expiry during which no answer is judged.
const MARGIN: Duration = Duration::from_millis(100);
/// Number of connections to each process.
const CONNECTIONS: usize = 4;
/// Number of answers of each kind that each process has to give, and of its hits of the cache.
const ANSWERS_MIN: u32 = 1_000;
const CREDITS: u32 = 100_000;

struct ExpiringLink {
    slug: String,
    destination: String,
    expires_at: OffsetDateTime,
    expired_url: Option<String>,
}

impl ExpiringLink {
    fn new(number: usize, expires_at: OffsetDateTime) -> Self {
        let expired_url = number.is_multiple_of(3);
        Self {
            slug: format!("fest-{number}"),
            destination: format!("https://example.com/{number}"),
            expires_at,
            expired_url: expired_url.then(|| format!("https://example.com/later/{number}")),
        }
    }

    fn item(&self, number: usize) -> Value {
        let mut item = json!({
            "idempotency_key": format!("00000000-0000-4000-8000-{number:012}"),
            "destination_url": self.destination,
            "slug": self.slug,
            "expires_at": timestamp::format(self.expires_at),
        });
        if let Some(url) = &self.expired_url {
            item["expired_url"] = url.as_str().into();
        }
        item
    }
}

/// Creates links of which one expires after the other. On a slow machine some are refused, because
/// they have expired.
async fn create_links(writer: &Http, attempt: usize) -> Vec<ExpiringLink> {
    let lead = LEAD * (1 << attempt.min(LEAD_DOUBLINGS_MAX));
    let (mut expires_at, first) = (SystemClock.now() + lead, attempt * LINKS);
    let links = (first..first + LINKS).map(|number| {
        expires_at += INTERVAL;
        (number, ExpiringLink::new(number, expires_at))
    });
    let links: Vec<_> = links.collect();
    let mut statuses = Vec::new();
    for batch in links.chunks(BATCH) {
        let items = batch.iter().map(|(number, link)| link.item(*number));
        let body = json!({ "items": items.collect::<Vec<_>>() });
        let answer = writer.try_post("/v1/links/batch", &[], &body).await;
        let items = answer.unwrap().json()["items"].take();
        // A batch that is refused as a whole has no items.
        statuses.extend((0..batch.len()).map(|index| items[index]["status"].as_u64()));
    }
    let links = links.into_iter().zip(statuses);
    let created = links.filter(|(_, status)| *status == Some(201));
    created.map(|((_, link), _)| link).collect()
}

/// One query-api, and the number of its answers that were judged.
struct QueryApi {
    short_host: String,
    internal: String,
    before: AtomicU32,
    after: AtomicU32,
}

impl QueryApi {
    fn new(short_host: &str, internal: &str) -> Self {
        Self {
            short_host: short_host.to_owned(),
            internal: internal.to_owned(),
            before: AtomicU32::new(0),
            after: AtomicU32::new(0),
        }
    }

    /// Visits all links until a pass over them finds every link expired.
    async fn visit(&self, http: &Http, links: &[ExpiringLink]) {
        eventually("every link has expired", async || {
            let mut are_expired = true;
            for link in links {
                are_expired &= self.visit_one(http, link).await;
            }
            are_expired.then_some(())
        })
        .await;
    }

    /// Follows the link, asserts that the answer obeys the expiry, and returns true if the request was
    /// sent after the expiry.
    async fn visit_one(&self, http: &Http, link: &ExpiringLink) -> bool {
        let sent_at = SystemClock.now();
        let url = format!("http://{}/{}", self.short_host, link.slug);
        let answer = http.follow(&url).await;
        let answered_at = SystemClock.now();
        let is_after = sent_at >= link.expires_at + MARGIN;
        let (count, expected) = if answered_at < link.expires_at {
            (&self.before, (302, link.destination.as_str()))
        } else if is_after {
            let url = link.expired_url.as_deref();
            (&self.after, url.map_or((410, ""), |url| (302, url)))
        } else {
            return false;
        };
        let followed = (answer.status.as_u16(), answer.header("location"));
        let expires_at = link.expires_at;
        assert_eq!(
            followed, expected,
            "{url} expires at {expires_at}, sent at {sent_at}, answered at {answered_at}"
        );
        count.fetch_add(1, Relaxed);
        is_after
    }

    async fn has_answered_enough(&self, http: &Http) -> bool {
        let metrics = Scrape::of(http, &format!("http://{}/metrics", self.internal)).await;
        let labels = ["cache=\"redirects\"", "result=\"hit\""];
        let hits = metrics.sum("linkledger_cache_requests_total", &labels);
        let counts = [&self.before, &self.after].map(|count| count.load(Relaxed));
        counts.iter().all(|count| *count >= ANSWERS_MIN) && hits >= f64::from(ANSWERS_MIN)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_end_links_at_their_instants() {
    let settings = Settings::new().await;
    let api_key = settings.account(&program("command-api"), OWNER, CREDITS);
    let _writing = [settings.start_command_api(None), settings.start_projector()];
    let hosts = [
        QueryApi::new(&settings.short_host, &settings.internal[2]),
        QueryApi::new(&free_address(), &free_address()),
    ];
    let start = |host: &QueryApi| settings.start_query_api(&host.short_host, &host.internal);
    let _reading = hosts.each_ref().map(start);
    let listeners = hosts.iter().map(|host| &host.short_host);
    for address in listeners.chain([&settings.command_api]) {
        until_listens(address).await;
    }
    let http = Http::new(format!("http://{}", settings.command_api), api_key);
    let body = json!({ "destination_url": "https://example.com/", "slug": "first" });
    let first = http.create("00000000-0000-4000-8000-999999999999", &body);
    assert_eq!(first.await.status, 201);
    for host in &hosts {
        // Until the projector has joined its group.
        http.follow(&format!("http://{}/first", host.short_host))
            .await;
    }
    let attempts = AtomicUsize::new(0);
    // On a slow machine links have expired before they are visited: others, which expire later, take their place.
    eventually_within(
        DEADLINE,
        "both processes have answered often enough",
        async || {
            let links = create_links(&http, attempts.fetch_add(1, Relaxed)).await;
            let visits = hosts.iter().cycle().take(CONNECTIONS * hosts.len());
            join_all(visits.map(|host| host.visit(&http, &links))).await;
            let [one, other] = hosts.each_ref().map(|host| host.has_answered_enough(&http));
            (one.await && other.await).then_some(())
        },
    )
    .await;
}
