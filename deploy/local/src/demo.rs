//! `linkledger demo`: an account with made-up links and a week of made-up clicks, for a first look at charts.
//!
//! Links are created through the HTTP API, with fixed idempotency keys. Clicks are records on the topic: those of
//! a day have a recorder of their own, and depend on nothing but seed, account and day. So a second run creates
//! nothing twice, counts nothing twice, and publishes only records that are not counted yet.

mod described;
mod made_up;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use anyhow::{Context as _, bail};
use clap::Args;
use futures::{StreamExt as _, stream};
use linkledger_clicks::{
    CLICK_PARTITIONS, Click, ClickKind, RecordPlace, RecorderId, click_partition,
};
use linkledger_core::{
    api_key::ApiKey,
    clock::{Clock as _, SystemClock},
    cloud_event::RecordKey,
    config::Secret,
    id::{AccountId, LinkId},
    timestamp,
};
use linkledger_event_store::{SessionKind, api_keys, log_meta};
use linkledger_service::kafka_headers;
use linkledger_service::{
    kafka_config::{KafkaConfig, TopicName},
    number_format::counted,
};
use rdkafka::{
    ClientConfig,
    producer::{FutureProducer, FutureRecord},
};
use serde::Deserialize;
use serde_json::Value;
use sqlx::PgPool;
use time::{OffsetDateTime, UtcOffset};
use uuid::Uuid;

use self::made_up::DayClicks;
use crate::{
    client::{
        ApiClient, ApiTarget, CallFailure, RetryPolicy,
        batch::{BatchMode, ItemOutcome, NewLink, requests},
    },
    data_folder::DataFolder,
    demo_account::{DemoAccount, demo_key},
    environment::EnvironmentFile,
    options::DATA_DIR,
    output::{note, print},
};

/// Account of the command. The stack gives a new account as many credits as the links need, and some more.
const ACCOUNT: DemoAccount = DemoAccount {
    name: "made up by linkledger demo",
    key_file: "made_up_key",
    credits: 10_000,
};
/// Namespace of the ids that the command computes.
const NAMESPACE: Uuid = Uuid::from_u128(0x6d61_6465_2d75_4070_8c6b_2d63_6c69_636b);
const LINKS: usize = 300;
const DAYS: u16 = 7;
/// Timeout of the broker for a record, and of the client for room in its queue.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of records that wait for the broker.
const RECORDS_MAX: usize = 5_000;

/// Options of `linkledger demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoOptions {
    /// Data folder of the stack on this machine.
    #[arg(long, env = "LINKLEDGER_DATA_DIR", value_name = "FOLDER", default_value = DATA_DIR)]
    data_dir: PathBuf,
}

/// A made-up link, as the API has created it.
#[derive(Debug)]
struct MadeUpLink {
    id: LinkId,
    slug: String,
}

/// Numbers of the clicks.
#[derive(Debug, Default)]
struct Published {
    people: u64,
    bots: u64,
    /// Records of this run.
    records: usize,
}

#[derive(Deserialize)]
struct CreatedLink {
    id: String,
    short_url: String,
}

/// Creates the account, its links and their clicks, and prints how to show them.
pub(crate) async fn run(demo: DemoOptions) -> anyhow::Result<()> {
    let folder = DataFolder::locate(&demo.data_dir);
    let stack = EnvironmentFile::read(&folder)?.with_context(|| {
        let file = EnvironmentFile::path(&folder);
        format!(
            "there is no file {}; start the stack with `linkledger`",
            file.display()
        )
    })?;
    let kafka = clicks_topic(&stack)?;
    let (account_id, key) = account(&folder, &stack).await?;
    note("creating made-up links …");
    let links = create_links(&stack, &key).await?;
    note("publishing made-up clicks …");
    let now = SystemClock.now();
    let pool =
        linkledger_event_store::pool(variable(&stack, "DATABASE_URL")?, SessionKind::Reader, 1)?;
    let published = publish(&kafka, &pool, account_id, &links, now).await;
    pool.close().await;
    let published = published?;
    let clicks = counted(published.records as u64, "click");
    note(&format!("published {clicks}"));
    print(&text(&folder, account_id, &published, now))
}

