//! Clicks of a made-up recorder on the topic of clicks: the same in every run, except for their instants.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use linkledger_clicks::{
    CLICK_PARTITIONS, Click, ClickDetails, ClickKind, RecordPlace, RecorderId, click_partition,
};
use linkledger_core::{
    clock::{Clock as _, SystemClock, new_uuid, to_millisecond},
    cloud_event::RecordKey,
    id::{AccountId, LinkId},
};
use linkledger_service::kafka_close::ClosedInTime;
use linkledger_service::kafka_headers;
use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseRecord, DefaultProducerContext, Producer as _, ThreadedProducer},
};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    stack::StackProcess,
    visitors::{HUMAN_PERCENT, VisitorShares},
    visits::{SEED, Visits},
};

/// Number of links that are clicked.
pub const LINKS: u32 = 1_000_000;
/// Number of accounts that own the links.
pub const ACCOUNTS: u32 = 1_000;
/// Number of visitors.
pub const VISITORS: u32 = 200_000;
/// Time from the first click to the last one, which is now.
const CLICKED_WITHIN: Duration = Duration::from_mins(5);
/// First id; links have later milliseconds, as real ids.
const FIRST_ID: u128 = 0x019a_a0b1_c2d3_7000_8000_0000_0000_0000;
/// Number of bits behind the milliseconds of a `UUIDv7`.
const BITS_BEHIND_TIME: u32 = 80;
/// Pause while the producer has no room.
const FULL_PAUSE: Duration = Duration::from_millis(2);
const KAFKA_TIMEOUT: Duration = Duration::from_secs(30);

/// Source of clicks.
struct Clicks {
    visits: Visits,
    shares: VisitorShares,
    random: SmallRng,
}

impl Clicks {
    fn new(visits: Visits) -> Self {
        Self {
            visits,
            shares: VisitorShares::new(),
            random: SmallRng::seed_from_u64(SEED),
        }
    }

    fn next(&mut self, clicked_at: OffsetDateTime) -> Click {
        let link = self.visits.next();
        let account = link % ACCOUNTS;
        let (kind, details) = if self.random.random_ratio(HUMAN_PERCENT, 100) {
            (ClickKind::Human, self.details(account))
        } else {
            (ClickKind::Bot, ClickDetails::default())
        };
        Click {
            link_id: LinkId::from_uuid(id(link)),
            account_id: AccountId::from_uuid(id(LINKS + 1 + account)),
            slug: format!("{link:08x}"),
            clicked_at,
            kind,
            count: 1,
            details,
        }
    }

    /// Draws a visitor, who always has the same program and country.
    fn details(&mut self, account: u32) -> ClickDetails {
        let visitor = self.random.random_range(0..VISITORS);
        let mut of_visitor = SmallRng::seed_from_u64(visitor.into());
        let program = self.shares.program(&mut of_visitor);
        let country = self.shares.country(&mut of_visitor);
        // Hashes differ by account.
        let seed = u64::from(account) << 32 | u64::from(visitor);
        ClickDetails {
            visitor: Some(SmallRng::seed_from_u64(seed).random()),
            country: Some(country.to_owned()),
            referrer_host: self.shares.referrer_host(&mut self.random),
            browser: Some(program.browser.to_owned()),
            os: Some(program.os.to_owned()),
            device: Some(program.device),
        }
    }
}

fn id(number: u32) -> Uuid {
    Uuid::from_u128(FIRST_ID + (u128::from(number) << BITS_BEHIND_TIME))
}

/// Key of the codes of the published records, for databases that count them.
pub const RECORD_KEY: &[u8; 32] = b"a key that clicks are made with.";

/// The topic of clicks of a running stack.
#[derive(Debug, Clone)]
pub struct ClicksTopic {
    brokers: String,
    topic: String,
}

/// A click on the topic.
#[derive(Debug, Clone, Copy)]
pub struct PublishedClick {
    /// Partition of the record.
    pub partition: u8,
    /// Offset of the record.
    pub offset: i64,
    /// Instant of the click.
    pub clicked_at: OffsetDateTime,
}

impl ClicksTopic {
    /// Returns the topic of a stack.
    ///
    /// # Errors
    /// Returns an error if the file `env` of the stack lacks its name.
    pub fn of(stack: &StackProcess) -> anyhow::Result<Self> {
        Ok(Self {
            brokers: stack.variable("KAFKA_BROKERS")?.to_owned(),
            topic: stack.variable("KAFKA_CLICKS_TOPIC")?.to_owned(),
        })
    }

