//! SQL statements of the services, read from Postgres, so that pgbench runs the same statements.

use anyhow::{Context as _, ensure};
use sqlx::{Connection as _, PgConnection};

/// A statement with parameters `$1`, `$2`, …
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceStatement(String);

impl ServiceStatement {
    /// Returns the statement on the table that was begun last in the database, by any other
    /// session.
    ///
    /// # Errors
    /// Returns an error if there is no such statement.
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
        connection.close().await?;
        let text = text.with_context(|| format!("pg_stat_activity has no statement on {table}"))?;
        Ok(Self(text))
    }

    /// Replaces the parameters by terms, in their order, and adds a semicolon.
    ///
    /// # Errors
    /// Returns an error if the statement has another number of parameters.
    pub fn with(&self, terms: &[&str]) -> anyhow::Result<String> {
        let mut text = self.0.clone();
        // `$10` begins with `$1`.
        for (index, term) in terms.iter().enumerate().rev() {
            let parameter = format!("${}", index + 1);
            ensure!(text.contains(&parameter), "no {parameter} in: {}", self.0);
            text = text.replace(&parameter, term);
        }
        ensure!(!text.contains('$'), "more parameters in: {}", self.0);
        Ok(text + ";")
    }
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
