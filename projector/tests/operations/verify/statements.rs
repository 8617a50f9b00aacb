//! The statements that are assembled from the descriptions of the read tables.

use std::collections::BTreeSet;

use linkledger_projector::{
    operations::verify::{statements, subject},
    read_models::{
        Projection,
        description::{AT_POSITIONS, Column, IN_BUCKET},
        tables,
    },
};
use sqlx::{AssertSqlSafe, PgPool, raw_sql};

use crate::fixture::Fixture;

async fn assert_prepares(pool: &PgPool, statement: &str) {
    let prepare = format!("PREPARE assembled AS {statement}; DEALLOCATE assembled");
    let prepared = raw_sql(AssertSqlSafe(prepare)).execute(pool).await;
    assert!(prepared.is_ok(), "{prepared:?}: {statement}");
}

#[tokio::test]
async fn assembled_statements_prepare() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    for projection in Projection::ALL {
        for table in tables(projection) {
            for events in [IN_BUCKET, AT_POSITIONS] {
                assert_prepares(pool, &statements::expected(table, events)).await;
                assert_prepares(pool, &statements::expected_values(table, events)).await;
                assert_prepares(pool, &statements::events_of_rows(table, events)).await;
            }
            for statement in [
                statements::compare(table),
                statements::values(table),
                statements::delete(table),
                statements::page(table, false),
                statements::page(table, true),
                statements::orphans(table),
            ] {
                assert_prepares(pool, &statement).await;
            }
        }
    }
    assert_prepares(pool, &subject::events_of_part()).await;
}

#[tokio::test]
async fn described_columns_are_those_of_the_catalogue() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let mut described = BTreeSet::new();
    for table in Projection::ALL.into_iter().flat_map(tables) {
        described.insert(table.name.to_owned());
        let columns: Vec<(String, String)> = sqlx::query_as(
            "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute
             WHERE attrelid = ('read_model.' || $1)::regclass AND attnum > 0 AND NOT attisdropped
               AND attname <> 'generation'",
        )
        .bind(table.name)
        .fetch_all(pool)
        .await
        .unwrap();
        let columns: BTreeSet<_> = columns.into_iter().collect();
        let pair = |column: &Column| (column.name.to_owned(), column.sql_type.to_owned());
        assert_eq!(
            table.columns().map(pair).collect::<BTreeSet<_>>(),
            columns,
            "{}",
            table.name
        );

        let key: Vec<String> = sqlx::query_scalar(
            "SELECT a.attname::text
             FROM pg_index AS i
             CROSS JOIN unnest(i.indkey::smallint[]) WITH ORDINALITY AS part (number, place)
             JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = part.number
             WHERE i.indrelid = ('read_model.' || $1)::regclass AND i.indisprimary
             ORDER BY part.place",
        )
        .bind(table.name)
        .fetch_all(pool)
        .await
        .unwrap();
        let described_key = table.key.iter().map(|column| column.name);
        let expected: Vec<_> = ["generation"].into_iter().chain(described_key).collect();
        assert_eq!(key, expected, "{}", table.name);
    }
    let partitioned: Vec<String> = sqlx::query_scalar(
        "SELECT relname::text FROM pg_class
         WHERE relnamespace = 'read_model'::regnamespace AND relkind = 'p'",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    assert_eq!(described, partitioned.into_iter().collect());
}
