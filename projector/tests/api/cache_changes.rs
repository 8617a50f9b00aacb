//! Reads the changes for redirect caches, and tells which of them a log demands.

use std::collections::{BTreeSet, HashMap};

use linkledger_core::{
    account::AccountEvent, cloud_event::PublishedEvent, event::Event, link::LinkEvent,
};
use sqlx::PgPool;
use uuid::Uuid;

/// Number, slug and account of a change; exactly one of slug and account is set.
type Row = (i64, Option<String>, Option<Uuid>);

pub(crate) async fn changes(pool: &PgPool) -> Vec<Row> {
    sqlx::query_as(
        "SELECT number, slug_key, account_id FROM read_model.redirect_changes ORDER BY number",
    )
    .fetch_all(pool)
    .await
    .unwrap()
}

pub(crate) async fn numbers(pool: &PgPool) -> Vec<i64> {
    changes(pool).await.into_iter().map(|row| row.0).collect()
}

/// Returns the slugs and accounts of which the log has a change.
pub(crate) fn subjects_of_log(log: &[PublishedEvent]) -> BTreeSet<(Option<String>, Option<Uuid>)> {
    let mut slugs = HashMap::new();
    let mut subjects = BTreeSet::new();
    for PublishedEvent { event, .. } in log {
        match event.decode().unwrap() {
            Event::Link(LinkEvent::Created(created)) => {
                slugs.insert(created.link_id, created.slug.to_lowercase());
            }
            Event::Link(changed) => {
                subjects.insert((Some(slugs[&changed.link_id()].clone()), None));
            }
            Event::Account(AccountEvent::Suspended(_) | AccountEvent::Resumed(_)) => {
                subjects.insert((None, Some(event.account_id.uuid())));
            }
            Event::Account(AccountEvent::Created(_) | AccountEvent::Changed(_))
            | Event::ApiKey(_)
            | Event::Webhook(_)
            | Event::Observation(_)
            | Event::Credits(_) => {}
        }
    }
    subjects
}
