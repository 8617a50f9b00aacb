//! Reads the events of an account in order, for its feed: those of its own stream, and those of its links.
//!
//! No index has all of them. The own stream is read by version. The creation of a link is right before its charge,
//! which is in the own stream, and the other events of links have an index of their own. All is read in one
//! statement, so that a page lacks nothing that was committed before one of its events.

use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;

use super::{EventRow, PerShard, RecordedEvent, per_shard, query_events};
use linkledger_core::{
    id::AccountId,
    shard::{Position, Shard},
};

/// Place of a reader between two events of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedPlace {
    /// Position up to which all events of the account are before the place.
    pub position: Position,
    /// Version of the last event of the account's own stream before the place; 0 if there is none.
    pub version: i64,
}

/// A page of the events of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedPage {
    /// The events right after a place, in order.
    pub events: Vec<RecordedEvent>,
    /// Place right after the last event; the place before the page if it has no event.
    pub next: FeedPlace,
    /// True if the page is full, so that there may be further events.
    pub has_more: bool,
}

impl FeedPlace {
    /// Place before the first event of any account.
    pub const BEGINNING: Self = Self {
        position: 0,
        version: 0,
    };

    /// Returns the place right after the first event of the account that this place is before.
    #[must_use]
    pub fn after(self, event: &RecordedEvent) -> Self {
        let is_of_own_stream = event.stream_id == event.account_id.uuid();
        Self {
            position: event.position,
            version: if is_of_own_stream {
                event.version
            } else {
                self.version
            },
        }
    }
}

/// Reads the first `limit` events of the account after a place.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn read_page(
    pool: &PgPool,
    account_id: AccountId,
    after: FeedPlace,
    limit: i64,
) -> sqlx::Result<FeedPage> {
    let rows = query_events!(
        r#"FROM (
            WITH own AS (
                SELECT position, type FROM event_store.events
                WHERE shard = $1 AND stream_id = $2 AND version > $3
                ORDER BY version
                LIMIT $5
            ), changes AS (
                SELECT position FROM event_store.events
                WHERE shard = $1 AND account_id = $2 AND position > $4
                  -- As in the index.
                  AND stream_id <> account_id AND type <> 'LinkCreated'
                ORDER BY position
                LIMIT $5
            )
            SELECT position FROM own
            UNION ALL
            SELECT position FROM changes
            UNION ALL
            SELECT position - 1 FROM own WHERE type = 'CreditsCharged' AND position - 1 > $4
            ORDER BY position
            LIMIT $5
        ) AS place
        -- Not a plain join: planned while there are no events, it would read the whole shard.
        CROSS JOIN LATERAL (
            -- Not *: query-api may not read idempotency keys.
            SELECT shard, position, stream_id, version, account_id, event_id, type, schema_version,
                   payload, metadata, recorded_at
            FROM event_store.events
            -- Not =: only the order makes a plan for few events use the primary key.
            WHERE shard = $1 AND position >= place.position
            ORDER BY position
            LIMIT 1
        ) AS e
        WHERE e.position = place.position AND e.account_id = $2
        ORDER BY place.position
        "#,
        Shard::of(account_id).number(),
        account_id.uuid(),
        after.version,
        after.position,
        limit
    )
    .fetch_all(pool)
    .await?;
    let events = rows.into_iter().map(EventRow::into_event);
    Ok(page_of(after, limit, events.collect::<sqlx::Result<_>>()?))
}

/// Returns the page with the first `limit` events after a place.
fn page_of(after: FeedPlace, limit: i64, events: Vec<RecordedEvent>) -> FeedPage {
    FeedPage {
        next: events.iter().fold(after, FeedPlace::after),
        has_more: i64::try_from(events.len()).is_ok_and(|count| count >= limit),
        events,
    }
}

/// Returns the place after all events of the account.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn end_place(
    executor: impl PgExecutor<'_>,
    account_id: AccountId,
) -> sqlx::Result<FeedPlace> {
    sqlx::query_as!(
        FeedPlace,
        r#"
        SELECT head AS position, coalesce((
            SELECT version FROM event_store.events
            WHERE shard = $1 AND stream_id = $2
            ORDER BY version DESC
            LIMIT 1
        ), 0) AS "version!"
        FROM event_store.log_shards
        WHERE shard = $1
        "#,
        Shard::of(account_id).number(),
        account_id.uuid()
    )
    .fetch_one(executor)
    .await
}

