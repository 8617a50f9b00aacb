//! Pages of an account's links that meet filters, in the order of creation.
//!
//! A page walks one index, that of the most selective filter, and tests the other filters on the rows. A request
//! looks at [`ROWS_MAX`] rows at most: a page that is short for this reason says where it stopped.

mod page;
mod walks;

use linkledger_core::{
    id::{AccountId, LinkId},
    link::SlugPrefix,
};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::LinkView;
use crate::read_model::SnapshotRead;

/// Maximum number of rows that a request looks at.
pub(crate) const ROWS_MAX: i64 = 10_000;
/// Maximum number of rows of a walk with a slug prefix. Before, as many entries of the index of slugs are read; only if
/// there are as many, the list itself is walked.
const ROWS_MAX_BESIDE_COUNT: i64 = ROWS_MAX / 2;

/// Order of a list of links, by the time of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum LinkOrder {
    #[default]
    NewestFirst,
    OldestFirst,
}

/// Filters and range of a page. A filter that is `None` lets all links pass.
#[derive(Debug, Clone)]
pub(crate) struct LinkSearch {
    pub(crate) account_id: AccountId,
    /// Lowest id of the range, inclusive.
    pub(crate) start: Uuid,
    /// Highest id of the range, exclusive.
    pub(crate) end: Uuid,
    pub(crate) order: LinkOrder,
    pub(crate) slug_prefix: Option<SlugPrefix>,
    pub(crate) destination_url: Option<String>,
    pub(crate) destination_host: Option<String>,
    pub(crate) external_id: Option<String>,
    /// Tags that a link has all.
    pub(crate) tags: Option<Vec<String>>,
    pub(crate) state: Option<StateFilter>,
    /// Time at which links have expired or not.
    pub(crate) now: OffsetDateTime,
    pub(crate) count_max: i64,
}

/// State of a link, as a filter. An expired link that is disabled counts as disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StateFilter {
    Active,
    Disabled,
    Expired,
}

impl StateFilter {
    pub(crate) const ALL: [Self; 3] = [Self::Active, Self::Disabled, Self::Expired];

    /// Returns the name of the state, in requests and statements.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Disabled => "disabled",
            Self::Expired => "expired",
        }
    }
}

/// Links that a request has found.
pub(crate) struct FoundLinks {
    pub(crate) links: Vec<LinkView>,
    /// Last link that was looked at, if the request stopped because it had looked at [`ROWS_MAX`] rows.
    pub(crate) stopped_at: Option<LinkId>,
}

impl FoundLinks {
    /// Returns all links of a range.
    pub(crate) fn all(links: Vec<LinkView>) -> Self {
        Self {
            links,
            stopped_at: None,
        }
    }
}

/// Index that a page walks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Walk {
    Account,
    ExternalId,
    Destination,
    Disabled,
    Expiring,
    SlugPrefix,
    Tag,
    Host,
}

impl LinkSearch {
    /// Returns the index of the filter that usually leaves the fewest links.
    fn walk(&self) -> Walk {
        if self.external_id.is_some() {
            Walk::ExternalId
        } else if self.destination_url.is_some() {
            Walk::Destination
        } else if self.state == Some(StateFilter::Disabled) {
            Walk::Disabled
        } else if self.tags.is_some() {
            Walk::Tag
        } else if self.slug_prefix.is_some() {
            Walk::SlugPrefix
        } else if self.state == Some(StateFilter::Expired) {
            Walk::Expiring
        } else if self.destination_host.is_some() {
            Walk::Host
        } else {
            Walk::Account
        }
    }

    fn rows_max(&self) -> i64 {
        match self.walk() {
            Walk::SlugPrefix => ROWS_MAX_BESIDE_COUNT,
            Walk::Account
            | Walk::ExternalId
            | Walk::Destination
            | Walk::Disabled
            | Walk::Expiring
            | Walk::Tag
            | Walk::Host => ROWS_MAX,
        }
    }
}

/// Reads the page of a search, from one snapshot.
pub(crate) async fn find(
    pool: &PgPool,
    search: &LinkSearch,
) -> sqlx::Result<SnapshotRead<FoundLinks>> {
    let page = match search.walk() {
        Walk::Account => walks::by_account(pool, search).await,
        Walk::Destination => walks::by_destination(pool, search).await,
        Walk::ExternalId => walks::by_external_id(pool, search).await,
        Walk::Disabled => walks::among_disabled(pool, search).await,
        Walk::Expiring => walks::among_expiring(pool, search).await,
        Walk::Tag => walks::by_tag(pool, search).await,
        Walk::SlugPrefix => walks::by_slug_prefix(pool, search).await,
        Walk::Host => walks::by_host(pool, search).await,
    }?;
    Ok(page.into_found(search.rows_max()))
}
