//! A store with so many events, and what is measured on it.

use std::time::Duration;

use anyhow::ensure;
use sqlx::{Connection as _, PgConnection};

use crate::{
    accounts::LoadAccount,
    bench::Bench,
    data_set::{self, DataSet},
    load::{self, Target},
    requests,
    stack::{Broker, Stack},
};

/// What a round has measured, in the order of the measures.
pub(super) type Figures = [f64; 6];

/// Before the maximum of creates is taken.
pub(super) const WARM_UP: Duration = Duration::from_secs(1);
/// Links that are followed in each round; more than that many are created in it before.
pub(super) const FOLLOWED_LINKS: u64 = 10_000;
const CONNECTIONS: usize = 64;
/// Accounts whose lists are asked for: each has a full page in every store.
const LISTED_ACCOUNTS: usize = 200;
const PAGE_LINKS: usize = 50;
/// Created in each store before the rounds: a system that runs has the pages that it writes to in
/// memory, and most of them in its write-ahead log since the last checkpoint.
const WARM_UP_LINKS: u64 = 50_000;

pub(super) struct Store {
    pub(super) name: &'static str,
    set: DataSet,
    database: String,
}

impl Store {
    pub(super) fn new(name: &'static str, set: DataSet) -> Self {
        Self {
            name,
            set,
            database: format!("bench_growth_{}", set.links()),
        }
    }

    /// Copies the data set, and creates in the copy what brings it up to speed.
    pub(super) async fn warm_up(&self, bench: &Bench) -> anyhow::Result<()> {
        let url = self.set.copy(&bench.server, &self.database).await?;
        if self.is_empty() {
            return Ok(());
        }
        let accounts = data_set::accounts(&url).await?;
        let stack = Stack::start(bench, &url, Broker::Embedded).await?;
        load::each_once(&creates(&stack, &accounts), WARM_UP_LINKS)
            .await?
            .all_expected()?;
        stack.until_settled().await?;
        stack.stop().await
    }

    /// The address of the store and its accounts; one that should be empty is.
    pub(super) async fn open(&self, bench: &Bench) -> anyhow::Result<(String, Vec<LoadAccount>)> {
        let url = if self.is_empty() {
            self.set.copy(&bench.server, &self.database).await?
        } else {
            bench.server.url(&self.database)
        };
        let accounts = data_set::accounts(&url).await?;
        Ok((url, accounts))
    }

    /// Measures everything once.
    pub(super) async fn measure(&self, bench: &Bench, arrivals: f64) -> anyhow::Result<Figures> {
        let (url, accounts) = self.open(bench).await?;
        let stack = Stack::start(bench, &url, Broker::Embedded).await?;
        let duration = bench.duration();
        let listed = &accounts[..LISTED_ACCOUNTS];
        load::each_once(&creates(&stack, listed), (listed.len() * PAGE_LINKS) as u64)
            .await?
            .all_expected()?;
        let creates = creates(&stack, &accounts);
        let maximum = load::closed_loop(&creates, WARM_UP, duration).await?;
        stack.until_settled().await?;
        let latencies = load::open_loop(&creates, arrivals, duration)
            .await?
            .all_expected()?;
        // What is measured next is not the work of the projector.
        stack.until_settled().await?;
        let lists = Target {
            requests: requests::lists(listed, PAGE_LINKS),
            expected_status: 200,
            ..creates
        };
        let lists = load::closed_loop(&lists, WARM_UP, duration).await?;
        let redirects = Target {
            address: stack.short_host,
            connections: CONNECTIONS,
            requests: requests::visits(self.slugs(&url).await?.into()),
            expected_status: 302,
        };
        let once = load::each_once(&redirects, FOLLOWED_LINKS).await?;
        let again = load::closed_loop(&redirects, WARM_UP, duration).await?;
        stack.stop().await?;
        Ok([
            maximum.all_expected()?.per_second(),
            latencies.latency_ms(0.5),
            latencies.latency_ms(0.99),
            lists.all_expected()?.per_second(),
            once.all_expected()?.per_second(),
            again.all_expected()?.per_second(),
        ])
    }

    fn is_empty(&self) -> bool {
        self.set.links() == 0
    }

    /// Of links that lie all over the store; of an empty one, of those that were created before.
    async fn slugs(&self, url: &str) -> anyhow::Result<Vec<String>> {
        if !self.is_empty() {
            let step = self.set.links() / FOLLOWED_LINKS;
            let slugs = (1..=FOLLOWED_LINKS).map(|nth| DataSet::slug(nth * step));
            return Ok(slugs.collect());
        }
        let mut connection = PgConnection::connect(url).await?;
        let limit = i64::try_from(FOLLOWED_LINKS)?;
        let slugs = sqlx::query_scalar!("SELECT slug FROM event_store.slugs LIMIT $1", limit)
            .fetch_all(&mut connection)
            .await?;
        connection.close().await?;
        ensure!(
            slugs.len() as u64 == FOLLOWED_LINKS,
            "only {} links were created",
            slugs.len()
        );
        Ok(slugs)
    }
}

pub(super) fn creates(stack: &Stack, accounts: &[LoadAccount]) -> Target {
    Target {
        address: stack.api,
        connections: CONNECTIONS,
        requests: requests::creates(accounts),
        expected_status: 201,
    }
}
