//! Rows of which events become that no command causes: expiries that have passed, first clicks, and clicks by minute.
//!
//! Candidates are read without locks, page by page. They are claimed in the transaction that appends their events, under
//! the locks of their accounts: of several processes with the same candidates the first one claims them, the others claim
//! nothing. Claims look rows up by their keys, so that a long backlog makes no claim slow.

use std::collections::BTreeMap;

use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use linkledger_core::{
    id::{AccountId, LinkId},
    observation::{
        LINKS_PER_EVENT_MAX, LinkClicks, LinkExpired, LinkFirstClicked, LinksClicked,
        ObservationEvent,
    },
};

/// Maximal number of candidates of one transaction, so that no event of the transaction has too many links.
pub const CANDIDATES_MAX: usize = LINKS_PER_EVENT_MAX;
#[expect(clippy::cast_possible_wrap, reason = "a small number")]
const ROWS_MAX: i64 = CANDIDATES_MAX as i64;

/// Table whose rows become observations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Expiries that have passed.
    Expiries,
    /// First clicks of links.
    FirstClicks,
    /// Clicks by minute.
    Minutes,
}

/// Row that was due when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Account that owns the link.
    pub account_id: AccountId,
    /// True if the log has the account. A restore can lose an account whose clicks the topic still has.
    pub is_of_known_account: bool,
    link_id: LinkId,
    /// Instant of the expiry or of the click, or begin of the minute.
    at: OffsetDateTime,
}

impl Source {
    /// Returns the sources that the database of the log has. The tables of clicks may be on the server of the read
    /// tables.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn of_database(pool: &PgPool) -> sqlx::Result<&'static [Self]> {
        let has_clicks = sqlx::query_scalar!(
            r#"SELECT to_regclass('clicks.link_minutes') IS NOT NULL AS "has_clicks!""#
        );
        let sources: &[Self] = if has_clicks.fetch_one(pool).await? {
            &[Self::Expiries, Self::FirstClicks, Self::Minutes]
        } else {
            &[Self::Expiries]
        };
        Ok(sources)
    }

    /// Reads rows that are due by the clock of the database, the oldest first and at most [`CANDIDATES_MAX`], right after a
    /// row or from the beginning.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn candidates(
        self,
        pool: &PgPool,
        after: Option<&Candidate>,
    ) -> sqlx::Result<Vec<Candidate>> {
        let after = Place::after(after);
        let rows = match self {
            Self::Expiries => due_expiries(pool, after).await?,
            Self::FirstClicks => unannounced_clicks(pool, after).await?,
            Self::Minutes => complete_minutes(pool, after).await?,
        };
        let page: Vec<_> = rows.into_iter().map(CandidateRow::into_candidate).collect();
        Ok(match self {
            Self::Expiries | Self::FirstClicks => page,
            Self::Minutes => of_whole_accounts(page),
        })
    }

    /// Claims the candidates that nobody has claimed or changed, and returns their events. The caller must have locked
    /// the accounts, and appends the events in the same transaction.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn claim_in_tx(
        self,
        tx: &mut PgConnection,
        candidates: &[Candidate],
    ) -> sqlx::Result<Vec<ObservationEvent>> {
        match self {
            Self::Expiries => claim_expiries_in_tx(tx, candidates).await,
            Self::FirstClicks => claim_first_clicks_in_tx(tx, candidates).await,
            Self::Minutes => claim_minutes_in_tx(tx, candidates).await,
        }
    }
}

/// Place in the order of a source.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: OffsetDateTime,
    account_id: Uuid,
    link_id: Uuid,
}

impl Place {
    fn after(candidate: Option<&Candidate>) -> Self {
        candidate.map_or(
            Self {
                at: OffsetDateTime::UNIX_EPOCH,
                account_id: Uuid::nil(),
                link_id: Uuid::nil(),
            },
            |it| Self {
                at: it.at,
                account_id: it.account_id.uuid(),
                link_id: it.link_id.uuid(),
            },
        )
    }
}

