//! Relay that runs as a task, and events for its shards.

use std::sync::Arc;

use linkledger_command_api::relay::{Relay, publisher::KafkaPublisher};
use linkledger_core::{
    credits::{CreditsEvent, CreditsGranted},
    event::Event,
    id::AccountId,
    shard::Shard,
};
use linkledger_event_store::log::PerShard;
use linkledger_service::kafka_config::KafkaConfig;
use linkledger_testing as testing;
use linkledger_testing::TestDatabase;
use sqlx::PgPool;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Relay that runs as a task.
pub(crate) struct RunningRelay {
    shutdown: CancellationToken,
    running: JoinHandle<anyhow::Result<()>>,
}

impl RunningRelay {
    pub(crate) fn start(pool: &PgPool, kafka: &KafkaConfig) -> Self {
        Self::start_as("one", pool, kafka)
    }

    pub(crate) fn start_as(owner: &str, pool: &PgPool, kafka: &KafkaConfig) -> Self {
        let publisher = KafkaPublisher::new(kafka, "lz4").unwrap();
        let relay = Relay::new(pool.clone(), publisher, owner.to_owned(), Arc::default());
        let shutdown = CancellationToken::new();
        let running = testing::in_background(relay.run(shutdown.clone()));
        Self { shutdown, running }
    }

    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.running.await.unwrap().unwrap();
    }
}

/// Creates an account in each shard.
pub(crate) async fn an_account_of_each_shard(database: &TestDatabase) -> PerShard<AccountId> {
    let mut accounts = PerShard::default();
    for shard in Shard::all() {
        accounts[shard.index()] = Some(testing::account_of(database.pool(), shard, 0).await);
    }
    accounts.map(Option::unwrap)
}

/// Returns the grant after which the balance is `balance_after`.
pub(crate) fn granted(account_id: AccountId, balance_after: i64) -> Event {
    Event::Credits(CreditsEvent::Granted(CreditsGranted {
        account_id,
        amount: 1,
        balance_after,
        reason: "test".to_owned(),
        reference: None,
        description: None,
    }))
}
