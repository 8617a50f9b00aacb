//! A store with a given number of events, and the measurements on the store.

use anyhow::{Context as _, bail, ensure};
use sqlx::{Connection as _, PgConnection};

use crate::{
    accounts::LoadAccount,
    bench::BenchContext,
    data_set::{self, DataSet},
    figures::Figures,
    requests,
    stack::{BrokerKind, StackProcess},
};

/// Names of the figures of a burst.
pub(super) const CREATES: &str = "creates";
pub(super) const WAL: &str = "write-ahead log of a create";
pub(super) const IMAGES: &str = "full-page images of a create";

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
pub(super) struct Burst {
    creates_per_second: f64,
    /// Write-ahead log of each create, with what relay and projector do for the link, in kB.
    wal_kb: f64,
    /// Full-page images of each create: after a checkpoint, the first change of a page logs the
    /// whole page.
    page_images: f64,
    /// Share of full-page images in the records.
    image_share: f64,
}

impl Burst {
    /// Adds the figures, with names made of theirs.
    pub(super) fn add_to(&self, figures: &mut Figures, name: impl Fn(&str) -> String) {
        figures.add(&name(CREATES), self.creates_per_second);
        figures.add(&name(WAL), self.wal_kb);
        figures.add(&name(IMAGES), self.page_images);
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

    async fn start(&self, bench: &BenchContext) -> anyhow::Result<StackProcess> {
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
        let before = wal_use(&self.url).await?;
        let stack = self.start(bench).await?;
        let load = requests::creates(&self.accounts).to(stack.api, CONNECTIONS);
        let created = load.each_once(BURST_LINKS).await?;
        stack.until_settled().await?;
        stack.stop().await?;
        let after = wal_use(&self.url).await?;
        let [bytes, records, images] = [0, 1, 2].map(|nth| after[nth] - before[nth]);
        #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
        let links = created.answers as f64;
        Ok(Burst {
            creates_per_second: created.per_second(),
            wal_kb: bytes / links / 1_000.0,
            page_images: images / links,
            image_share: images / records,
        })
    }

    /// Makes every measurement of `MEASURES` once.
    pub(super) async fn measure(
        &self,
        bench: &BenchContext,
        arrivals: f64,
    ) -> anyhow::Result<[f64; 5]> {
        let stack = self.start(bench).await?;
        let duration = bench.duration();
        let listed = &self.accounts[..LISTED_ACCOUNTS];
        let listed_links = requests::creates(listed).to(stack.api, CONNECTIONS);
        listed_links
            .each_once((listed.len() * PAGE_LINKS) as u64)
            .await?;
        let creates = requests::creates(&self.accounts).to(stack.api, CONNECTIONS);
        let latencies = creates.open_loop(arrivals, duration).await?;
        // Waits for the projector, so that its work does not fall into the next measurement.
        stack.until_settled().await?;
        let lists = requests::lists(listed, PAGE_LINKS).to(stack.api, CONNECTIONS);
        let lists = lists.maximum(duration).await?;
        let redirects = requests::visits(self.slugs().await?.into());
        let redirects = redirects.to(stack.short_host, CONNECTIONS);
        let once = redirects.each_once(FOLLOWED_LINKS).await?;
        let again = redirects.maximum(duration).await?;
        stack.stop().await?;
        Ok([
            latencies.latency_ms(0.5),
            latencies.latency_ms(0.99),
            lists.per_second(),
            once.per_second(),
            again.per_second(),
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

/// Reads bytes, records and full-page images of the write-ahead log since the start of the server.
/// Open sessions may hold some of their changes back: a stack under measurement is stopped first.
async fn wal_use(url: &str) -> anyhow::Result<[f64; 3]> {
    let mut connection = PgConnection::connect(url).await?;
    let (bytes, records, images) = sqlx::query_as(
        "SELECT wal_bytes::float8, wal_records::float8, wal_fpi::float8 FROM pg_stat_wal",
    )
    .fetch_one(&mut connection)
    .await
    .context("cannot read pg_stat_wal")?;
    connection.close().await?;
    Ok([bytes, records, images])
}
