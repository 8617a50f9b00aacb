//! Statement timeouts of a verification: steps become smaller, down to a smallest one.

use linkledger_core::{
    databases::Databases,
    event_store::{self, SessionKind},
};
use linkledger_projector::{
    operations::verify::{self, SESSIONS},
    read_models::Projection,
};
use sqlx::postgres::PgPoolOptions;

use super::execute;
use crate::{stage::Stage, verified::first_generation};

const ROLES: &str = include_str!("../../../../deploy/postgres/roles.sql");
const LINKS: usize = 400;

/// Returns sessions of an operator with the statement timeout. Each look-up of a row of `links` takes
/// `row_seconds` more.
async fn slow_sessions(stage: &Stage, row_seconds: f64, timeout: &str) -> Databases {
    let pool = stage.database.pool();
    sqlx::raw_sql(ROLES).execute(pool).await.unwrap();
    for statement in [
        "ALTER TABLE read_model.links ENABLE ROW LEVEL SECURITY".to_owned(),
        format!(
            "CREATE POLICY slow ON read_model.links USING (pg_sleep({row_seconds}) IS NOT NULL)"
        ),
    ] {
        execute(pool, &statement).await;
    }
    let options = event_store::session_options(stage.database.url(), SessionKind::Writer).unwrap();
    let options = options.options([
        ("role", "linkledger_operator"),
        ("statement_timeout", timeout),
    ]);
    let sessions = PgPoolOptions::new().max_connections(SESSIONS);
    sessions.connect_lazy_with(options).into()
}

async fn links() -> Stage {
    let stage = Stage::set().await;
    stage.account_with_links("slow", LINKS).await;
    stage.followers().cycle(stage.log().await).await.unwrap();
    stage
}

#[tokio::test]
async fn timeout_of_smallest_step_names_statement() {
    let stage = links().await;
    let slow = slow_sessions(&stage, 1.0, "200ms").await;
    let target = first_generation(Projection::Links);
    let verified = verify::verify_generation(&slow, target, &|_| ()).await;
    let error = format!("{:#}", verified.unwrap_err());
    assert!(error.contains("events or rows timed out"), "{error}");
    assert!(error.contains("the table `links`"), "{error}");
}