/// Returns the value of a variable of the stack.
fn variable<'a>(stack: &'a EnvironmentFile, name: &str) -> anyhow::Result<&'a str> {
    stack
        .get(name)
        .with_context(|| format!("the file env of the stack has no {name}; start the stack again"))
}

/// Returns brokers and topic of the clicks.
fn clicks_topic(stack: &EnvironmentFile) -> anyhow::Result<KafkaConfig> {
    if variable(stack, "CLICKS")? == "off" {
        bail!("the stack runs with --clicks off; start it without this option");
    }
    if variable(stack, "KAFKA_SECURITY_PROTOCOL")? != "plaintext" {
        bail!(
            "the command publishes to the stack's own broker, or to brokers without TLS and SASL"
        );
    }
    Ok(KafkaConfig {
        topic: variable(stack, "KAFKA_CLICKS_TOPIC")?.parse()?,
        ..KafkaConfig::plaintext(variable(stack, "KAFKA_BROKERS")?.to_owned())
    })
}

/// Returns the account of the command with its API key, and creates both at the first run.
async fn account(
    folder: &DataFolder,
    stack: &EnvironmentFile,
) -> anyhow::Result<(AccountId, ApiKey)> {
    let pool =
        linkledger_event_store::pool(variable(stack, "DATABASE_URL")?, SessionKind::Writer, 1)?;
    let made = async {
        let key = demo_key(folder, &pool, &SystemClock, ACCOUNT).await?;
        let stored = api_keys::find(&pool, &key).await?;
        let stored = stored.context("the API key of the account is gone; run the command again")?;
        anyhow::Ok((stored.account_id, key))
    };
    let made = made
        .await
        .context("cannot create the account; does the stack run?");
    pool.close().await;
    made
}

/// Creates the links that are missing, and returns all.
async fn create_links(stack: &EnvironmentFile, key: &ApiKey) -> anyhow::Result<Vec<MadeUpLink>> {
    let target = ApiTarget {
        api_url: variable(stack, "API_URL")?.parse()?,
        api_key: Secret::from(key.reveal().to_owned()),
    };
    let client = &ApiClient::new(target, RetryPolicy::BULK, note)?;
    let mut created = Vec::with_capacity(LINKS);
    for request in requests((0..LINKS).map(described::link).map(NewLink::new)) {
        for link in send_creates(client, &request).await? {
            created.push(made_up_link(link)?);
        }
    }
    Ok(created)
}

/// Sends the creates of one request, and returns the links in order.
async fn send_creates(client: &ApiClient, creates: &[NewLink]) -> Result<Vec<Value>, CallFailure> {
    let batch = client.create_links(creates, BatchMode::Partial).await;
    if let Some(failure) = batch.failure {
        return Err(failure);
    }
    let outcomes = batch.items.into_iter().flatten();
    let links = outcomes.map(|outcome| match outcome {
        ItemOutcome::Created { link, .. } => Ok(link),
        ItemOutcome::Refused(refusal) => Err(CallFailure::Refused(refusal)),
    });
    links.collect()
}

fn made_up_link(link: Value) -> anyhow::Result<MadeUpLink> {
    let link: CreatedLink = serde_json::from_value(link).context("the API returned no link")?;
    let slug = link.short_url.rsplit('/').next().unwrap_or_default();
    Ok(MadeUpLink {
        id: link
            .id
            .parse()
            .context("the API returned no id of a link")?,
        slug: slug.to_lowercase(),
    })
}

