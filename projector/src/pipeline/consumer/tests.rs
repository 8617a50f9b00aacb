//! A member whose client has lost its brokers.

use linkledger_core::{databases::DatabaseSettings, internal_listener::InternalHosts};
use linkledger_testing::{TestBroker, eventually};
use rdkafka::{ClientContext as _, statistics::Statistics};
use tokio::sync::Mutex;

use super::*;
use crate::config::GroupProtocol;

#[tokio::test(flavor = "multi_thread")]
async fn member_without_brokers_joins_the_group_again() {
    let broker = TestBroker::embedded();
    let no_records = PgPool::connect_lazy("postgres://localhost/").unwrap();
    let config = Config {
        databases: DatabaseSettings::one(String::new()),
        allow_unsafe_postgres: true,
        kafka: broker.config(),
        clicks: broker.clicks(),
        group_id: broker.group_id("again"),
        group_protocol: GroupProtocol::Classic,
        fetch_wait_max_ms: 2,
        connections_max: 2,
        internal_hosts: InternalHosts::default(),
    };
    let consumer = Mutex::new(Consumer::join(&config, no_records).unwrap());
    let changes = async || {
        let soon = tokio::time::sleep(Duration::from_millis(10));
        let delivery = consumer.lock().await.receive(1, soon).await.unwrap();
        delivery.assignment_changes
    };
    let all: Vec<_> = Shard::all().collect();
    let is_assigned = async || {
        let assigned = AssignmentChange::Assigned(all.clone());
        changes().await.contains(&assigned).then_some(())
    };
    eventually("all shards are assigned", is_assigned).await;
    for _ in 0..2 {
        let consumer = consumer.lock().await;
        consumer.inner.context().stats(Statistics::default());
    }
    assert_eq!(changes().await, [AssignmentChange::Lost(all.clone())]);
    eventually("all shards are assigned again", is_assigned).await;
}
