//! Projection `redirects`: the target of each slug.

use linkledger_core::{
    id::{AccountId, LinkId},
    shard::Shard,
};
use linkledger_http::dataloader::BatchedRead;
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{SnapshotRead, Visibility};

/// Short link, for visitors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redirect {
    /// Owner of the link. A suspension of the owner may stop the link.
    pub(crate) account_id: AccountId,
    pub(crate) target: RedirectTarget,
}

/// Target of a short link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RedirectTarget {
    /// Link that is followed, with the stored destination that visitors are redirected to.
    Destination {
        link_id: LinkId,
        url: Box<str>,
        /// Expiry of the link, if the link has one. Boxed: few links expire.
        expiry: Option<Box<LinkExpiry>>,
    },
    /// No destination: the link is deleted or disabled, or an operator suspended the account with
    /// `--stop-redirects`.
    Gone,
}

/// Expiry of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkExpiry {
    /// Instant from which the link no longer leads to its destination.
    pub(crate) expires_at: OffsetDateTime,
    /// Stored destination after the expiry; `None` if visitors then receive 410.
    pub(crate) expired_url: Option<Box<str>>,
}

/// Changes of redirects, read from one snapshot.
#[derive(Debug)]
pub(crate) struct RedirectChanges {
    /// Origin of the numbers.
    pub(crate) origin: NumberingOrigin,
    /// Number of the newest change ever; 0 if there was none.
    pub(crate) last_number: i64,
    /// Number of the first of `changes`; `None` if there are none.
    pub(crate) first_number: Option<i64>,
    /// Requested changes that are not pruned yet, in the order of their numbers, without a gap.
    pub(crate) changes: Vec<RedirectChange>,
}

/// Origin of the numbers of changes. Numbers of different origins cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NumberingOrigin {
    /// Epoch of the log that the read tables were made from.
    pub(crate) epoch: i32,
    /// Active generation of the read tables.
    pub(crate) generation: i32,
    /// Start of the database server; differs after a restart, and so after a restore or a failover.
    pub(crate) server_started_at: OffsetDateTime,
}

/// Change that makes cached redirects stale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RedirectChange {
    /// Lower-cased slug of the changed short link.
    Slug(String),
    /// Owner of the changed short links: all links of the account have changed.
    Account(AccountId),
}

/// Reads the first `count_max` changes with higher numbers than `number`.
pub(crate) async fn changes_after(
    pool: &PgPool,
    number: i64,
    count_max: i64,
) -> sqlx::Result<RedirectChanges> {
    // The outer join keeps the first row when there are no changes.
    let rows = sqlx::query!(
        r#"
        SELECT checkpoint.epoch, active.active_generation, counter.last_number,
               pg_postmaster_start_time() AS "server_started_at!",
               change.number AS "number?", change.slug_key AS "slug_key?",
               change.account_id AS "account_id?"
        FROM read_model.redirect_change_counter AS counter
        JOIN read_model.projections AS active ON active.projection = 'redirects'
        -- All shards of a generation are of one epoch.
        JOIN read_model.checkpoints AS checkpoint
          ON checkpoint.projection = 'redirects' AND checkpoint.shard = 0
         AND checkpoint.generation = active.active_generation
        LEFT JOIN LATERAL (
            SELECT number, slug_key, account_id FROM read_model.redirect_changes
            WHERE number > $1
            ORDER BY number
            LIMIT $2
        ) AS change ON true
        ORDER BY change.number
        "#,
        number,
        count_max
    )
    .fetch_all(pool)
    .await?;
    let first = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    let (last_number, first_number) = (first.last_number, first.number);
    let origin = NumberingOrigin {
        epoch: first.epoch,
        generation: first.active_generation,
        server_started_at: first.server_started_at,
    };
    let changes = rows.into_iter().filter_map(|row| {
        let slug = row.slug_key.map(RedirectChange::Slug);
        let account_id = row.account_id.map(AccountId::from_uuid);
        slug.or(account_id.map(RedirectChange::Account))
    });
    Ok(RedirectChanges {
        origin,
        last_number,
        first_number,
        changes: changes.collect(),
    })
}

/// Lower-cased slug whose redirect is read from the read table.
#[derive(Debug, Clone)]
pub(crate) struct RedirectOf(pub(crate) String);

impl BatchedRead for RedirectOf {
    type Value = Option<Redirect>;
    const TASK: &'static str = "redirect reader";
    const REQUESTS_MAX: usize = 256;

    async fn read_each(pool: &PgPool, keys: &[Self]) -> sqlx::Result<Vec<Self::Value>> {
        let slug_keys: Vec<String> = keys.iter().map(|key| key.0.clone()).collect();
        find_each(pool, &slug_keys).await
    }
}