/// Publishes the clicks of the last days up to now, except counted ones: those of each day as a recorder of their
/// own.
async fn publish(
    kafka: &KafkaConfig,
    pool: &PgPool,
    account_id: AccountId,
    links: &[MadeUpLink],
    now: OffsetDateTime,
) -> anyhow::Result<Published> {
    let writer = ClickWriter::new(kafka, pool).await?;
    let mut published = Published::default();
    let today = now.to_offset(UtcOffset::UTC).date();
    for age in (0..DAYS).rev() {
        let day = today - time::Duration::days(age.into());
        let seed = Uuid::new_v5(&NAMESPACE, format!("{account_id} {day}").as_bytes());
        let recorder_id = RecorderId(seed);
        let last_sequences = counted_sequences(pool, recorder_id)
            .await
            .context("cannot read which clicks are counted")?;
        let mut sequences = [0_u64; CLICK_PARTITIONS as usize];
        let clicks = DayClicks::new(seed.as_u64_pair().1, day, LINKS).up_to(now);
        let sending = clicks.into_iter().filter_map(|made_up| {
            let link = &links[made_up.link];
            let click = made_up.click(account_id, link.id, link.slug.clone());
            match click.kind {
                ClickKind::Human => published.people += 1,
                ClickKind::Bot => published.bots += 1,
            }
            let partition = click_partition(click.link_id);
            let sequence = &mut sequences[usize::from(partition)];
            *sequence += 1;
            let last = last_sequences.get(&partition.into());
            if last.is_some_and(|last| sequence.cast_signed() <= *last) {
                return None;
            }
            published.records += 1;
            let place = RecordPlace {
                recorder_id,
                partition,
                sequence: *sequence,
            };
            Some(writer.send(place, &click))
        });
        let mut sent = stream::iter(sending).buffered(RECORDS_MAX);
        while let Some(sent) = sent.next().await {
            sent.context("cannot publish clicks; run the command again")?;
        }
    }
    Ok(published)
}

/// Returns the sequence up to which the records of a recorder are counted, by partition.
async fn counted_sequences(
    pool: &PgPool,
    recorder_id: RecorderId,
) -> sqlx::Result<BTreeMap<i16, i64>> {
    let statement = "SELECT partition, sequence FROM clicks.sequences WHERE recorder_id = $1";
    let rows: Vec<(i16, i64)> = sqlx::query_as(statement)
        .bind(recorder_id.0)
        .fetch_all(pool)
        .await?;
    Ok(rows.into_iter().collect())
}

/// Writer of the topic of clicks, as query-api is.
struct ClickWriter {
    producer: FutureProducer,
    topic: TopicName,
    key: RecordKey,
}

impl ClickWriter {
    async fn new(kafka: &KafkaConfig, pool: &PgPool) -> anyhow::Result<Self> {
        let mut config: ClientConfig = kafka.client_settings()?.collect();
        let timeout_ms = PUBLISH_TIMEOUT.as_millis().to_string();
        config
            .set("enable.idempotence", "true")
            .set("message.timeout.ms", timeout_ms)
            // The embedded broker keeps few MiB of a partition.
            .set("compression.type", "lz4")
            .set("allow.auto.create.topics", "false");
        let producer = config.create().context("cannot create a Kafka producer")?;
        let key = log_meta::click_record_key(pool).await;
        let key = key.context("cannot read the key of the records of clicks")?;
        Ok(Self {
            producer,
            topic: kafka.topic.clone(),
            key,
        })
    }

    /// Gives the producer a record at once, so that records are in the order of the calls. Returns the wait for the
    /// broker.
    fn send(
        &self,
        place: RecordPlace,
        click: &Click,
    ) -> impl Future<Output = anyhow::Result<()>> + use<> {
        let value = click.to_value();
        let link = click.link_id.to_string();
        let record = FutureRecord::to(self.topic.as_str())
            .partition(place.partition.into())
            .headers(kafka_headers(place.headers(&value, &self.key)))
            .key(&link)
            .payload(&value);
        let queued = self
            .producer
            .send_result(record)
            .map_err(|(error, _)| error);
        async move {
            queued?.await?.map_err(|(error, _)| error)?;
            Ok(())
        }
    }
}

fn text(
    folder: &DataFolder,
    account_id: AccountId,
    published: &Published,
    now: OffsetDateTime,
) -> String {
    let Published { people, bots, .. } = published;
    let program = std::env::args().next();
    let program = program.as_deref().unwrap_or("linkledger");
    let (key_file, data_dir) = (folder.path(ACCOUNT.key_file), folder.data_dir_argument());
    let show = format!(
        "LINKLEDGER_API_KEY_FILE={} {program} clicks{data_dir}",
        key_file.display()
    );
    format!(
        "Made up: account {account_id} has {LINKS} links, with {people} clicks of people and {bots} of bots in the \
         {DAYS} days until {until}.\n\
         No visitor was real. No other account was touched.\n\
         Show them (they are counted within seconds):\n\n\
         {show}\n{show} --by country\n{show} --by link\n",
        until = timestamp::format(now),
    )
}