/// Returns the place before the first event of the account that was recorded at an instant or later.
///
/// Processes append to a shard by their own clocks, so an event can be recorded some milliseconds earlier than one
/// before it. Around the instant, the place may be before or after such events.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn place_at(
    pool: &PgPool,
    account_id: AccountId,
    instant: OffsetDateTime,
) -> sqlx::Result<FeedPlace> {
    sqlx::query_as!(
        FeedPlace,
        r#"
        -- Each step halves what is left: the place is at `low` at least, and at `high` at most.
        WITH RECURSIVE positions AS (
            SELECT 0::bigint AS low, head AS high FROM event_store.log_shards WHERE shard = $1
            UNION ALL
            SELECT CASE WHEN e.recorded_at < $3 THEN e.position ELSE low END,
                   CASE WHEN e.recorded_at < $3 THEN high ELSE e.position - 1 END
            FROM positions CROSS JOIN LATERAL (
                SELECT position, recorded_at FROM event_store.events
                WHERE shard = $1 AND position >= (low + high + 1) / 2
                ORDER BY position
                LIMIT 1
            ) AS e
            WHERE low < high
        ), place AS (
            SELECT max(low) AS position FROM positions
        ), versions AS (
            SELECT 0::bigint AS low, coalesce((
                SELECT version FROM event_store.events
                WHERE shard = $1 AND stream_id = $2
                ORDER BY version DESC
                LIMIT 1
            ), 0) AS high
            UNION ALL
            SELECT CASE WHEN e.position <= place.position THEN e.version ELSE low END,
                   CASE WHEN e.position <= place.position THEN high ELSE e.version - 1 END
            FROM versions CROSS JOIN place CROSS JOIN LATERAL (
                SELECT position, version FROM event_store.events
                WHERE shard = $1 AND stream_id = $2 AND version >= (low + high + 1) / 2
                ORDER BY version
                LIMIT 1
            ) AS e
            WHERE low < high
        )
        SELECT place.position AS "position!", (SELECT max(low) FROM versions) AS "version!"
        FROM place
        "#,
        Shard::of(account_id).number(),
        account_id.uuid(),
        instant
    )
    .fetch_one(pool)
    .await
}

/// Returns the place after all events of the account up to a position of its shard.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn place_after(
    pool: &PgPool,
    account_id: AccountId,
    position: Position,
) -> sqlx::Result<FeedPlace> {
    let version = sqlx::query_scalar!(
        r#"
        -- Each step halves what is left, as for the place at an instant.
        WITH RECURSIVE versions AS (
            SELECT 0::bigint AS low, coalesce((
                SELECT version FROM event_store.events
                WHERE shard = $1 AND stream_id = $2
                ORDER BY version DESC
                LIMIT 1
            ), 0) AS high
            UNION ALL
            SELECT CASE WHEN e.position <= $3 THEN e.version ELSE low END,
                   CASE WHEN e.position <= $3 THEN high ELSE e.version - 1 END
            FROM versions CROSS JOIN LATERAL (
                SELECT position, version FROM event_store.events
                WHERE shard = $1 AND stream_id = $2 AND version >= (low + high + 1) / 2
                ORDER BY version
                LIMIT 1
            ) AS e
            WHERE low < high
        )
        SELECT max(low) AS "version!" FROM versions
        "#,
        Shard::of(account_id).number(),
        account_id.uuid(),
        position
    )
    .fetch_one(pool)
    .await?;
    Ok(FeedPlace { position, version })
}

/// Returns the position before the first event of each shard that was recorded at an instant or later, in the order
/// of the shards. Around the instant it is as exact as [`place_at`].
///
/// # Errors
/// Returns an error if the database fails.
pub async fn positions_at(
    pool: &PgPool,
    instant: OffsetDateTime,
) -> sqlx::Result<PerShard<Position>> {
    let rows = sqlx::query!(
        r#"
        -- Each step halves what is left: the place is at `low` at least, and at `high` at most.
        WITH RECURSIVE positions AS (
            SELECT shard, 0::bigint AS low, head AS high FROM event_store.log_shards
            UNION ALL
            SELECT positions.shard,
                   CASE WHEN e.recorded_at < $1 THEN e.position ELSE low END,
                   CASE WHEN e.recorded_at < $1 THEN high ELSE e.position - 1 END
            FROM positions CROSS JOIN LATERAL (
                SELECT position, recorded_at FROM event_store.events
                WHERE shard = positions.shard AND position >= (low + high + 1) / 2
                ORDER BY position
                LIMIT 1
            ) AS e
            WHERE low < high
        )
        SELECT shard AS "shard!", max(low) AS "position!"
        FROM positions
        GROUP BY shard
        "#,
        instant
    )
    .fetch_all(pool)
    .await?;
    Ok(per_shard(rows.iter().map(|row| (row.shard, row.position))))
}