    /// Publishes clicks of the last minutes, as one recorder with the key [`RECORD_KEY`] does: with sequences without gaps.
    /// Blocks until the broker has acknowledged all of them.
    ///
    /// # Errors
    /// Returns an error if the broker does not accept a record.
    pub fn publish(&self, count: u32) -> anyhow::Result<()> {
        let producer: ThreadedProducer<DefaultProducerContext> = self
            .client()
            .set("acks", "all")
            .set("enable.idempotence", "true")
            .set("compression.type", "lz4")
            .create()
            .context("can't make a Kafka producer")?;
        let before = self.records()?;
        let now = SystemClock.now();
        let recorder_id = RecorderId(new_uuid(now));
        let mut clicks = Clicks::new(Visits::draw(LINKS)?);
        let mut sequences = [0; CLICK_PARTITIONS as usize];
        for number in 1..=count {
            let age = CLICKED_WITHIN.mul_f64(1.0 - f64::from(number) / f64::from(count));
            let click = clicks.next(to_millisecond(now - age));
            let partition = click_partition(click.link_id);
            let sequence = &mut sequences[usize::from(partition)];
            *sequence += 1;
            let place = RecordPlace {
                recorder_id,
                partition,
                sequence: *sequence,
            };
            self.send(&producer, &click, place)?;
        }
        producer.flush(KAFKA_TIMEOUT)?;
        let published = self.records()? - before;
        ensure!(
            published == i64::from(count),
            "the topic has {published} of {count} clicks"
        );
        Ok(())
    }

    fn send(
        &self,
        producer: &ThreadedProducer<DefaultProducerContext>,
        click: &Click,
        place: RecordPlace,
    ) -> anyhow::Result<()> {
        let (key, value) = (click.link_id.to_string(), click.to_value());
        let headers = kafka_headers(place.headers(&value, &RecordKey::new(RECORD_KEY)));
        let mut record = BaseRecord::to(&self.topic)
            .partition(place.partition.into())
            .key(&key)
            .payload(&value)
            .headers(headers);
        loop {
            match producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), refused)) => {
                    record = refused;
                    thread::sleep(FULL_PAUSE);
                }
                Err((error, _)) => return Err(error).context("can't publish a click"),
            }
        }
    }

    /// Returns the number of records on the topic. Blocks.
    ///
    /// # Errors
    /// Returns an error if the broker does not answer.
    pub fn records(&self) -> anyhow::Result<i64> {
        let consumer = self.consumer()?;
        let ends = self.ends(&consumer)?;
        Ok(ends.values().sum())
    }

    /// Reads all clicks on the topic. Blocks.
    ///
    /// # Errors
    /// Returns an error if the broker does not answer, or if a record is no click.
    pub fn read(&self) -> anyhow::Result<Vec<PublishedClick>> {
        let consumer = self.consumer()?;
        let ends = self.ends(&consumer)?;
        let mut list = TopicPartitionList::new();
        for partition in ends.keys() {
            list.add_partition_offset(&self.topic, i32::from(*partition), Offset::Beginning)?;
        }
        consumer.assign(&list)?;
        let count = usize::try_from(ends.values().sum::<i64>())?;
        let mut clicks = Vec::with_capacity(count);
        let deadline = Instant::now() + KAFKA_TIMEOUT;
        while clicks.len() < count {
            ensure!(
                Instant::now() < deadline,
                "the clicks can't be read in 30 s"
            );
            let Some(message) = consumer.poll(FULL_PAUSE) else {
                continue;
            };
            let message = message?;
            let value = message.payload().context("a record without a value")?;
            clicks.push(PublishedClick {
                partition: u8::try_from(message.partition())?,
                offset: message.offset(),
                clicked_at: Click::from_value(value)?.clicked_at,
            });
        }
        Ok(clicks)
    }

    /// Returns the end of each partition; no record has expired.
    fn ends(&self, consumer: &BaseConsumer) -> anyhow::Result<BTreeMap<u8, i64>> {
        let ends = (0..CLICK_PARTITIONS).map(|partition| {
            let (begin, end) =
                consumer.fetch_watermarks(&self.topic, partition.into(), KAFKA_TIMEOUT)?;
            ensure!(begin == 0, "the topic has lost its first clicks");
            Ok((partition, end))
        });
        ends.collect()
    }

    fn consumer(&self) -> anyhow::Result<ClosedInTime<BaseConsumer>> {
        self.client()
            .set("group.id", "bench")
            .set("enable.auto.commit", "false")
            .create()
            .map(ClosedInTime::new)
            .context("can't make a Kafka consumer")
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers);
        config
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use linkledger_clicks::ClickKind;
    use time::macros::datetime;

    use super::{ACCOUNTS, Click, Clicks, HUMAN_PERCENT, LINKS, Visits};

    const COUNT: usize = 20_000;

    fn clicks() -> Vec<Click> {
        let mut clicks = Clicks::new(Visits::draw_some(LINKS, COUNT).unwrap());
        let at = datetime!(2026-11-23 09:51 UTC);
        (0..COUNT).map(|_| clicks.next(at)).collect()
    }

    #[test]
    fn clicks_are_the_same_in_every_run() {
        assert_eq!(clicks(), clicks());
    }

    #[test]
    fn clicks_have_the_documented_spread() {
        let clicks = clicks();
        let humans = clicks.iter().filter(|it| it.kind == ClickKind::Human);
        let percent = humans.clone().count() * 100 / COUNT;
        assert!(percent.abs_diff(HUMAN_PERCENT as usize) <= 2, "{percent}");
        let accounts: HashSet<_> = clicks.iter().map(|it| it.account_id).collect();
        assert_eq!(accounts.len(), ACCOUNTS as usize);
        let visitors: HashSet<_> = humans.map(|it| it.details.visitor).collect();
        assert!(visitors.len() > COUNT / 2, "{}", visitors.len());
    }
}
