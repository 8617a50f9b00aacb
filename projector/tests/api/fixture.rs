//! A database, a broker, and the means to fill them.

use std::time::Duration;

use linkledger_core::{
    account::{Account, AccountStatus},
    clock::{Clock as _, SystemClock, new_uuid},
    cloud_event::PublishedEvent,
    credits::LowBalanceAt,
    event::Event,
    id::AccountId,
    link::LinkCreated,
    shard::Shard,
};
use linkledger_event_store::{
    SessionKind, accounts,
    log::{self, ReadFrom},
    log_meta,
};
use linkledger_projector::{
    Config, clicks::AggregationStop, pipeline::followers::Followers, start,
};
use linkledger_service::{
    databases::{DatabaseSettings, Databases},
    internal_listener::AdminAllowedHosts,
    kafka_config::{ClicksConfig, OnOff},
    kafka_headers,
    lifecycle::Tasks,
};
use linkledger_testing::{TestBroker, TestDatabase, append_events, append_links, eventually};
use rdkafka::{
    message::OwnedHeaders,
    producer::{FutureProducer, FutureRecord},
};
use tokio_util::sync::CancellationToken;

use crate::{
    events::{every_change, granted},
    tables::Tables,
};

/// Address at which clients reach the API.
pub(crate) const BASE_URL: &str = "https://api.example.com";
/// Longest wait for a session of a pool.
const SESSION_TIMEOUT: Duration = Duration::from_mins(2);

