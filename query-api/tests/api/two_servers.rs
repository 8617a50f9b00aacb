//! Read tables on a server of their own.

use std::sync::Arc;

use linkledger_core::clock::SystemClock;
use linkledger_query_api::start;
use linkledger_service::{databases::DatabaseSettings, lifecycle::Tasks};
use linkledger_testing::TestDatabase;
use tokio_util::sync::CancellationToken;

use crate::service::config;

/// Starts the service with these two databases, and returns the reason why it refused to start.
async fn refusal(log: &TestDatabase, read: &TestDatabase) -> Option<String> {
    let mut config = config(log);
    config.databases = DatabaseSettings {
        read_database_url: Some(read.url().to_owned().into()),
        ..DatabaseSettings::one(log.url())
    };
    let mut tasks = Tasks::new(CancellationToken::new());
    let started = start(config, Arc::new(SystemClock), &mut tasks).await;
    started.err().map(|error| format!("{error:#}"))
}

#[tokio::test]
async fn database_without_its_schema_is_refused() {
    let (log, read) = TestDatabase::create_two().await;
    assert_eq!(refusal(&log, &read).await, None);
    let refused = refusal(&read, &log).await.unwrap();
    assert!(refused.contains("of `event_store` is pending"), "{refused}");
    let refused = refusal(&log, &log).await.unwrap();
    assert!(refused.contains("of `read_model` is pending"), "{refused}");
}
