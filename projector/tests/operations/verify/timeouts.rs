//! Statement timeouts of a verification: steps become smaller, down to a smallest one.

use linkledger_event_store::SessionKind;
use linkledger_projector::{
    operations::verify::{self, SESSIONS},
    read_models::Projection,
};
use linkledger_service::databases::Databases;
use sqlx::postgres::PgPoolOptions;

use super::execute;
use crate::{fixture::Fixture, verified::first_generation};

const ROLES: &str = include_str!("../../../../deploy/postgres/roles.sql");
const LINKS: usize = 400;

/// Returns sessions of an operator with the statement timeout. Each look-up of a row of `links` takes
/// `row_seconds` more.
async fn slow_sessions(fixture: &Fixture, row_seconds: f64, timeout: &str) -> Databases {
    let pool = fixture.database.pool();
    sqlx::raw_sql(ROLES).execute(pool).await.unwrap();
    for statement in [
        "ALTER TABLE read_model.links ENABLE ROW LEVEL SECURITY".to_owned(),
        format!(
            "CREATE POLICY slow ON read_model.links USING (pg_sleep({row_seconds}) IS NOT NULL)"
        ),
    ] {
        execute(pool, &statement).await;
    }
    let options =
        linkledger_event_store::session_options(fixture.database.url(), SessionKind::Writer)
            .unwrap();
    let options = options.options([
        ("role", "linkledger_operator"),
        ("statement_timeout", timeout),
    ]);
    let sessions = PgPoolOptions::new().max_connections(SESSIONS);
    sessions.connect_lazy_with(options).into()
}

async fn links() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.account_with_links("slow", LINKS).await;
    fixture.apply_log().await;
    fixture
}

#[tokio::test]
async fn timeout_of_smallest_step_names_statement() {
    let fixture = links().await;
    let slow = slow_sessions(&fixture, 1.0, "200ms").await;
    let target = first_generation(Projection::Links);
    let verified = verify::verify_generation(&slow, target, &|_| ()).await;
    let error = format!("{:#}", verified.unwrap_err());
    assert!(error.contains("events or rows timed out"), "{error}");
    assert!(error.contains("the table `links`"), "{error}");
}
