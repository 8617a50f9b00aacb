//! The services against an Apache Kafka with TLS, SCRAM and the rights of `deploy/kafka/acls`.

mod fixture;
mod secure_kafka;

use std::{fs, time::Duration};

use linkledger_service::kafka_config::KafkaConfig;
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::RDKafkaErrorCode,
    producer::{FutureProducer, FutureRecord},
};

use fixture::Fixture;
use secure_kafka::{CLICKS_CONSUMER, CONSUMER, OPERATOR, RECORDER, new_authority};

/// Longest wait for the broker to refuse an operation.
const REFUSAL_TIMEOUT: Duration = Duration::from_mins(2);
const ANSWERS_MAX: usize = 5;
/// Group of the Kafka clients of projectors, which nobody joins.
const PROJECTORS: &str = "linkledger-projector";
/// Largest number of logged lines: a first line may come before the cause is known, and another
/// line may be about a setting.
const LINES_MAX: usize = 3;

fn client(kafka: &KafkaConfig) -> ClientConfig {
    kafka.client_settings().unwrap().collect()
}

/// Reads the topic without a group, and returns the error of the broker, if any.
fn read(kafka: &KafkaConfig) -> Option<RDKafkaErrorCode> {
    let mut config = client(kafka);
    let consumer: BaseConsumer = config.set("group.id", "any").create().unwrap();
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_range(kafka.topic.as_str(), 0, 15);
    partitions.set_all_offsets(Offset::Beginning).unwrap();
    consumer.assign(&partitions).unwrap();
    // The consumer also reports that it may not use its group.
    let mut answers = (0..ANSWERS_MAX).map(|_| consumer.poll(REFUSAL_TIMEOUT).expect("an answer"));
    let of_group = Some(RDKafkaErrorCode::GroupAuthorizationFailed);
    answers.find_map(|answer| match answer {
        Ok(_) => Some(None),
        Err(error) => Some(error.rdkafka_error_code()).filter(|code| *code != of_group),
    })?
}

/// Describes the topic, and returns the error of the broker, if any.
fn describe(kafka: &KafkaConfig) -> Option<RDKafkaErrorCode> {
    let consumer: BaseConsumer = client(kafka).create().unwrap();
    let topic = kafka.topic.as_str();
    let metadata = consumer.fetch_metadata(Some(topic), REFUSAL_TIMEOUT);
    let metadata = metadata.unwrap();
    metadata.topics()[0].error().map(RDKafkaErrorCode::from)
}

/// Reads the topic as a member of the group, and returns the error of the broker, if any.
fn join(kafka: &KafkaConfig, group: &str) -> Option<RDKafkaErrorCode> {
    let mut config = client(kafka);
    config
        .set("group.id", group)
        .set("auto.offset.reset", "earliest");
    let consumer: BaseConsumer = config.create().unwrap();
    consumer.subscribe(&[kafka.topic.as_str()]).unwrap();
    // The first group of a cluster waits until the broker has made its topic of offsets.
    let answer = (0..ANSWERS_MAX).find_map(|_| consumer.poll(REFUSAL_TIMEOUT));
    answer
        .expect("an answer")
        .err()
        .and_then(|error| error.rdkafka_error_code())
}

/// Writes to the topic, and returns the error of the broker, if any.
async fn write(kafka: &KafkaConfig) -> Option<RDKafkaErrorCode> {
    send(kafka, &client(kafka)).await
}

/// Writes to the topic as an idempotent producer, and returns the error of the broker, if any.
async fn write_idempotently(kafka: &KafkaConfig) -> Option<RDKafkaErrorCode> {
    let mut config = client(kafka);
    send(kafka, config.set("enable.idempotence", "true")).await
}

