//! SQL statements of the services, read from Postgres, so that pgbench runs the same statements.

use std::fmt::Write as _;

use anyhow::{Context as _, ensure};
use sqlx::{AssertSqlSafe, Column as _, Connection as _, PgConnection, Row as _};
use uuid::Uuid;

/// A statement with parameters `$1`, `$2`, …
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceStatement(String);

impl ServiceStatement {
    /// Returns the statement on the table that was begun last in the database, by any other
    /// session.
    ///
    /// # Errors
    /// Returns an error if there is no such statement, or if Postgres shows only its beginning.
    pub async fn last_on(table: &str, url: &str) -> anyhow::Result<Self> {
        let mut connection = PgConnection::connect(url).await?;
        let text: Option<String> = sqlx::query_scalar(
            "SELECT query FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()
               AND strpos(query, $1) > 0
             ORDER BY query_start DESC
             LIMIT 1",
        )
        .bind(table)
        .fetch_optional(&mut connection)
        .await?;
        let shown_bytes: i32 = sqlx::query_scalar(
            "SELECT setting::int FROM pg_settings WHERE name = 'track_activity_query_size'",
        )
        .fetch_one(&mut connection)
        .await?;
        connection.close().await?;
        let text = text.with_context(|| format!("pg_stat_activity has no statement on {table}"))?;
        ensure!(
            text.len() + 1 < usize::try_from(shown_bytes)?,
            "pg_stat_activity shows only the beginning of the statement on {table}; increase \
             track_activity_query_size"
        );
        Ok(Self(text))
    }

    /// Replaces the parameters by terms, in their order, and adds a semicolon.
    ///
    /// # Errors
    /// Returns an error if the statement has another number of parameters.
    pub fn with(&self, terms: &[&str]) -> anyhow::Result<String> {
        let mut text = String::new();
        let mut parts = self.0.split('$');
        text += parts.next().expect("the first part of a text, if empty");
        let mut used = vec![false; terms.len()];
        for part in parts {
            let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, rest) = part.split_at(digits);
            let index = number
                .parse::<usize>()
                .ok()
                .and_then(|number| number.checked_sub(1));
            let index = index.with_context(|| format!("no parameter: ${part}"))?;
            let term = terms
                .get(index)
                .with_context(|| format!("no value for ${number}"))?;
            used[index] = true;
            write!(text, "{term}{rest}")?;
        }
        ensure!(
            !used.contains(&false),
            "values without a parameter in: {}",
            self.0
        );
        Ok(text + ";")
    }
}

/// Runs a statement, and returns the ids of the links that it finds, in order.
///
/// # Errors
/// Returns an error if Postgres refuses the statement.
pub async fn link_ids(url: &str, statement: &str) -> anyhow::Result<Vec<Uuid>> {
    let mut connection = PgConnection::connect(url).await?;
    let rows = sqlx::query(AssertSqlSafe(statement))
        .fetch_all(&mut connection)
        .await
        .context("the statement of the baseline is refused")?;
    connection.close().await?;
    let ids = rows.iter().map(|row| {
        // The services append `?` or `!` to the names of columns, as the query macros of sqlx
        // demand.
        let named = |name| {
            let mut columns = row.columns().iter();
            columns.position(|column| column.name().trim_end_matches(['?', '!']) == name)
        };
        if let Some(one) = named("link_id") {
            let id: Option<Uuid> = row.try_get(one)?;
            return Ok(id.into_iter().collect());
        }
        row.try_get(named("link_ids").unwrap_or(usize::MAX))
    });
    let ids: Vec<Vec<Uuid>> = ids.collect::<sqlx::Result<_>>()?;
    Ok(ids.concat())
}

#[cfg(test)]
mod tests {
    use linkledger_testing::TestDatabase;

    use super::ServiceStatement;

    #[test]
    fn parameters_are_replaced_by_terms_in_any_order() {
        let statement =
            ServiceStatement("SELECT $2 WHERE a = $1 AND b = $10::text AND $2".to_owned());
        let terms = ["one", "two", "3", "4", "5", "6", "7", "8", "9", "ten"];
        assert!(statement.with(&terms).is_err(), "some have no parameter");
        let statement = ServiceStatement("SELECT $2 WHERE a = $1::text AND $2".to_owned());
        let text = statement.with(&["one", "two"]).unwrap();
        assert_eq!(text, "SELECT two WHERE a = one::text AND two;");
        assert!(statement.with(&["one"]).is_err());
    }

    #[tokio::test]
    async fn statement_is_the_last_of_another_session() {
        let database = TestDatabase::create().await;
        let mut session = database.pool().acquire().await.unwrap();
        for text in [
            "SELECT 1 FROM read_model.links WHERE account_id = $1::uuid",
            "SELECT 2 FROM read_model.links WHERE account_id = $1::uuid",
            "SELECT 3 FROM read_model.redirects",
        ] {
            let mut other = database.pool().acquire().await.unwrap();
            let rows = sqlx::query(sqlx::AssertSqlSafe(text));
            let rows = if text.contains('$') {
                rows.bind(uuid::Uuid::nil())
            } else {
                rows
            };
            rows.fetch_all(&mut *other).await.unwrap();
        }
        sqlx::query("SELECT 4")
            .execute(&mut *session)
            .await
            .unwrap();
        drop(session);
        let last = ServiceStatement::last_on("read_model.redirects", database.url())
            .await
            .unwrap();
        assert_eq!(last.0, "SELECT 3 FROM read_model.redirects");
        assert!(
            ServiceStatement::last_on("read_model.nothing", database.url())
                .await
                .is_err()
        );
    }
}
