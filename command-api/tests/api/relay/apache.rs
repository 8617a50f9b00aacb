//! What only an Apache Kafka does: these tests do nothing unless the tests are told to use one.

use std::{fs, io::ErrorKind, process::Command, time::Duration};

use linkledger_command_api::relay::publisher::KafkaPublisher;
use linkledger_servers::apache_kafka::ApacheKafkaOptions;
use linkledger_testing::{TestBroker, TestDatabase, stream::Stream};
use tempfile::TempDir;
use tokio::time::timeout;

use super::{
    broker::{self, alter_topic},
    load::{self, Load},
    process::Process,
};

const DRAIN_TIME_MAX: Duration = Duration::from_mins(5);
/// How long a broker may take to give up.
const DEATH_TIME_MAX: Duration = Duration::from_mins(3);

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_takes_too_little_holds_the_relay_up_until_it_is_mended() {
    if !TestBroker::is_apache() {
        return;
    }
    let kafka = broker::apache(ApacheKafkaOptions::default()).await;
    let database = TestDatabase::create().await;
    super::with_links(&database, 3).await;
    let publisher = KafkaPublisher::new(&broker::config(&kafka), "lz4").unwrap();
    let mut relay = super::relay(&database, publisher, "one");
    assert_eq!(relay.step().await.unwrap(), 6);
    // While the relay has a producer that has found the topic in order.
    alter_topic(&kafka, "max.message.bytes", "300").await;
    super::with_links_of(&database, "later", 3).await;
    for _ in 0..3 {
        let error = format!("{:#}", relay.step().await.unwrap_err());
        assert!(error.contains("max.message.bytes"), "{error}");
    }
    alter_topic(&kafka, "max.message.bytes", "1048588").await;
    while relay.step().await.unwrap() > 0 {}
    Stream::assert_is_the_log(&broker::config(&kafka), database.pool()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_refuses_for_a_while_under_load_has_no_hole() {
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
        // The next producer is one whose first batches are refused.
        alter_topic(&kafka, "min.insync.replicas", "2").await;
        drop(process);
        process = start();
        load::appended_more(database.pool(), 200).await;
        alter_topic(&kafka, "min.insync.replicas", "1").await;
    }
    load::published_more(database.pool(), 50).await;
    load.stop().await;
    load::drained(database.pool(), DRAIN_TIME_MAX).await;
    Stream::assert_is_the_log(&broker::config(&kafka), database.pool()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_killed_again_and_again_under_load_has_no_hole() {
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
    load::drained(database.pool(), DRAIN_TIME_MAX).await;
    Stream::assert_is_the_log(&broker::config(&kafka), database.pool()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waited_while_the_disk_of_the_broker_was_full_follows_in_order() {
    let Some(disk) = SmallDisk::mount().filter(|_| TestBroker::is_apache()) else {
        return;
    };
    let options = ApacheKafkaOptions {
        data_dir: Some(disk.0.path().join("kafka")),
        // It is 30 s by default.
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
    // A broker that can't write to its only disk ends.
    timeout(DEATH_TIME_MAX, kafka.died()).await.unwrap();
    load::appended_more(database.pool(), 100).await;
    fs::remove_file(&ballast).unwrap();
    kafka.restart().await.unwrap();
    load.stop().await;
    load::drained(database.pool(), DRAIN_TIME_MAX).await;
    Stream::assert_is_the_log(&broker::config(&kafka), database.pool()).await;
    kafka.stop().await.unwrap();
}

const SMALL_DISK_BYTES: usize = 64 << 20;

/// A file system in memory; only the user root may have one.
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