async fn send(kafka: &KafkaConfig, config: &ClientConfig) -> Option<RDKafkaErrorCode> {
    let producer: FutureProducer = config.create().unwrap();
    let record = FutureRecord::<str, str>::to(kafka.topic.as_str()).payload("forged");
    let sent = producer.send(record, REFUSAL_TIMEOUT).await;
    sent.err().and_then(|(error, _)| error.rdkafka_error_code())
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_rights_suffice_for_relay_and_projector() {
    let fixture = Fixture::new("rights").await;
    let [relay, projector] = secure_kafka::USERS.map(|user| fixture.user(user));
    let command_api = fixture.command_api(&relay).await;
    let reader = fixture.projector(&projector);
    for _ in 0..3 {
        fixture.create().await;
    }
    fixture.eventually_read().await;
    fixture.eventually_received().await;
    let checked = fixture.topic_command("check", &relay);
    assert!(checked.status.success(), "{checked:?}");
    assert_eq!(command_api.errors(), [] as [String; 0]);
    assert_eq!(reader.errors(), [] as [String; 0]);

    let refused = Some(RDKafkaErrorCode::TopicAuthorizationFailed);
    assert_eq!(write(&projector).await, refused);
    assert_eq!(write(&fixture.user(OPERATOR)).await, refused);
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_rights_let_consumers_only_read() {
    let fixture = Fixture::new("consumed").await;
    let [relay, projector] = secure_kafka::USERS.map(|user| fixture.user(user));
    let consumer = fixture.user(CONSUMER);
    let _command_api = fixture.command_api(&relay).await;
    let _reader = fixture.projector(&projector);
    fixture.create().await;
    fixture.eventually_read().await;

    assert_eq!(read(&consumer), None);
    assert_eq!(join(&consumer, "analytics.nightly"), None);
    let of_group = Some(RDKafkaErrorCode::GroupAuthorizationFailed);
    assert_eq!(join(&consumer, PROJECTORS), of_group);
    assert_eq!(join(&relay, PROJECTORS), of_group);
    let refused = Some(RDKafkaErrorCode::TopicAuthorizationFailed);
    assert_eq!(write(&consumer).await, refused);
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_rights_on_clicks_are_the_least() {
    let fixture = Fixture::new("clicked").await;
    let refused = Some(RDKafkaErrorCode::TopicAuthorizationFailed);
    let of_clicks = |user| fixture.user_of_clicks(user);
    assert_eq!(write_idempotently(&of_clicks(RECORDER)).await, None);
    assert_eq!(read(&of_clicks(RECORDER)), refused);
    assert_eq!(describe(&fixture.user(RECORDER)), refused);

    assert_eq!(join(&of_clicks("projector"), PROJECTORS), None);
    assert_eq!(join(&of_clicks(CLICKS_CONSUMER), "marketing.daily"), None);
    assert_eq!(describe(&of_clicks(CONSUMER)), refused);
    assert_eq!(describe(&fixture.user(CLICKS_CONSUMER)), refused);
    for user in ["projector", "relay", OPERATOR, CLICKS_CONSUMER] {
        assert_eq!(write(&of_clicks(user)).await, refused, "{user}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn relay_that_cannot_read_names_the_missing_right() {
    let fixture = Fixture::new("unreadable").await;
    let [relay, projector] = secure_kafka::USERS.map(|user| fixture.user(user));
    let reader = fixture.projector(&projector);
    let command_api = fixture.command_api(&relay).await;
    // The topic has records then.
    fixture.eventually_received().await;
    fixture.eventually_read().await;
    drop(command_api);
    fixture.forget_what_was_published().await;
    fixture.revoke_read("relay");
    assert_eq!(
        read(&relay),
        Some(RDKafkaErrorCode::TopicAuthorizationFailed)
    );
    let command_api = fixture.command_api(&relay).await;
    command_api
        .eventually_says("grant it Read on the topic")
        .await;
    assert_eq!(command_api.errors().len(), 1, "{:?}", command_api.errors());

    fixture.grant_rights();
    fixture.create().await;
    fixture.eventually_read().await;
    assert_eq!(reader.errors(), [] as [String; 0]);
}

/// Asserts that a wrong setting leads to one logged error of the relay and one of the projector,
/// that creates still succeed, and that all events flow after the setting is mended.
async fn told_once(fixture: &Fixture, wrong: [&KafkaConfig; 2], expected: [&str; 2]) {
    let command_api = fixture.command_api(wrong[0]).await;
    let reader = fixture.projector(wrong[1]);
    fixture.create().await;
    for (service, expected) in [&command_api, &reader].into_iter().zip(expected) {
        service.eventually_says(expected).await;
    }
    fixture.relay_has_failed().await;
    // The projector has two consumers: of events, and of clicks.
    for ((service, clients), expected) in
        [(&command_api, 1), (&reader, 2)].into_iter().zip(expected)
    {
        let errors = service.errors();
        let telling = errors.iter().filter(|it| it.contains(expected)).count();
        let is_once = (1..=clients).contains(&telling) && errors.len() <= LINES_MAX * clients;
        assert!(is_once, "{expected}: {errors:#?}");
    }
    drop([command_api, reader]);
    let [relay, projector] = secure_kafka::USERS.map(|user| fixture.user(user));
    let command_api = fixture.command_api(&relay).await;
    let reader = fixture.projector(&projector);
    fixture.eventually_read().await;
    fixture.eventually_received().await;
    for service in [&command_api, &reader] {
        assert_eq!(service.errors(), [] as [String; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_kafka_password_is_logged_once() {
    let fixture = Fixture::new("password").await;
    let wrong_file = fixture.folder.path().join("wrong.password");
    fs::write(&wrong_file, "of another system").unwrap();
    let [relay, projector] = secure_kafka::USERS.map(|user| {
        let mut kafka = fixture.user(user);
        kafka.security.password_file = Some(wrong_file.clone());
        kafka
    });
    let output = fixture.topic_command("check", &relay);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("--kafka-password-file") && message.lines().count() == 1,
        "{message}"
    );
    assert_eq!(output.status.code(), Some(1));
    let expected = "Kafka refuses the user name or the password; correct --kafka-username";
    told_once(&fixture, [&relay, &projector], [expected; 2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn untrusted_kafka_certificate_is_logged_once() {
    let fixture = Fixture::new("authority").await;
    new_authority(fixture.folder.path(), "other");
    let [relay, projector] = secure_kafka::USERS.map(|user| {
        let mut kafka = fixture.user(user);
        kafka.security.ca_file = Some(fixture.folder.path().join("other.pem"));
        kafka
    });
    let expected = "signed by one in --kafka-ca-file";
    told_once(&fixture, [&relay, &projector], [expected; 2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_kafka_right_is_named_once() {
    let fixture = Fixture::new("lacking").await;
    let [relay, projector] = secure_kafka::USERS.map(|user| fixture.user(user));
    let expected = [
        "needs Read, Write, Describe and DescribeConfigs on the topic",
        "needs Read and Describe on the topic, and Read on the group",
    ];
    told_once(&fixture, [&projector, &relay], expected).await;
}
