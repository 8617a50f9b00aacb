//! Behaviour that only Apache Kafka has. These tests do nothing unless the tests use Apache Kafka.

use std::{fs, io::ErrorKind, process::Command, time::Duration};

use linkledger_command_api::relay::publisher::KafkaPublisher;
use linkledger_servers::apache_kafka::ApacheKafkaOptions;
use linkledger_testing::{TestBroker, TestDatabase, stream::Stream};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::{
    broker::{self, alter_topic},
    fixture::{DRAIN_TIME_MAX, drained, relay, step_until_stored, with_links, with_links_of},
    load::{self, Load},
    process::Process,
};

/// Timeout for the death of a broker whose disk is full.
const DEATH_TIME_MAX: Duration = Duration::from_mins(3);

#[tokio::test(flavor = "multi_thread")]
async fn too_small_message_limit_stops_relay() {
    if !TestBroker::is_apache() {
        return;
    }
    let kafka = broker::apache(ApacheKafkaOptions::default()).await;
    let database = TestDatabase::create().await;
    with_links(&database, 3).await;
    let publisher = KafkaPublisher::new(&broker::config(&kafka), "lz4").unwrap();
    let mut relay = relay(&database, publisher, "one");
    assert_eq!(relay.step().await.unwrap(), 6);
    // The relay has a producer already, which has accepted the topic.
    alter_topic(&kafka, "max.message.bytes", "300").await;
    with_links_of(&database, "later", 3).await;
    // The refusal ends the producer; the next producer refuses the topic.
    relay.step().await.ok();
    for _ in 0..3 {
        let error = format!("{:#}", relay.step().await.unwrap_err());
        assert!(error.contains("max.message.bytes"), "{error}");
    }
    alter_topic(&kafka, "max.message.bytes", "1048588").await;
    let heads = linkledger_event_store::log::heads(database.pool()).await;
    for (shard, head) in linkledger_core::shard::Shard::all().zip(heads.unwrap()) {
        if head > 0 {
            step_until_stored(&mut relay, &database, (shard, head)).await;
        }
    }
    Stream::assert_is_the_log(&broker::config(&kafka), database.pool()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topic_refusing_under_load_has_no_gap() {
    if !TestBroker::is_apache() {
        return;
    }
    let kafka = broker::apache(ApacheKafkaOptions::default()).await;
    let database = TestDatabase::create().await;
    let start = || Process::start(&database, &broker::config(&kafka), "one", None);
    let mut process = start();
    let load = Load::append(&database).await;
    for (setting, refusing, mended) in [
        ("min.insync.replicas", "2", "1"),
        ("max.message.bytes", "300", "1048588"),
        ("min.insync.replicas", "2", "1"),
    ] {
        load::published_more(database.pool(), 50).await;
        alter_topic(&kafka, setting, refusing).await;
        load::appended_more(database.pool(), 200).await;
        alter_topic(&kafka, setting, mended).await;
        load::published_more(database.pool(), 50).await;
        // The first batches of the next producer are refused.
        alter_topic(&kafka, "min.insync.replicas", "2").await;
        drop(process);
        process = start();
        load::appended_more(database.pool(), 200).await;
        alter_topic(&kafka, "min.insync.replicas", "1").await;
    }
    load::published_more(database.pool(), 50).await;
    load.stop().await;
    drained(database.pool(), DRAIN_TIME_MAX).await;
    Stream::assert_is_the_log(&broker::config(&kafka), database.pool()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broker_killed_under_load_has_no_gap() {
    if !TestBroker::is_apache() {
        return;
    }
    let mut kafka = broker::apache(ApacheKafkaOptions::default()).await;
    let database = TestDatabase::create().await;
    let _process = Process::start(&database, &broker::config(&kafka), "one", None);
    let load = Load::append(&database).await;
    for _ in 0..2 {
        load::published_more(database.pool(), 100).await;
        kafka.kill().unwrap();
        kafka.restart().await.unwrap();
    }
    load::published_more(database.pool(), 100).await;
    load.stop().await;
    drained(database.pool(), DRAIN_TIME_MAX).await;
    Stream::assert_is_the_log(&broker::config(&kafka), database.pool()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn full_broker_disk_keeps_order() {
    let Some(disk) = SmallDisk::mount().filter(|_| TestBroker::is_apache()) else {
        return;
    };
    let options = ApacheKafkaOptions {
        data_dir: Some(disk.0.path().join("kafka")),
        // The default is 30 s.
        settings: vec![("log.dir.failure.timeout.ms".to_owned(), "1000".to_owned())],
        ..ApacheKafkaOptions::default()
    };
    let mut kafka = broker::apache(options).await;
    let database = TestDatabase::create().await;
    let _process = Process::start(&database, &broker::config(&kafka), "one", None);
    let load = Load::append(&database).await;
    load::published_more(database.pool(), 50).await;
    let ballast = disk.0.path().join("ballast");
    let filled = fs::write(&ballast, vec![0; SMALL_DISK_BYTES]).unwrap_err();
    assert_eq!(filled.kind(), ErrorKind::StorageFull);
    // A broker with a full disk ends.
    timeout(DEATH_TIME_MAX, kafka.died()).await.unwrap();
    load::appended_more(database.pool(), 100).await;
    fs::remove_file(&ballast).unwrap();
    kafka.restart().await.unwrap();
    load.stop().await;
    drained(database.pool(), DRAIN_TIME_MAX).await;
    Stream::assert_is_the_log(&broker::config(&kafka), database.pool()).await;
    kafka.stop().await.unwrap();
}

const SMALL_DISK_BYTES: usize = 64 << 20;

/// Small file system in memory; only root can mount one.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={SMALL_DISK_BYTES}")])
            .arg("none")
            .arg(folder.path())
            .output();
        let is_mounted = mount.is_ok_and(|it| it.status.success());
        is_mounted.then_some(Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmount = Command::new("umount").arg("-l").arg(self.0.path()).status();
        assert!(unmount.is_ok_and(|status| status.success()));
    }
}