/// Database and broker of a test.
pub(crate) struct Fixture {
    pub(crate) database: TestDatabase,
    /// The same database, or the database of the read tables on a server of its own.
    pub(crate) read: TestDatabase,
    pub(crate) broker: TestBroker,
    producer: FutureProducer,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        Self::set_with(TestBroker::start().await).await
    }

    /// Makes the fixture with the given broker.
    pub(crate) async fn set_with(broker: TestBroker) -> Self {
        let database = TestDatabase::create().await;
        Self::on(database.share(), database, broker)
    }

    /// Makes the fixture with the read tables on a server of their own.
    pub(crate) async fn set_on_two_servers() -> Self {
        let (log, read) = TestDatabase::create_two().await;
        Self::on(log, read, TestBroker::start().await)
    }

    pub(crate) fn on(database: TestDatabase, read: TestDatabase, broker: TestBroker) -> Self {
        let producer = broker.client().create().unwrap();
        Self {
            database,
            read,
            broker,
            producer,
        }
    }

    /// Returns pools of sessions like those of a process. They wait longer for a session, and no timeout but
    /// that of a lock ends a statement or a transaction, because a test does not retry on a slow machine.
    pub(crate) fn databases(&self, kind: SessionKind, connections_max: u32) -> Databases {
        let pools = self.settings().pools_by(|url| {
            let pool = linkledger_event_store::pool(url, kind, connections_max)?;
            let options = pool.options().clone().acquire_timeout(SESSION_TIMEOUT);
            let session = (*pool.connect_options()).clone().options([
                ("statement_timeout", "2min"),
                ("idle_in_transaction_session_timeout", "2min"),
            ]);
            Ok(options.connect_lazy_with(session))
        });
        pools.unwrap()
    }

    /// Returns followers of all shards that wait for locks, for tests that hold a lock: on a
    /// slow machine the test may need longer than the lock timeout of a process.
    pub(crate) fn patient_followers(&self) -> Followers {
        let databases = self.databases(SessionKind::Writer, 2);
        for pool in [&databases.log, &databases.read] {
            let options = (*pool.connect_options()).clone();
            pool.set_connect_options(options.options([("lock_timeout", "2min")]));
        }
        Self::assign_all(Followers::new(databases))
    }

    pub(crate) fn settings(&self) -> DatabaseSettings {
        DatabaseSettings {
            read_database_url: Some(self.read.url().to_owned().into()),
            ..DatabaseSettings::one(self.database.url())
        }
    }

    /// Creates an account that was granted credits and has created `links` links.
    pub(crate) async fn account_with_links(&self, name: &str, links: usize) -> AccountId {
        let account_id = AccountId::from_uuid(new_uuid(SystemClock.now()));
        self.set_up_account(account_id, name, links).await;
        account_id
    }

    /// Creates another account in the shard of `neighbour`.
    pub(crate) async fn neighbour_with_links(
        &self,
        neighbour: AccountId,
        name: &str,
        links: usize,
    ) -> AccountId {
        let mut ids = (0..1_000).map(|_| AccountId::from_uuid(new_uuid(SystemClock.now())));
        let account_id = ids.find(|it| Shard::of(*it) == Shard::of(neighbour));
        let account_id = account_id.expect("one of sixteen");
        self.set_up_account(account_id, name, links).await;
        account_id
    }

    /// Creates the account, grants it credits, and creates `links` links. The log has no event of the creation.
    pub(crate) async fn set_up_account(&self, account_id: AccountId, name: &str, links: usize) {
        let account = Account {
            account_id,
            name: name.to_owned(),
            external_id: None,
            low_balance_at: LowBalanceAt::NONE,
            status: AccountStatus::Active,
            created_at: SystemClock.now(),
        };
        let mut session = self.database.pool().acquire().await.unwrap();
        accounts::create_in_tx(&mut session, &account, None)
            .await
            .unwrap();
        drop(session);
        self.grant(account_id).await;
        self.append_links(account_id, name, links).await;
    }

    /// Appends the creation of links whose slugs start with `name`.
    pub(crate) async fn append_links(
        &self,
        account_id: AccountId,
        name: &str,
        links: usize,
    ) -> Vec<LinkCreated> {
        let slugs: Vec<String> = (0..links).map(|index| format!("{name}-{index}X")).collect();
        let links: Vec<_> = slugs
            .iter()
            .map(|slug| (slug.as_str(), "https://example.com/"))
            .collect();
        let settled = append_links(self.database.pool(), account_id, &links).await;
        settled.into_iter().map(|it| it.link).collect()
    }

    /// Appends any events of the account.
    pub(crate) async fn append(&self, account_id: AccountId, events: &[Event]) {
        append_events(self.database.pool(), account_id, events).await;
    }

    /// Appends changes of every type to an account, of links whose slugs start with `name`.
    pub(crate) async fn append_every_change(&self, account_id: AccountId, name: &str) {
        let changes = every_change(self.database.pool(), account_id, name).await;
        self.append(account_id, &changes).await;
    }

    async fn grant(&self, account_id: AccountId) {
        let granted = granted(account_id, 1_000_000, 1_000_000);
        self.append(account_id, &[granted]).await;
    }

    /// Returns the whole log as it would be published.
    pub(crate) async fn log(&self) -> Vec<PublishedEvent> {
        let from: Vec<ReadFrom> = Shard::all()
            .map(|shard| ReadFrom { shard, after: 0 })
            .collect();
        let events = log::read_after(self.database.pool(), &from, 1_000_000)
            .await
            .unwrap();
        let events = events
            .into_iter()
            .map(|event| PublishedEvent::new(event, 1));
        self.signed(events.collect()).await
    }

    /// Returns the events with the codes that the relay gives them: for tests that change events.
    pub(crate) async fn signed(&self, events: Vec<PublishedEvent>) -> Vec<PublishedEvent> {
        let key = log_meta::record_key(self.database.pool()).await.unwrap();
        events.into_iter().map(|it| it.signed(&key)).collect()
    }

    /// Publishes the events in the given order.
    pub(crate) async fn publish(&self, events: &[PublishedEvent]) {
        for published in events {
            let headers = kafka_headers(published.headers());
            self.publish_record(published.event.shard, headers, &published.event.payload)
                .await;
        }
    }

    /// Publishes any record.
    pub(crate) async fn publish_record(&self, shard: Shard, headers: OwnedHeaders, value: &str) {
        let record = FutureRecord::<str, str>::to(self.broker.topic())
            .partition(shard.number().into())
            .headers(headers)
            .payload(value);
        self.producer
            .send(record, Duration::from_mins(2))
            .await
            .unwrap();
    }

    /// Returns followers of all shards.
    pub(crate) fn followers(&self) -> Followers {
        Self::assign_all(self.idle_followers())
    }

    /// Applies the log by followers that begin from the stored checkpoints.
    pub(crate) async fn apply_log(&self) {
        let applied = self.followers().cycle(self.log().await).await;
        applied.expect("the log is applied");
    }

    /// Returns followers without shards.
    pub(crate) fn idle_followers(&self) -> Followers {
        Followers::new(self.databases(SessionKind::Writer, 2))
    }

    fn assign_all(mut followers: Followers) -> Followers {
        followers.set_shards(&Shard::all().collect());
        followers
    }

    /// Returns the settings of a projector.
    pub(crate) fn config(&self) -> Config {
        Config {
            databases: self.settings(),
            allow_unsafe_postgres: true,
            kafka: self.broker.config(),
            clicks: ClicksConfig {
                clicks: OnOff::Off,
                ..self.broker.clicks()
            },
            kafka_fetch_wait_max_ms: 2,
            database_pool_size: 2,
            base_url: BASE_URL.parse().unwrap(),
            admin_allowed_hosts: AdminAllowedHosts::default(),
        }
    }

    /// Starts a projector and waits until it is ready.
    pub(crate) async fn projector(&self) -> RunningProjector {
        self.projector_of(self.config()).await
    }

    /// Starts a projector with these settings and waits until the projector is ready.
    pub(crate) async fn projector_of(&self, config: Config) -> RunningProjector {
        let shutdown = CancellationToken::new();
        let mut tasks = Tasks::new(shutdown.clone());
        let projector = start(config, AggregationStop::AtShutdown, &mut tasks)
            .await
            .unwrap();
        let readiness = &projector.readiness;
        eventually("the projector is ready", || async {
            readiness.is_ready().then_some(())
        })
        .await;
        RunningProjector { tasks, shutdown }
    }

    /// Waits until the read tables are what the log demands.
    pub(crate) async fn eventually_complete(&self) {
        let expected = Tables::of_log(&self.log().await);
        let pool = self.database.pool();
        let complete = async || (Tables::read(pool).await == expected).then_some(());
        eventually("the read tables are complete", complete).await;
    }
}

/// A projector in the test's process.
pub(crate) struct RunningProjector {
    tasks: Tasks,
    shutdown: CancellationToken,
}

impl RunningProjector {
    /// Stops the projector like SIGTERM.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.tasks.join().await.unwrap();
    }
}