/// Reads the redirect of each lower-cased slug, in the order of the slugs.
async fn find_each(pool: &PgPool, slug_keys: &[String]) -> sqlx::Result<Vec<Option<Redirect>>> {
    let rows = sqlx::query!(
        r#"
        SELECT wanted.nth AS "nth!", r.account_id AS "account_id!", r.link_id AS "link_id!",
               r.destination_url AS "destination_url!", r.state AS "state!",
               r.expires_at AS "expires_at?", r.expired_url AS "expired_url?",
               -- Not EXISTS: planned for many rows, that would read all stopped accounts.
               (
                   SELECT account_id FROM read_model.stopped_accounts
                   WHERE generation = r.generation AND account_id = r.account_id
                   LIMIT 1
               ) IS NOT NULL AS "is_stopped!"
        FROM unnest($1::text[]) WITH ORDINALITY AS wanted (slug_key, nth)
        -- Not a join: planned on empty tables, that would read all redirects.
        CROSS JOIN LATERAL (
            SELECT generation, account_id, link_id, destination_url, state, expires_at, expired_url
            FROM read_model.redirects
            WHERE generation = (
                      SELECT active_generation FROM read_model.projections
                      WHERE projection = 'redirects'
                  )
              AND slug_key = wanted.slug_key
            LIMIT 1
        ) AS r
        "#,
        slug_keys
    )
    .fetch_all(pool)
    .await?;
    let mut redirects = vec![None; slug_keys.len()];
    for row in rows {
        let nth =
            usize::try_from(row.nth - 1).map_err(|error| sqlx::Error::Decode(error.into()))?;
        let target = if row.state == "active" && !row.is_stopped {
            RedirectTarget::Destination {
                link_id: LinkId::from_uuid(row.link_id),
                url: row.destination_url.into(),
                expiry: row.expires_at.map(|expires_at| {
                    Box::new(LinkExpiry {
                        expires_at,
                        expired_url: row.expired_url.map(String::into_boxed_str),
                    })
                }),
            }
        } else {
            RedirectTarget::Gone
        };
        let account_id = AccountId::from_uuid(row.account_id);
        redirects[nth] = Some(Redirect { account_id, target });
    }
    Ok(redirects)
}

/// Account with a link that the log has and the read table of redirects lacks.
#[derive(Debug, Clone)]
pub(crate) struct VisibilityOf(pub(crate) AccountId);

impl BatchedRead for VisibilityOf {
    type Value = SnapshotRead<()>;
    const TASK: &'static str = "visibility reader";
    const REQUESTS_MAX: usize = 256;

    async fn read_each(pool: &PgPool, keys: &[Self]) -> sqlx::Result<Vec<Self::Value>> {
        let account_ids: Vec<AccountId> = keys.iter().map(|key| key.0).collect();
        let read = visibility_of_each(pool, &account_ids).await?;
        let snapshots = read.into_iter().map(|visibility| visibility.with(()));
        Ok(snapshots.collect())
    }
}

/// Reads how far the events of each account are visible, in the order of the accounts.
async fn visibility_of_each(
    pool: &PgPool,
    account_ids: &[AccountId],
) -> sqlx::Result<Vec<Visibility>> {
    let shards = account_ids.iter().map(|id| Shard::of(*id).number());
    let shards: Vec<i16> = shards.collect();
    let account_ids: Vec<Uuid> = account_ids.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(
        r#"
        SELECT c.epoch AS "epoch!", c.position AS "position!",
               -- Not EXISTS: planned for many rows, that would read all parked accounts.
               (
                   SELECT account_id FROM read_model.parked_accounts
                   WHERE account_id = wanted.account_id AND projection = 'redirects'
                     AND generation = c.generation
                   LIMIT 1
               ) IS NOT NULL AS "is_parked!"
        FROM unnest($1::smallint[], $2::uuid[]) WITH ORDINALITY AS wanted (shard, account_id, nth)
        CROSS JOIN LATERAL (
            SELECT epoch, position, generation
            FROM read_model.checkpoints
            WHERE projection = 'redirects' AND shard = wanted.shard
              AND generation = (
                  SELECT active_generation FROM read_model.projections
                  WHERE projection = 'redirects'
              )
            LIMIT 1
        ) AS c
        ORDER BY wanted.nth
        "#,
        &shards,
        &account_ids
    )
    .fetch_all(pool)
    .await?;
    if rows.len() != account_ids.len() {
        // A shard has no checkpoint.
        return Err(sqlx::Error::RowNotFound);
    }
    let rows = rows.into_iter();
    let visibilities = rows.map(|row| Visibility::new(row.epoch, row.position, row.is_parked));
    Ok(visibilities.collect())
}