async fn due_expiries(pool: &PgPool, after: Place) -> sqlx::Result<Vec<CandidateRow>> {
    sqlx::query_as!(
        CandidateRow,
        r#"
        SELECT account_id, link_id, expires_at AS at, true AS "is_of_known_account!"
        FROM event_store.link_expiries
        WHERE expires_at <= now() AND (expires_at, link_id) > ($1, $2)
        ORDER BY expires_at, link_id
        LIMIT $3
        "#,
        after.at,
        after.link_id,
        ROWS_MAX
    )
    .fetch_all(pool)
    .await
}

async fn unannounced_clicks(pool: &PgPool, after: Place) -> sqlx::Result<Vec<CandidateRow>> {
    sqlx::query_as!(
        CandidateRow,
        r#"
        SELECT account_id, link_id, clicked_at AS at, EXISTS (
            SELECT FROM event_store.accounts AS a WHERE a.account_id = f.account_id
        ) AS "is_of_known_account!"
        FROM clicks.first_clicks AS f
        WHERE announced_at IS NULL AND (clicked_at, link_id) > ($1, $2)
        ORDER BY clicked_at, link_id
        LIMIT $3
        "#,
        after.at,
        after.link_id,
        ROWS_MAX
    )
    .fetch_all(pool)
    .await
}

/// Reads minutes whose clicks are all counted, and after 10 minutes any: a recorder may be silent for long. How far clicks
/// are counted is computed only if there is a row.
async fn complete_minutes(pool: &PgPool, after: Place) -> sqlx::Result<Vec<CandidateRow>> {
    sqlx::query_as!(
        CandidateRow,
        r#"
        SELECT account_id AS "account_id!", link_id AS "link_id!", minute AS "at!", EXISTS (
            SELECT FROM event_store.accounts AS a WHERE a.account_id = oldest.account_id
        ) AS "is_of_known_account!"
        FROM (
            SELECT account_id, link_id, minute
            FROM clicks.link_minutes
            WHERE (minute, account_id, link_id) > ($1, $2, $3)
            ORDER BY minute, account_id, link_id
            LIMIT $4
        ) AS oldest
        WHERE minute <= (
            SELECT greatest(clicks.complete_until() - interval '1 minute', now() - interval '10 minutes')
        )
        ORDER BY minute, account_id, link_id
        "#,
        after.at,
        after.account_id,
        after.link_id,
        ROWS_MAX
    )
    .fetch_all(pool)
    .await
}

/// Leaves out the last account of a full page, whose other links are on the next page: its clicks of a minute make one
/// event, unless they are those of too many links.
fn of_whole_accounts(mut page: Vec<Candidate>) -> Vec<Candidate> {
    let event = |it: &Candidate| (it.at, it.account_id);
    let (first, last) = (page.first().map(event), page.last().map(event));
    if page.len() == CANDIDATES_MAX && first != last {
        page.retain(|it| Some(event(it)) != last);
    }
    page
}

/// Reads the expiries again. Only the append of their events deletes the rows.
async fn claim_expiries_in_tx(
    tx: &mut PgConnection,
    candidates: &[Candidate],
) -> sqlx::Result<Vec<ObservationEvent>> {
    let rows = sqlx::query_as!(
        CandidateRow,
        r#"
        SELECT e.account_id AS "account_id!", e.link_id AS "link_id!", e.expires_at AS "at!",
               true AS "is_of_known_account!"
        FROM unnest($1::uuid[]) AS due (link_id)
        -- Not a condition on the table, which could be planned for the index of due expiries.
        CROSS JOIN LATERAL (
            SELECT account_id, link_id, expires_at
            FROM event_store.link_expiries
            WHERE link_id = due.link_id
            LIMIT 1
        ) AS e
        WHERE e.expires_at <= now()
        ORDER BY e.expires_at, e.link_id
        "#,
        &link_ids(candidates)
    )
    .fetch_all(tx)
    .await?;
    let expired = rows.into_iter().map(|row| {
        ObservationEvent::LinkExpired(LinkExpired {
            account_id: AccountId::from_uuid(row.account_id),
            link_id: LinkId::from_uuid(row.link_id),
            expires_at: row.at,
        })
    });
    Ok(expired.collect())
}

