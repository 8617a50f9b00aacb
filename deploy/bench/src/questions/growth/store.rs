//! A store with a given number of events, and the measurements on the store.

use std::time::Duration;

use anyhow::{bail, ensure};
use sqlx::{Connection as _, PgConnection};

use crate::{
    accounts::LoadAccount,
    bench::BenchContext,
    data_set::{self, DataSet},
    load::{self, LoadTarget},
    requests,
    stack::{BrokerKind, StackProcess},
    wal_use::WalUse,
};

/// Figures of a round, in the order of the measures.
pub(super) type Figures = [f64; 5];

/// Warm-up before a maximum rate is measured.
const WARM_UP: Duration = Duration::from_secs(1);
/// Number of links that are followed in each round; more links are created in the round before.
pub(super) const FOLLOWED_LINKS: u64 = 10_000;
const CONNECTIONS: usize = 64;
/// Number of accounts whose lists are read; each has a full page in every store.
const LISTED_ACCOUNTS: usize = 200;
const PAGE_LINKS: usize = 50;
/// Number of links whose creates and write-ahead log are measured together.
const BURST_LINKS: u64 = 20_000;
/// Largest share of full-page images in the records of the write-ahead log of a steady store. A running system
/// has read most of the pages that it writes to, and logged them since the last checkpoint.
const STEADY_IMAGE_SHARE_MAX: f64 = 0.01;
/// Smallest share of full-page images in a burst after a checkpoint.
const CHECKPOINT_IMAGE_SHARE_MIN: f64 = 0.05;
/// Largest number of bursts until a store is steady.
const WARM_UP_BURSTS_MAX: u32 = 60;

/// A number of creates at the maximum rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Burst {
    creates_per_second: f64,
    /// Write-ahead log of each create, with what relay and projector do for the link, in kB.
    pub(super) wal_kb: f64,
    /// Full-page images of each create.
    pub(super) page_images: f64,
    /// Share of full-page images in the records.
    image_share: f64,
}

impl Burst {
    /// Returns the creates per second.
    pub(super) const fn rate(&self) -> f64 {
        self.creates_per_second
    }

    fn is_steady(&self) -> bool {
        self.image_share < STEADY_IMAGE_SHARE_MAX
    }

    /// Returns an error if whole pages were logged, as after a checkpoint.
    pub(super) fn ensure_no_checkpoint(&self) -> anyhow::Result<()> {
        ensure!(
            self.image_share < CHECKPOINT_IMAGE_SHARE_MIN,
            "a checkpoint fell into the rounds: {:.0} % of the records are whole pages",
            100.0 * self.image_share
        );
        Ok(())
    }
}

/// A copy of a data set, which may be changed.
pub(super) struct Store {
    set: DataSet,
    url: String,
    accounts: Vec<LoadAccount>,
}

impl Store {
    /// Copies the data set; `nth` distinguishes several copies.
    pub(super) async fn copy(bench: &BenchContext, set: DataSet, nth: u32) -> anyhow::Result<Self> {
        let database = format!("bench_growth_{}_{}_{nth}", set.accounts, set.links_of_each);
        let url = set.copy(&bench.server, &database).await?;
        let accounts = data_set::accounts(&url).await?;
        Ok(Self { set, url, accounts })
    }

    pub(super) async fn start(&self, bench: &BenchContext) -> anyhow::Result<StackProcess> {
        StackProcess::start(bench, &self.url, BrokerKind::Embedded).await
    }

    /// Creates links until the store is steady.
    pub(super) async fn warm_up(&self, bench: &BenchContext) -> anyhow::Result<()> {
        for _ in 0..WARM_UP_BURSTS_MAX {
            if self.burst(bench).await?.is_steady() {
                return Ok(());
            }
        }
        bail!("the store still logs whole pages after {WARM_UP_BURSTS_MAX} bursts");
    }

    /// Creates links at the maximum rate.
    pub(super) async fn burst(&self, bench: &BenchContext) -> anyhow::Result<Burst> {
        let before = WalUse::read(&self.url).await?;
        let stack = self.start(bench).await?;
        let created = load::each_once(&self.creates(&stack), BURST_LINKS)
            .await?
            .all_expected()?;
        stack.until_settled().await?;
        stack.stop().await?;
        let wal = WalUse::read(&self.url).await?.since(before);
        #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
        let links = created.answers as f64;
        Ok(Burst {
            creates_per_second: created.per_second(),
            wal_kb: wal.bytes / links / 1_000.0,
            page_images: wal.page_images / links,
            image_share: wal.page_images / wal.records,
        })
    }

    pub(super) fn creates(&self, stack: &StackProcess) -> LoadTarget {
        creates(stack, &self.accounts)
    }

    /// Makes every measurement once.
    pub(super) async fn measure(
        &self,
        bench: &BenchContext,
        arrivals: f64,
    ) -> anyhow::Result<Figures> {
        let stack = self.start(bench).await?;
        let duration = bench.duration();
        let listed = &self.accounts[..LISTED_ACCOUNTS];
        load::each_once(&creates(&stack, listed), (listed.len() * PAGE_LINKS) as u64)
            .await?
            .all_expected()?;
        let creates = self.creates(&stack);
        let latencies = load::open_loop(&creates, arrivals, duration)
            .await?
            .all_expected()?;
        // Waits for the projector, so that its work does not fall into the next measurement.
        stack.until_settled().await?;
        let lists = LoadTarget {
            requests: requests::lists(listed, PAGE_LINKS),
            expected_status: 200,
            ..creates
        };
        let lists = load::closed_loop(&lists, WARM_UP, duration).await?;
        let redirects = LoadTarget {
            address: stack.short_host,
            connections: CONNECTIONS,
            requests: requests::visits(self.slugs().await?.into()),
            expected_status: 302,
        };
        let once = load::each_once(&redirects, FOLLOWED_LINKS).await?;
        let again = load::closed_loop(&redirects, WARM_UP, duration).await?;
        stack.stop().await?;
        Ok([
            latencies.latency_ms(0.5),
            latencies.latency_ms(0.99),
            lists.all_expected()?.per_second(),
            once.all_expected()?.per_second(),
            again.all_expected()?.per_second(),
        ])
    }

    /// Returns slugs from all parts of the store; for an empty store, slugs of links that were
    /// created before.
    async fn slugs(&self) -> anyhow::Result<Vec<String>> {
        if self.set.links() > 0 {
            let step = self.set.links() / FOLLOWED_LINKS;
            let slugs = (1..=FOLLOWED_LINKS).map(|nth| DataSet::slug(nth * step));
            return Ok(slugs.collect());
        }
        let mut connection = PgConnection::connect(&self.url).await?;
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

fn creates(stack: &StackProcess, accounts: &[LoadAccount]) -> LoadTarget {
    LoadTarget {
        address: stack.api,
        connections: CONNECTIONS,
        requests: requests::creates(accounts),
        expected_status: 201,
    }
}
