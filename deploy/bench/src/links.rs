//! Ids and slugs of the links of a data set.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use linkledger_core::id::{AccountId, LinkId};
use serde::Deserialize;
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use crate::load::HttpConnection;

/// Number of bits behind the milliseconds of a `UUIDv7`.
const BITS_BEHIND_TIME: u32 = 80;

/// Links of one account, the oldest first.
#[derive(Debug)]
pub struct DataSetLinks {
    /// Ids of the links.
    pub ids: Vec<LinkId>,
    /// Slugs of the links, in the same order.
    pub slugs: Vec<String>,
}

impl DataSetLinks {
    /// Reads the links of an account from the read table.
    ///
    /// # Errors
    /// Returns an error if the read table can't be read, or if the account has no links.
    pub async fn of_account(url: &str, account_id: AccountId) -> anyhow::Result<Self> {
        let mut connection = PgConnection::connect(url).await?;
        let rows: Vec<(Uuid, String)> = sqlx::query_as(
            "SELECT link_id, slug FROM read_model.links
             WHERE generation = (
                       SELECT active_generation FROM read_model.projections
                       WHERE projection = 'links'
                   )
               AND account_id = $1
             ORDER BY link_id",
        )
        .bind(account_id.uuid())
        .fetch_all(&mut connection)
        .await?;
        connection.close().await?;
        ensure!(!rows.is_empty(), "{account_id} has no links");
        let (ids, slugs) = rows
            .into_iter()
            .map(|(id, slug)| (LinkId::from_uuid(id), slug))
            .unzip();
        Ok(Self { ids, slugs })
    }
}

/// A page of a list, as it is shown.
#[derive(Debug, Deserialize)]
pub struct ShownPage {
    items: Vec<ShownLink>,
}

#[derive(Debug, Deserialize)]
struct ShownLink {
    id: LinkId,
}

impl ShownPage {
    /// Requests a page.
    ///
    /// # Errors
    /// Returns an error if the page is refused.
    pub async fn get(api: SocketAddr, request: &str) -> anyhow::Result<Self> {
        let mut connection = HttpConnection::open(api).await?;
        let page = connection.json(request.as_bytes(), 200).await;
        page.with_context(|| format!("no page for: {request}"))
    }

    /// Returns the ids of the links on the page.
    pub fn ids(&self) -> Vec<LinkId> {
        self.items.iter().map(|link| link.id).collect()
    }
}

/// Ids that differ only in their milliseconds, with one id for each millisecond. pgbench draws a
/// number, and a statement computes the id from the number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsecutiveIds {
    /// Milliseconds of the first id.
    pub first: u64,
    /// Milliseconds of the last id.
    pub last: u64,
    /// Bits behind the milliseconds, the same in all ids.
    rest: u128,
}

impl ConsecutiveIds {
    /// Describes these ids, which are in order.
    ///
    /// # Errors
    /// Returns an error if the ids do not follow each other by the millisecond.
    pub fn of(ids: &[LinkId]) -> anyhow::Result<Self> {
        let bits = |id: &LinkId| id.uuid().as_u128();
        let step = 1 << BITS_BEHIND_TIME;
        ensure!(
            !ids.is_empty()
                && ids
                    .windows(2)
                    .all(|pair| bits(&pair[0]) + step == bits(&pair[1])),
            "the ids of the links don't follow each other by the millisecond"
        );
        let milliseconds = |id| u64::try_from(bits(id) >> BITS_BEHIND_TIME).expect("48 bits");
        Ok(Self {
            first: milliseconds(&ids[0]),
            last: milliseconds(&ids[ids.len() - 1]),
            rest: bits(&ids[0]) % step,
        })
    }

    /// Returns the number of ids.
    pub fn count(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Returns the id with this index, from 0.
    pub fn nth(&self, index: u64) -> LinkId {
        let milliseconds = u128::from(self.first + index);
        LinkId::from_uuid(Uuid::from_u128(
            milliseconds << BITS_BEHIND_TIME | self.rest,
        ))
    }

    /// Returns an SQL term for the id whose milliseconds are the value of `milliseconds`, an SQL
    /// term.
    pub fn in_sql(&self, milliseconds: &str) -> String {
        // Ids of this century have a zero before their eleven digits; this is the shortest term.
        format!(
            "('0' || to_hex({milliseconds}::bigint) || '{:020x}')::uuid",
            self.rest
        )
    }
}

#[cfg(test)]
mod tests {
    use linkledger_core::id::LinkId;
    use linkledger_testing::TestDatabase;
    use uuid::Uuid;

    use super::ConsecutiveIds;

    fn ids(texts: [&str; 3]) -> [LinkId; 3] {
        texts.map(|text| LinkId::from_uuid(text.parse().unwrap()))
    }

    #[tokio::test]
    async fn link_ids_equal_those_made_by_sql() {
        let ids = ids([
            "0198a0ff-fffe-7aaa-8bbb-0123456789ab",
            "0198a0ff-ffff-7aaa-8bbb-0123456789ab",
            "0198a100-0000-7aaa-8bbb-0123456789ab",
        ]);
        let consecutive = ConsecutiveIds::of(&ids).unwrap();
        let database = TestDatabase::create().await;
        assert_eq!(consecutive.count(), 3);
        for (id, index) in ids.iter().zip(0..) {
            assert_eq!(consecutive.nth(index), *id);
            let term = consecutive.in_sql(&(consecutive.first + index).to_string());
            let made: Uuid = sqlx::query_scalar(sqlx::AssertSqlSafe(format!("SELECT {term}")))
                .fetch_one(database.pool())
                .await
                .unwrap();
            assert_eq!(made, id.uuid());
        }
    }

    #[test]
    fn link_ids_with_gaps_are_refused() {
        let gap = ids([
            "0198a0ff-fffe-7aaa-8bbb-0123456789ab",
            "0198a0ff-ffff-7aaa-8bbb-0123456789ab",
            "0198a100-0001-7aaa-8bbb-0123456789ab",
        ]);
        assert!(ConsecutiveIds::of(&gap).is_err());
        assert!(ConsecutiveIds::of(&gap[..2]).is_ok());
        assert!(ConsecutiveIds::of(&[]).is_err());
    }
}
