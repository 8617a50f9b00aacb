//! Blocks each transaction that writes rows of `links`, until the gate is opened.

use linkledger_testing::eventually;
use sqlx::{PgPool, raw_sql};

pub(crate) struct Gate(PgPool);

impl Gate {
    /// Creates a closed gate.
    pub(crate) async fn build(pool: &PgPool) -> Self {
        raw_sql(
            "CREATE TABLE gate AS SELECT 1;
             CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 WHILE EXISTS (SELECT FROM gate) LOOP
                     PERFORM pg_sleep(0.01);
                 END LOOP;
                 RETURN NULL;
             END $$;
             CREATE TRIGGER wait AFTER INSERT ON read_model.links
                 FOR EACH STATEMENT EXECUTE FUNCTION wait();",
        )
        .execute(pool)
        .await
        .unwrap();
        Self(pool.clone())
    }

    /// Waits until a transaction is blocked.
    pub(crate) async fn is_reached(&self) {
        session_waits(&self.0, "PgSleep", "INSERT INTO read_model.links%").await;
    }

    pub(crate) async fn open(&self) {
        raw_sql("DELETE FROM gate").execute(&self.0).await.unwrap();
    }
}

/// Waits until a session waits for the event in a statement that matches the pattern.
pub(crate) async fn session_waits(pool: &PgPool, event: &str, statement: &str) {
    eventually("a session waits", async || {
        let found = sqlx::query(
            "SELECT FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event = $1
               AND ltrim(query, E' \\n') LIKE $2",
        )
        .bind(event)
        .bind(statement)
        .fetch_optional(pool)
        .await
        .unwrap();
        found.map(|_| ())
    })
    .await;
}