/// Returns the accounts with events at the positions of a shard after `after`, up to `up_to`.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn accounts_between(
    pool: &PgPool,
    shard: Shard,
    after: Position,
    up_to: Position,
) -> sqlx::Result<Vec<AccountId>> {
    let ids = sqlx::query_scalar!(
        r#"
        SELECT DISTINCT account_id AS "account_id!"
        FROM (
            SELECT account_id FROM event_store.events
            WHERE shard = $1 AND position > $2 AND position <= $3
            -- Only the order makes a plan for few events use the primary key.
            ORDER BY position
        ) AS e
        "#,
        shard.number(),
        after,
        up_to
    )
    .fetch_all(pool)
    .await?;
    Ok(ids.into_iter().map(AccountId::from_uuid).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use linkledger_core::{envelope::Metadata, id::EventId};

    const ACCOUNT: AccountId = AccountId::from_uuid(Uuid::from_u128(1));
    const NEIGHBOUR: AccountId = AccountId::from_uuid(Uuid::from_u128(2));
    const LINK: Uuid = Uuid::from_u128(3);

    /// Events of one transaction.
    #[derive(Debug, Clone, Copy)]
    enum Step {
        Grant,
        /// A link and its charge.
        Create,
        ChangeLink,
    }

    fn steps() -> impl Strategy<Value = Vec<(AccountId, Step)>> {
        let account = prop_oneof![3 => Just(ACCOUNT), 1 => Just(NEIGHBOUR)];
        let step = prop_oneof![
            Just(Step::Grant),
            Just(Step::Create),
            Just(Step::ChangeLink)
        ];
        prop::collection::vec((account, step), 0..40)
    }

    fn append(log: &mut Vec<RecordedEvent>, account_id: AccountId, event_type: &str) {
        let is_own = event_type.starts_with("Credits");
        let stream_id = if is_own { account_id.uuid() } else { LINK };
        let position = log.len() + 1;
        let version = log.iter().filter(|it| it.stream_id == stream_id).count() + 1;
        log.push(RecordedEvent {
            shard: Shard::of(ACCOUNT),
            position: position.try_into().unwrap(),
            stream_id,
            version: version.try_into().unwrap(),
            account_id,
            event_id: EventId::from_uuid(Uuid::nil()),
            event_type: event_type.to_owned(),
            schema_version: 1,
            payload: "{}".to_owned(),
            metadata: Metadata::default(),
            recorded_at: OffsetDateTime::UNIX_EPOCH,
        });
    }

    fn commit(log: &mut Vec<RecordedEvent>, (account_id, step): (AccountId, Step)) {
        let types: &[&str] = match step {
            Step::Grant => &["CreditsGranted"],
            Step::Create => &["LinkCreated", "CreditsCharged"],
            Step::ChangeLink => &["LinkEnabled"],
        };
        for event_type in types {
            append(log, account_id, event_type);
        }
    }

    fn of_account(
        log: &[RecordedEvent],
    ) -> impl DoubleEndedIterator<Item = &RecordedEvent> + Clone {
        log.iter().filter(|event| event.account_id == ACCOUNT)
    }

    /// Does what the statement of [`read_page`] does.
    fn read(log: &[RecordedEvent], after: FeedPlace, limit: usize) -> FeedPage {
        let stream = of_account(log)
            .filter(|it| it.stream_id == ACCOUNT.uuid() && it.version > after.version)
            .take(limit);
        let changes = of_account(log)
            .filter(|it| it.event_type == "LinkEnabled" && it.position > after.position)
            .take(limit);
        let charged = stream
            .clone()
            .filter(|it| it.event_type == "CreditsCharged");
        let paid = charged.map(|it| it.position - 1);
        let paid = paid.filter(|position| *position > after.position);
        let found = stream.chain(changes).map(|it| it.position);
        let mut positions: Vec<Position> = found.chain(paid).collect();
        positions.sort_unstable();
        positions.truncate(limit);
        let events = of_account(log).filter(|it| positions.contains(&it.position));
        let events: Vec<RecordedEvent> = events.cloned().collect();
        assert_eq!(events.len(), positions.len(), "a position is there twice");
        page_of(after, limit.try_into().unwrap(), events)
    }

    proptest! {
        #[test]
        fn pages_of_a_growing_log_have_each_event_once_in_order(
            steps in steps(),
            limits in prop::collection::vec(1..6_usize, 1..4),
            is_grown in any::<bool>(),
        ) {
            let mut log = Vec::new();
            let mut steps = steps.into_iter();
            if is_grown {
                steps.by_ref().for_each(|step| commit(&mut log, step));
            }
            let (mut seen, mut place) = (Vec::new(), FeedPlace::BEGINNING);
            for limit in limits.into_iter().cycle() {
                let page = read(&log, place, limit);
                prop_assert_eq!(page.has_more, page.events.len() == limit);
                let is_at_end = !page.has_more;
                seen.extend(page.events);
                place = page.next;
                match steps.next() {
                    Some(step) => commit(&mut log, step),
                    None if is_at_end => break,
                    None => {}
                }
            }
            prop_assert_eq!(seen, of_account(&log).cloned().collect::<Vec<_>>());
        }

        #[test]
        fn page_begins_anywhere_in_the_log(steps in steps(), position in 0..80_usize, limit in 1..6_usize) {
            let mut log = Vec::new();
            for step in steps {
                commit(&mut log, step);
            }
            let (before, behind) = log.split_at(position.min(log.len()));
            let mut own = of_account(before).filter(|it| it.stream_id == ACCOUNT.uuid());
            let place = FeedPlace {
                position: before.len().try_into().unwrap(),
                version: own.next_back().map_or(0, |it| it.version),
            };
            let expected = of_account(behind).take(limit).cloned();
            prop_assert_eq!(read(&log, place, limit).events, expected.collect::<Vec<_>>());
        }
    }
}