/// Marks the first clicks as announced.
async fn claim_first_clicks_in_tx(
    tx: &mut PgConnection,
    candidates: &[Candidate],
) -> sqlx::Result<Vec<ObservationEvent>> {
    let mut rows = sqlx::query_as!(
        CandidateRow,
        r#"
        UPDATE clicks.first_clicks
        SET announced_at = now()
        -- Not IS NULL, which could be planned for the index of clicks that are not announced.
        WHERE link_id = ANY($1) AND coalesce(announced_at, '-infinity') = '-infinity'
        RETURNING account_id, link_id, clicked_at AS at, true AS "is_of_known_account!"
        "#,
        &link_ids(candidates)
    )
    .fetch_all(tx)
    .await?;
    rows.sort_unstable_by_key(|row| (row.at, row.link_id));
    let clicked = rows.into_iter().map(|row| {
        ObservationEvent::LinkFirstClicked(LinkFirstClicked {
            account_id: AccountId::from_uuid(row.account_id),
            link_id: LinkId::from_uuid(row.link_id),
            clicked_at: row.at,
        })
    });
    Ok(clicked.collect())
}

/// Deletes the clicks by minute. Clicks that are counted later make a new row, and a further event.
async fn claim_minutes_in_tx(
    tx: &mut PgConnection,
    candidates: &[Candidate],
) -> sqlx::Result<Vec<ObservationEvent>> {
    let minutes: Vec<OffsetDateTime> = candidates.iter().map(|it| it.at).collect();
    let accounts: Vec<Uuid> = candidates.iter().map(|it| it.account_id.uuid()).collect();
    let rows = sqlx::query!(
        "
        DELETE FROM clicks.link_minutes AS m
        USING unnest($1::timestamptz[], $2::uuid[], $3::uuid[]) AS due (minute, account_id, link_id)
        WHERE m.minute = due.minute AND m.account_id = due.account_id AND m.link_id = due.link_id
        RETURNING m.minute, m.account_id, m.link_id, m.clicks, m.bots
        ",
        &minutes,
        &accounts,
        &link_ids(candidates)
    )
    .fetch_all(tx)
    .await?;
    let mut events = BTreeMap::<_, Vec<LinkClicks>>::new();
    for row in rows {
        let links = events.entry((row.minute, row.account_id)).or_default();
        links.push(LinkClicks {
            link_id: LinkId::from_uuid(row.link_id),
            clicks: row.clicks,
            bots: row.bots,
        });
    }
    let clicked = events.into_iter().map(|((minute, account_id), mut links)| {
        links.sort_unstable_by_key(|link| link.link_id);
        ObservationEvent::LinksClicked(LinksClicked {
            account_id: AccountId::from_uuid(account_id),
            minute,
            links,
        })
    });
    Ok(clicked.collect())
}

fn link_ids(candidates: &[Candidate]) -> Vec<Uuid> {
    candidates.iter().map(|it| it.link_id.uuid()).collect()
}

struct CandidateRow {
    account_id: Uuid,
    link_id: Uuid,
    at: OffsetDateTime,
    is_of_known_account: bool,
}

impl CandidateRow {
    fn into_candidate(self) -> Candidate {
        Candidate {
            account_id: AccountId::from_uuid(self.account_id),
            is_of_known_account: self.is_of_known_account,
            link_id: LinkId::from_uuid(self.link_id),
            at: self.at,
        }
    }
}
