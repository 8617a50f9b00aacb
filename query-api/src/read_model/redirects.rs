//! Projection `redirects`: the target of each slug.

use linkledger_core::{
    id::{AccountId, LinkId},
    link::Slug,
    shard::Shard,
};
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
    /// Folded slug of the changed short link.
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
               change.number AS "number?", change.slug_folded AS "slug_folded?",
               change.account_id AS "account_id?"
        FROM read_model.redirect_change_counter AS counter
        JOIN read_model.projections AS active ON active.projection = 'redirects'
        -- All shards of a generation are of one epoch.
        JOIN read_model.checkpoints AS checkpoint
          ON checkpoint.projection = 'redirects' AND checkpoint.shard = 0
         AND checkpoint.generation = active.active_generation
        LEFT JOIN LATERAL (
            SELECT number, slug_folded, account_id FROM read_model.redirect_changes
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
        let account = || {
            row.account_id
                .map(AccountId::from_uuid)
                .map(RedirectChange::Account)
        };
        row.slug_folded.map(RedirectChange::Slug).or_else(account)
    });
    Ok(RedirectChanges {
        origin,
        last_number,
        first_number,
        changes: changes.collect(),
    })
}

/// Reads the redirect of each folded slug, in the order of the slugs.
pub(crate) async fn find_each(
    pool: &PgPool,
    folded: &[String],
) -> sqlx::Result<Vec<Option<Redirect>>> {
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
        FROM unnest($1::text[]) WITH ORDINALITY AS wanted (slug_folded, nth)
        -- Not a join: planned on empty tables, that would read all redirects.
        CROSS JOIN LATERAL (
            SELECT generation, account_id, link_id, destination_url, state, expires_at, expired_url
            FROM read_model.redirects
            WHERE generation = (
                      SELECT active_generation FROM read_model.projections
                      WHERE projection = 'redirects'
                  )
              AND slug_folded = wanted.slug_folded
            LIMIT 1
        ) AS r
        "#,
        folded
    )
    .fetch_all(pool)
    .await?;
    let mut redirects = vec![None; folded.len()];
    for row in rows {
        let nth =
            usize::try_from(row.nth - 1).map_err(|error| sqlx::Error::Decode(error.into()))?;
        redirects[nth] = Some(Redirect::of(RedirectRow {
            account_id: row.account_id,
            link_id: row.link_id,
            destination_url: row.destination_url,
            expires_at: row.expires_at,
            expired_url: row.expired_url,
            is_followed: row.state == "active" && !row.is_stopped,
        }));
    }
    Ok(redirects)
}

/// Slug of a link, and the owner of the link by the log.
#[derive(Debug, Clone)]
pub(crate) struct OwnedSlug {
    pub(crate) slug: Slug,
    pub(crate) owner: AccountId,
}

/// Reads the redirect of each slug, and how far the events of the slug's owner are visible, in the order of
/// the slugs. Does not check that the owner owns the slug.
pub(crate) async fn find_each_with_visibility(
    pool: &PgPool,
    slugs: &[OwnedSlug],
) -> sqlx::Result<Vec<SnapshotRead<Option<Redirect>>>> {
    let shards: Vec<i16> = slugs
        .iter()
        .map(|slug| Shard::of(slug.owner).number())
        .collect();
    let folded: Vec<String> = slugs.iter().map(|slug| slug.slug.folded()).collect();
    let owners: Vec<Uuid> = slugs.iter().map(|slug| slug.owner.uuid()).collect();
    let rows = sqlx::query!(
        r#"
        SELECT c.epoch AS "epoch!", c.position AS "position!",
               -- Not EXISTS: planned for many rows, that would read all parked accounts.
               (
                   SELECT account_id FROM read_model.parked_accounts
                   WHERE account_id = wanted.account_id AND projection = 'redirects'
                     AND generation = c.generation
                   LIMIT 1
               ) IS NOT NULL AS "is_parked!",
               r.account_id AS "account_id?", r.link_id AS "link_id?",
               r.destination_url AS "destination_url?", r.state AS "state?",
               r.expires_at AS "expires_at?", r.expired_url AS "expired_url?",
               (
                   SELECT account_id FROM read_model.stopped_accounts
                   WHERE generation = c.generation AND account_id = r.account_id
                   LIMIT 1
               ) IS NOT NULL AS "is_stopped!"
        FROM unnest($1::smallint[], $2::text[], $3::uuid[])
            WITH ORDINALITY AS wanted (shard, slug_folded, account_id, nth)
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
        -- Not a join: planned on empty tables, that would read all redirects.
        LEFT JOIN LATERAL (
            SELECT account_id, link_id, destination_url, state, expires_at, expired_url
            FROM read_model.redirects
            WHERE generation = c.generation AND slug_folded = wanted.slug_folded
            LIMIT 1
        ) AS r ON true
        ORDER BY wanted.nth
        "#,
        &shards,
        &folded,
        &owners
    )
    .fetch_all(pool)
    .await?;
    if rows.len() != slugs.len() {
        // A shard has no checkpoint.
        return Err(sqlx::Error::RowNotFound);
    }
    let snapshots = rows.into_iter().map(|row| {
        let found = row.account_id.zip(row.link_id).zip(row.destination_url);
        let found = found.map(|((account_id, link_id), destination_url)| RedirectRow {
            account_id,
            link_id,
            destination_url,
            expires_at: row.expires_at,
            expired_url: row.expired_url,
            is_followed: row.state.as_deref() == Some("active") && !row.is_stopped,
        });
        Visibility::new(row.epoch, row.position, row.is_parked).with(found.map(Redirect::of))
    });
    Ok(snapshots.collect())
}

/// Row of a short link.
struct RedirectRow {
    account_id: Uuid,
    link_id: Uuid,
    destination_url: String,
    expires_at: Option<OffsetDateTime>,
    expired_url: Option<String>,
    /// False if the link is disabled, or an operator suspended the account with `--stop-redirects`.
    is_followed: bool,
}

impl Redirect {
    fn of(row: RedirectRow) -> Self {
        Self {
            account_id: AccountId::from_uuid(row.account_id),
            target: if row.is_followed {
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
            },
        }
    }
}
