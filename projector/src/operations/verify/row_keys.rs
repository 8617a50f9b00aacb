//! Keys of rows as columns, which statements on the log return and statements on a read table take, and
//! the other way round.

use sqlx::{Postgres, postgres::PgArguments, query::QueryAs};
use uuid::Uuid;

/// Keys of rows of one table, as columns for `unnest`.
#[derive(Debug, Default)]
pub(super) struct RowKeys {
    pub(super) account_ids: Vec<Uuid>,
    pub(super) row_ids: Vec<Option<Uuid>>,
    /// Columns of the key that are neither the account nor the row's id, as text of an array.
    pub(super) rests: Vec<String>,
}

impl RowKeys {
    /// Returns the keys at these indexes.
    pub(super) fn at(&self, indexes: &[usize]) -> Self {
        Self {
            account_ids: indexes.iter().map(|it| self.account_ids[*it]).collect(),
            row_ids: indexes.iter().map(|it| self.row_ids[*it]).collect(),
            rests: indexes.iter().map(|it| self.rests[*it].clone()).collect(),
        }
    }

    /// Binds the three columns.
    pub(super) fn bind<'q, Row>(
        &self,
        statement: QueryAs<'q, Postgres, Row, PgArguments>,
    ) -> QueryAs<'q, Postgres, Row, PgArguments> {
        statement
            .bind(self.account_ids.clone())
            .bind(self.row_ids.clone())
            .bind(self.rests.clone())
    }
}
