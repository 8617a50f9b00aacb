//! Large data sets, made by SQL once and kept; a benchmark works on a copy.
//!
//! The name of the database is a hash of the migrations and of the SQL that made the data set. Only
//! a complete data set that `log verify` and `projector verify` accept gets this name.

mod build;
mod validity;

use std::time::Instant;

use anyhow::Context as _;
use linkledger_core::{api_key::ApiKey, id::AccountId};
use linkledger_event_store::SessionKind;
use sha2::{Digest as _, Sha256};

use crate::{accounts::LoadAccount, bench::say, server::BenchServer};

/// Database of a data set that is not complete.
const HALF_BUILT: &str = "bench_half_built";

/// Accounts that have created the same number of links, in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataSet {
    /// Number of accounts; each has an API key, and credits for more links.
    pub accounts: u32,
    /// Number of links of each account.
    pub links_of_each: u32,
}

impl DataSet {
    /// A thousand accounts without links.
    pub const NO_LINKS: Self = Self::new(1_000, 0);
    /// A million links of one account: two million events.
    pub const ONE_ACCOUNT: Self = Self::new(1, 1_000_000);
    /// A million events of a thousand accounts.
    pub const MILLION_EVENTS: Self = Self::new(1_000, 500);
    /// Ten million events of a thousand accounts.
    pub const TEN_MILLION_EVENTS: Self = Self::new(1_000, 5_000);
    /// Ten million events of links, and three each, of a million accounts.
    pub const MILLION_ACCOUNTS: Self = Self::new(1_000_000, 5);
    /// All data sets that the benchmarks need.
    pub const ALL: [Self; 5] = [
        Self::NO_LINKS,
        Self::ONE_ACCOUNT,
        Self::MILLION_EVENTS,
        Self::TEN_MILLION_EVENTS,
        Self::MILLION_ACCOUNTS,
    ];

    /// Describes a data set of this size.
    pub const fn new(accounts: u32, links_of_each: u32) -> Self {
        Self {
            accounts,
            links_of_each,
        }
    }

    /// Returns the slug of the link with this number, from 1, as `links.sql` computes it.
    pub fn slug(number: u64) -> String {
        format!("{:08x}", (number * 2_654_435_761) & 0xffff_ffff)
    }

    /// Returns the number of links.
    pub fn links(self) -> u64 {
        u64::from(self.accounts) * u64::from(self.links_of_each)
    }

    /// Makes the data set if it does not exist. Returns the name of its database, which is only for
    /// copying.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses a statement, or if the data set is not valid.
    pub async fn prepare(self, server: &BenchServer) -> anyhow::Result<String> {
        let name = self.database_name(server).await?;
        if server.has_database(&name).await? {
            return Ok(name);
        }
        for stale in server.databases(&self.name_prefix()).await? {
            server.drop_database(&stale).await?;
        }
        let url = server.empty_database(HALF_BUILT).await?;
        let begun = Instant::now();
        self.fill(&url).await?;
        say(&format!("{name}: made in {} s", begun.elapsed().as_secs()));
        validity::check(&url)
            .await
            .with_context(|| format!("{self:?} is not valid"))?;
        server.rename(HALF_BUILT, &name).await?;
        Ok(name)
    }

    /// Copies the data set to a database with this name, and makes the data set if it does not
    /// exist. Returns the address of the copy, which may be changed.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses a statement.
    pub async fn copy(self, server: &BenchServer, database: &str) -> anyhow::Result<String> {
        let name = self.prepare(server).await?;
        server.clone_of(&name, database).await
    }

    /// Makes the rows of the data set in a migrated, empty database.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses a statement.
    pub async fn fill(self, url: &str) -> anyhow::Result<()> {
        build::build(url, self).await
    }

    fn name_prefix(self) -> String {
        format!("data_set_{}_{}_", self.accounts, self.links_of_each)
    }

    async fn database_name(self, server: &BenchServer) -> anyhow::Result<String> {
        let mut hasher = Sha256::new();
        for checksum in server.migrations().await? {
            hasher.update(checksum);
        }
        for statement in build::STATEMENTS {
            hasher.update(statement);
        }
        let hash: [u8; 32] = hasher.finalize().into();
        let (digits, _) = hash.split_first_chunk().expect("it has 32 bytes");
        Ok(format!(
            "{}{:016x}",
            self.name_prefix(),
            u64::from_be_bytes(*digits)
        ))
    }
}

/// Reads the accounts of a data set, or of a copy, with their API keys. The order has nothing to do with that of
/// the ids: a load that takes the accounts in turn touches pages of indexes in no order.
///
/// # Errors
/// Returns an error if the database can't be read.
pub async fn accounts(url: &str) -> anyhow::Result<Vec<LoadAccount>> {
    let pool = linkledger_event_store::pool(url, SessionKind::Reader, 1)?;
    let rows = sqlx::query!("SELECT account_id, name FROM event_store.api_keys ORDER BY sha256")
        .fetch_all(&pool)
        .await?;
    pool.close().await;
    let accounts = rows.into_iter().filter_map(|row| {
        // An API key that a stack has issued in the copy has another name.
        let api_key = ApiKey::parse(&row.name)?;
        Some(LoadAccount {
            account_id: AccountId::from_uuid(row.account_id),
            api_key,
        })
    });
    Ok(accounts.collect())
}
