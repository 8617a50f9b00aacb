//! Projection `redirects`: where a slug leads to.

use linkledger_core::{id::AccountId, link::Slug, shard::Shard};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Place, Seen, Visibility};

/// A short link as a visitor meets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redirect {
    /// Its owner, whose suspension may stop it.
    pub(crate) account_id: AccountId,
    pub(crate) target: Target,
}

/// What becomes of a visitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// Goes on to this address, as it is stored.
    Destination(Box<str>),
    /// Can't go on: the link was deleted or disabled, or its account's links are stopped.
    Gone,
}

/// What is known of changes in one snapshot.
#[derive(Debug)]
pub(crate) struct Changes {
    /// Where the numbers come from.
    pub(crate) origin: Origin,
    /// Of the newest change there ever was; 0 if there was none.
    pub(crate) last_number: i64,
    /// Those that were asked for and are still there, in order.
    pub(crate) found: Vec<Change>,
}

/// Where numbers of changes come from: those of two origins don't compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Of the log.
    pub(crate) epoch: i32,
    /// The one that is read.
    pub(crate) generation: i32,
    /// Another one after a restart, hence after a restore or a failover.
    pub(crate) server_started_at: OffsetDateTime,
}

/// What is not as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// The short link of a slug, folded.
    Slug(String),
    /// Every short link of an account.
    Account(AccountId),
}

/// Changes with higher numbers than `number`.
pub(crate) async fn changes_after(
    pool: &PgPool,
    number: i64,
    count_max: i64,
) -> sqlx::Result<Changes> {
    // The outer join keeps the first row when there are no changes.
    let rows = sqlx::query!(
        r#"
        SELECT log.epoch, active.active_generation, counter.last_number,
               pg_postmaster_start_time() AS "server_started_at!",
               change.slug_folded AS "slug_folded?", change.account_id AS "account_id?"
        FROM event_store.log_meta AS log
        CROSS JOIN read_model.redirect_change_counter AS counter
        JOIN read_model.projections AS active ON active.projection = 'redirects'
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
    let last_number = first.last_number;
    let origin = Origin {
        epoch: first.epoch,
        generation: first.active_generation,
        server_started_at: first.server_started_at,
    };
    let found = rows.into_iter().filter_map(|row| {
        let account = || {
            row.account_id
                .map(AccountId::from_uuid)
                .map(Change::Account)
        };
        row.slug_folded.map(Change::Slug).or_else(account)
    });
    Ok(Changes {
        origin,
        last_number,
        found: found.collect(),
    })
}

/// The short link of a slug.
pub(crate) async fn find(pool: &PgPool, slug: &Slug) -> sqlx::Result<Option<Redirect>> {
    let row = sqlx::query_as!(
        RedirectRow,
        r#"
        SELECT r.account_id AS "account_id?", r.destination_url AS "destination_url?",
               r.state AS "state?",
               EXISTS (
                   SELECT FROM read_model.stopped_accounts
                   WHERE generation = r.generation AND account_id = r.account_id
               ) AS "is_stopped!"
        FROM read_model.redirects AS r
        WHERE r.generation = (
                  SELECT active_generation FROM read_model.projections
                  WHERE projection = 'redirects'
              )
          AND r.slug_folded = $1
        "#,
        slug.folded()
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.and_then(RedirectRow::into_redirect))
}

/// The short link of a slug, and how far the read table has what its owner did.
pub(crate) async fn find_of_owner(
    pool: &PgPool,
    slug: &Slug,
    owner: AccountId,
) -> sqlx::Result<Seen<Option<Redirect>>> {
    let row = sqlx::query!(
        r#"
        SELECT c.epoch, c.position,
               EXISTS (
                   SELECT FROM read_model.parked_accounts AS p
                   WHERE p.account_id = $3 AND p.projection = c.projection
                     AND p.generation = c.generation
               ) AS "is_parked!",
               r.account_id AS "account_id?",
               r.destination_url AS "destination_url?", r.state AS "state?",
               EXISTS (
                   SELECT FROM read_model.stopped_accounts
                   WHERE generation = r.generation AND account_id = r.account_id
               ) AS "is_stopped!"
        FROM read_model.checkpoints AS c
        LEFT JOIN read_model.redirects AS r
               ON r.generation = c.generation AND r.slug_folded = $2
        WHERE c.projection = 'redirects' AND c.shard = $1
          AND c.generation = (
              SELECT active_generation FROM read_model.projections WHERE projection = 'redirects'
          )
        "#,
        Shard::of(owner).number(),
        slug.folded(),
        owner.uuid()
    )
    .fetch_one(pool)
    .await?;
    let redirect = RedirectRow {
        account_id: row.account_id,
        destination_url: row.destination_url,
        state: row.state,
        is_stopped: row.is_stopped,
    };
    let visibility = Visibility {
        checkpoint: Place {
            epoch: row.epoch,
            position: row.position,
        },
        is_parked: row.is_parked,
    };
    Ok(visibility.of(redirect.into_redirect()))
}

/// A short link, if there is one.
struct RedirectRow {
    account_id: Option<Uuid>,
    destination_url: Option<String>,
    state: Option<String>,
    is_stopped: bool,
}

impl RedirectRow {
    fn into_redirect(self) -> Option<Redirect> {
        let destination_url = self.destination_url?;
        let is_followed = self.state? == "active" && !self.is_stopped;
        Some(Redirect {
            account_id: AccountId::from_uuid(self.account_id?),
            target: if is_followed {
                Target::Destination(destination_url.into())
            } else {
                Target::Gone
            },
        })
    }
}
