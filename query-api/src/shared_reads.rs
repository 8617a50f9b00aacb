//! Reads that share statements: links by id, pages of links, and redirects.
//!
//! A statement costs as much as ten links by id within one statement, or as one page of links.

use linkledger_core::{
    event_store::slugs::{self, SlugHolder},
    http::shared_reads::SharedRead,
    id::AccountId,
};
use sqlx::PgPool;

use crate::read_model::{
    SnapshotRead,
    links::{self, LinkRange, LinkRead, LinkView},
    redirects::{self, Redirect},
};

impl SharedRead for LinkRead {
    type Value = SnapshotRead<Option<LinkView>>;
    const TASK: &'static str = "link reader";
    const REQUESTS_MAX: usize = 64;

    async fn read_each(pool: &PgPool, keys: &[Self]) -> sqlx::Result<Vec<Self::Value>> {
        links::find_each(pool, keys).await
    }
}

impl SharedRead for LinkRange {
    type Value = SnapshotRead<Vec<LinkView>>;
    const TASK: &'static str = "list reader";
    /// Maximum number of pages of one statement: a page usually has 10 KB, and at most 220 KB.
    const REQUESTS_MAX: usize = 16;

    async fn read_each(pool: &PgPool, keys: &[Self]) -> sqlx::Result<Vec<Self::Value>> {
        links::list_each(pool, keys).await
    }
}

/// Folded slug whose redirect is read from the read table.
#[derive(Debug, Clone)]
pub(crate) struct RedirectOf(pub(crate) String);

impl SharedRead for RedirectOf {
    type Value = Option<Redirect>;
    const TASK: &'static str = "redirect reader";
    const REQUESTS_MAX: usize = 256;

    async fn read_each(pool: &PgPool, keys: &[Self]) -> sqlx::Result<Vec<Self::Value>> {
        let folded: Vec<String> = keys.iter().map(|key| key.0.clone()).collect();
        redirects::find_each(pool, &folded).await
    }
}

/// Folded slug whose link is looked up in the event store, because the read table lacks the slug.
#[derive(Debug, Clone)]
pub(crate) struct HolderOf(pub(crate) String);

impl SharedRead for HolderOf {
    type Value = Option<SlugHolder>;
    const TASK: &'static str = "slug reader";
    const REQUESTS_MAX: usize = 256;

    async fn read_each(pool: &PgPool, keys: &[Self]) -> sqlx::Result<Vec<Self::Value>> {
        let folded: Vec<String> = keys.iter().map(|key| key.0.clone()).collect();
        slugs::find_holders(pool, &folded).await
    }
}

/// Account with a link that the log has and the read table of redirects lacks.
#[derive(Debug, Clone)]
pub(crate) struct VisibilityOf(pub(crate) AccountId);

impl SharedRead for VisibilityOf {
    type Value = SnapshotRead<()>;
    const TASK: &'static str = "visibility reader";
    const REQUESTS_MAX: usize = 256;

    async fn read_each(pool: &PgPool, keys: &[Self]) -> sqlx::Result<Vec<Self::Value>> {
        let account_ids: Vec<AccountId> = keys.iter().map(|key| key.0).collect();
        let read = redirects::visibility_of_each(pool, &account_ids).await?;
        let snapshots = read.into_iter().map(|visibility| visibility.with(()));
        Ok(snapshots.collect())
    }
}
