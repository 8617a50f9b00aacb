//! Table `clicks.account_values`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use linkledger_core::{
    click::{
        Dimension,
        tally::{AccountGroup, ValueCount, ValueRows},
    },
    id::AccountId,
};
use sqlx::PgConnection;
use time::Date;
use uuid::Uuid;

use super::{ROWS_MAX, stored, visitors::with_visitors};

/// Stored values by group.
type StoredValues = BTreeMap<AccountGroup, BTreeSet<String>>;
/// Key of a row.
type RowKey<'a> = (AccountGroup, &'a str);

/// Keys of rows, as columns.
#[derive(Default)]
struct Keys<'a> {
    accounts: Vec<Uuid>,
    days: Vec<Date>,
    dimensions: Vec<i16>,
    values: Vec<&'a str>,
}

impl Keys<'_> {
    fn push(&mut self, (account_id, day, dimension): AccountGroup) {
        self.accounts.push(account_id.uuid());
        self.days.push(day);
        self.dimensions.push(dimension.number());
    }
}

fn group(account_id: Uuid, day: Date, dimension: i16) -> Option<AccountGroup> {
    let mut all = Dimension::ALL.into_iter();
    let dimension = all.find(|it| it.number() == dimension)?;
    Some((AccountId::from_uuid(account_id), day, dimension))
}

/// Returns the stored values of the groups.
pub(super) async fn stored_in_tx(
    tx: &mut PgConnection,
    partition: u8,
    rows: &ValueRows<AccountGroup>,
) -> sqlx::Result<StoredValues> {
    let mut stored = StoredValues::new();
    let groups: Vec<AccountGroup> = rows.groups().collect();
    for chunk in groups.chunks(ROWS_MAX) {
        let mut keys = Keys::default();
        for group in chunk {
            keys.push(*group);
        }
        let rows = sqlx::query!(
            r#"
            SELECT account_id AS "account_id!", day AS "day!", dimension AS "dimension!", t.value
            FROM unnest($2::uuid[], $3::date[], $4::smallint[]) AS k (account_id, day, dimension)
            JOIN clicks.account_values AS t USING (account_id, day, dimension)
            WHERE t.partition = $1
            "#,
            i16::from(partition),
            &keys.accounts,
            &keys.days,
            &keys.dimensions
        )
        .fetch_all(&mut *tx)
        .await?;
        for row in rows {
            if let Some(group) = group(row.account_id, row.day, row.dimension) {
                stored.entry(group).or_default().insert(row.value);
            }
        }
    }
    Ok(stored)
}

/// Adds the counts to the stored rows.
pub(super) async fn add_in_tx(
    tx: &mut PgConnection,
    partition: u8,
    rows: &ValueRows<AccountGroup>,
    stored_values: &StoredValues,
) -> sqlx::Result<()> {
    let rows: Vec<_> = rows.iter().collect();
    for chunk in rows.chunks(ROWS_MAX) {
        let sketches = sketches_in_tx(tx, partition, chunk, stored_values).await?;
        let mut keys = Keys::default();
        let (mut clicks, mut visitors) = (Vec::new(), Vec::new());
        for (group, value, count) in chunk {
            keys.push(*group);
            keys.values.push(value);
            clicks.push(stored(count.clicks));
            visitors.push(with_visitors(
                sketches.get(&(*group, *value)),
                &count.visitors,
            ));
        }
        sqlx::query!(
            "
            INSERT INTO clicks.account_values AS t
                (account_id, day, dimension, value, partition, clicks, visitors)
            SELECT n.account_id, n.day, n.dimension, n.value, $1::smallint, n.clicks, n.visitors
            FROM unnest($2::uuid[], $3::date[], $4::smallint[], $5::text[], $6::bigint[], $7::bytea[])
                AS n (account_id, day, dimension, value, clicks, visitors)
            ON CONFLICT (account_id, day, dimension, value, partition) DO UPDATE
            SET clicks = t.clicks + excluded.clicks,
                visitors = coalesce(excluded.visitors, t.visitors)
            ",
            i16::from(partition),
            &keys.accounts,
            &keys.days,
            &keys.dimensions,
            &keys.values as &[&str],
            &clicks,
            &visitors as &[Option<Vec<u8>>]
        )
        .execute(&mut *tx)
        .await?;
    }
    Ok(())
}

/// Returns the stored sketches of the rows that get visitors.
async fn sketches_in_tx<'a>(
    tx: &mut PgConnection,
    partition: u8,
    rows: &[(AccountGroup, &'a str, &ValueCount)],
    stored_values: &StoredValues,
) -> sqlx::Result<HashMap<RowKey<'a>, Vec<u8>>> {
    let mut keys = Keys::default();
    let mut wanted = Vec::new();
    for (group, value, count) in rows {
        let is_stored = stored_values
            .get(group)
            .is_some_and(|values| values.contains(*value));
        if is_stored && !count.visitors.is_empty() {
            keys.push(*group);
            keys.values.push(value);
            wanted.push((*group, *value));
        }
    }
    if wanted.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query!(
        r#"
        SELECT k.number AS "number!", t.visitors AS "visitors!"
        FROM unnest($2::uuid[], $3::date[], $4::smallint[], $5::text[])
            WITH ORDINALITY AS k (account_id, day, dimension, value, number)
        JOIN clicks.account_values AS t USING (account_id, day, dimension, value)
        WHERE t.partition = $1 AND t.visitors IS NOT NULL
        "#,
        i16::from(partition),
        &keys.accounts,
        &keys.days,
        &keys.dimensions,
        &keys.values as &[&str]
    )
    .fetch_all(tx)
    .await?;
    let sketches = rows.into_iter().filter_map(|row| {
        let key = wanted.get(usize::try_from(row.number).ok()? - 1)?;
        Some((*key, row.visitors))
    });
    Ok(sketches.collect())
}
