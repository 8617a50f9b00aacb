//! The read tables as a comparison sees them: their keys, and what stretches of their rows come to.

use linkledger_core::id::{AccountId, LinkId};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Digest, Range, snapshot::Snapshot};

/// A read table. Its rows are compared in the order of a key without the generation.
pub(super) trait Table {
    type Key: Clone;

    const NAME: &'static str;
    /// Before every key.
    const LOWEST: Self::Key;

    /// No key is after it.
    fn highest() -> Self::Key;

    /// The key as an operator knows it.
    fn text_of(key: &Self::Key) -> String;

    /// What the first rows of a stretch come to, in one generation.
    fn digest(
        &self,
        session: &mut PgConnection,
        generation: i32,
        range: &Range<Self::Key>,
        rows_max: i64,
    ) -> impl Future<Output = sqlx::Result<Digest<Self::Key>>> + Send;

    /// Of the generation that is served.
    async fn served(
        &self,
        snapshot: &mut Snapshot,
        range: &Range<Self::Key>,
        rows_max: i64,
    ) -> sqlx::Result<Digest<Self::Key>> {
        let generation = snapshot.build.live;
        self.digest(&mut snapshot.tx, generation, range, rows_max)
            .await
    }

    /// Of the other one.
    async fn built(
        &self,
        snapshot: &mut Snapshot,
        range: &Range<Self::Key>,
        rows_max: i64,
    ) -> sqlx::Result<Digest<Self::Key>> {
        let generation = snapshot.build.generation;
        self.digest(&mut snapshot.tx, generation, range, rows_max)
            .await
    }
}

/// The digest of a table whose key has two columns.
macro_rules! digest_of_pair {
    ($table:literal, $first:literal, $second:literal, $columns:literal) => {
        async fn digest(
            &self,
            session: &mut PgConnection,
            generation: i32,
            range: &Range<Self::Key>,
            rows_max: i64,
        ) -> sqlx::Result<Digest<Self::Key>> {
            let Range { after, up_to } = range;
            let row = sqlx::query!(
                "WITH page AS MATERIALIZED (
                     SELECT "
                    + $first
                    + " AS key_1, "
                    + $second
                    + " AS key_2,
                            hashtextextended(ROW("
                    + $columns
                    + ")::text, 0) AS hash
                     FROM read_model."
                    + $table
                    + "
                     WHERE generation = $1
                       AND ("
                    + $first
                    + ", "
                    + $second
                    + ") > ($3, $4)
                       AND ("
                    + $first
                    + ", "
                    + $second
                    + ") <= ($5, $6)
                     ORDER BY "
                    + $first
                    + ", "
                    + $second
                    + "
                     LIMIT $2
                 )
                 SELECT (SELECT count(*) FROM page) AS \"rows!\",
                        (SELECT sum(hash)::text FROM page) AS \"hash?\",
                        last.key_1 AS \"key_1?\", last.key_2 AS \"key_2?\"
                 FROM (VALUES (1)) AS one
                 LEFT JOIN (
                     SELECT key_1, key_2 FROM page ORDER BY key_1 DESC, key_2 DESC LIMIT 1
                 ) AS last ON true",
                generation,
                rows_max,
                after.0,
                after.1,
                up_to.0,
                up_to.1
            )
            .fetch_one(session)
            .await?;
            Ok(Digest {
                rows: row.rows,
                hash: row.hash,
                last: row.key_1.zip(row.key_2),
            })
        }
    };
}

/// The digest of a table whose key has one column.
macro_rules! digest_of_one {
    ($table:literal, $key:literal, $columns:literal) => {
        async fn digest(
            &self,
            session: &mut PgConnection,
            generation: i32,
            range: &Range<Self::Key>,
            rows_max: i64,
        ) -> sqlx::Result<Digest<Self::Key>> {
            let Range { after, up_to } = range;
            let row = sqlx::query!(
                "WITH page AS MATERIALIZED (
                     SELECT "
                    + $key
                    + " AS key,
                            hashtextextended(ROW("
                    + $columns
                    + ")::text, 0) AS hash
                     FROM read_model."
                    + $table
                    + "
                     WHERE generation = $1 AND "
                    + $key
                    + " > $3 AND "
                    + $key
                    + " <= $4
                     ORDER BY "
                    + $key
                    + "
                     LIMIT $2
                 )
                 SELECT (SELECT count(*) FROM page) AS \"rows!\",
                        (SELECT sum(hash)::text FROM page) AS \"hash?\",
                        (SELECT key FROM page ORDER BY key DESC LIMIT 1) AS \"last?\"",
                generation,
                rows_max,
                *after,
                *up_to
            )
            .fetch_one(session)
            .await?;
            Ok(Digest {
                rows: row.rows,
                hash: row.hash,
                last: row.last,
            })
        }
    };
}

pub(super) struct Links;

impl Table for Links {
    type Key = (Uuid, Uuid);

    const NAME: &'static str = "links";
    const LOWEST: Self::Key = (Uuid::nil(), Uuid::nil());

    fn highest() -> Self::Key {
        (Uuid::max(), Uuid::max())
    }

    fn text_of(key: &Self::Key) -> String {
        format!("{} {}", account(key.0), LinkId::from_uuid(key.1))
    }

    digest_of_pair!(
        "links",
        "account_id",
        "link_id",
        "account_id, link_id, slug, destination_url, version, created_at"
    );
}

pub(super) struct Redirects;

impl Table for Redirects {
    type Key = String;

    const NAME: &'static str = "redirects";
    const LOWEST: Self::Key = String::new();

    fn highest() -> Self::Key {
        char::MAX.to_string()
    }

    fn text_of(key: &Self::Key) -> String {
        format!("`{key}`")
    }

    digest_of_one!(
        "redirects",
        "slug_folded",
        "slug_folded, link_id, account_id, destination_url, state"
    );
}

pub(super) struct StoppedAccounts;

impl Table for StoppedAccounts {
    type Key = Uuid;

    const NAME: &'static str = "stopped_accounts";
    const LOWEST: Self::Key = Uuid::nil();

    fn highest() -> Self::Key {
        Uuid::max()
    }

    fn text_of(key: &Self::Key) -> String {
        account(*key)
    }

    digest_of_one!("stopped_accounts", "account_id", "account_id");
}

pub(super) struct Balances;

impl Table for Balances {
    type Key = Uuid;

    const NAME: &'static str = "credit_balances";
    const LOWEST: Self::Key = Uuid::nil();

    fn highest() -> Self::Key {
        Uuid::max()
    }

    fn text_of(key: &Self::Key) -> String {
        account(*key)
    }

    digest_of_one!(
        "credit_balances",
        "account_id",
        "account_id, balance, version"
    );
}

pub(super) struct Entries;

impl Table for Entries {
    type Key = (Uuid, i64);

    const NAME: &'static str = "credit_entries";
    const LOWEST: Self::Key = (Uuid::nil(), i64::MIN);

    fn highest() -> Self::Key {
        (Uuid::max(), i64::MAX)
    }

    fn text_of(key: &Self::Key) -> String {
        format!("{} entry {}", account(key.0), key.1)
    }

    digest_of_pair!(
        "credit_entries",
        "account_id",
        "version",
        "account_id, version, entry_id, type, amount, balance_after, link_id, created_at"
    );
}

fn account(account_id: Uuid) -> String {
    AccountId::from_uuid(account_id).to_string()
}
