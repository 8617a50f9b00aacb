//! A consumer whose client has lost its brokers.

use linkledger_service::{databases::DatabaseSettings, internal_listener::AdminAllowedHosts};
use linkledger_testing::TestBroker;
use rdkafka::{ClientContext as _, statistics::Statistics};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn client_without_brokers_is_replaced_with_its_partitions() {
    let broker = TestBroker::embedded();
    let no_records = PgPool::connect_lazy("postgres://localhost/").unwrap();
    let config = Config {
        databases: DatabaseSettings::one(String::new()),
        allow_unsafe_postgres: true,
        kafka: broker.config(),
        clicks: broker.clicks(),
        kafka_fetch_wait_max_ms: 2,
        database_pool_size: 2,
        base_url: "https://api.example.com".parse().unwrap(),
        admin_allowed_hosts: AdminAllowedHosts::default(),
    };
    let mut consumer = Consumer::new(&config, no_records).unwrap();
    consumer.set_shards(&Shard::all().collect()).unwrap();
    let client = |consumer: &Consumer| consumer.inner.client().native_ptr();
    let former = client(&consumer);
    assert!(consumer.receive(1, async {}).await.unwrap().is_empty());
    assert_eq!(client(&consumer), former);
    for _ in 0..2 {
        consumer.inner.context().stats(Statistics::default());
    }
    assert!(consumer.receive(1, async {}).await.unwrap().is_empty());
    assert_ne!(client(&consumer), former);
    assert_eq!(consumer.inner.assignment().unwrap().count(), 16);
    consumer.close().await;
}
